//! Everything that reads or writes disks: images, partition tables, config drives,
//! software RAIDs, erasure. The data of an image goes one way: fetch, decode and
//! hash, write, read back.

pub mod aligned_buffer;
pub mod busy;
pub mod checksum_file;
pub mod config_drive;
pub mod decode;
pub mod device_lock;
pub mod device_mapper;
pub mod digest;
pub mod ends;
pub mod erase;
pub mod fetch;
pub mod file_system;
pub mod flush;
pub mod format_policy;
pub mod gpt;
pub mod image_head;
pub mod kept_partitions;
pub mod mbr;
pub mod pipeline;
pub mod proof;
pub mod proven_image;
pub mod qcow2;
pub mod read_back;
pub mod resume;
pub mod saved_partitions;
pub mod signature;
pub mod signature_file;
pub mod slow_answer;
pub mod software_raid;
pub mod sparse_write;
pub mod target;
pub mod write_image;
pub mod written_extents;
pub mod zeros;

#[cfg(test)]
pub mod fixtures;
