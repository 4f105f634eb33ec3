//! Partition tables, the partitions of them that are kept, and the file systems that
//! the first blocks of a partition show.

pub mod file_system;
pub mod gpt;
pub mod kept_partitions;
pub mod mbr;
pub mod saved_partitions;
pub mod table_error;
