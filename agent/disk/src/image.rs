//! Moves an image to the disk: decodes and hashes it, checks its first MiB, writes
//! it, reads it back, and makes it visible to firmware.

pub mod decode;
pub mod ends;
pub mod format_policy;
pub mod image_head;
pub mod pipeline;
pub mod proven_image;
pub mod qcow2;
pub mod read_back;
pub mod sparse_write;
pub mod write_image;
