//! Partition tables, the partitions that an installation keeps, and the detection of a
//! partition's file system.

pub mod file_system;
pub mod gpt;
pub mod kept_partitions;
pub mod mbr;
pub mod saved_partitions;
pub mod table_error;
