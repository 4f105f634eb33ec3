//! Erases the metadata of a disk, or all of its data.

pub mod ata;
mod ata_pass_through;
pub mod guard;
pub mod metadata;
pub mod nvme;
pub mod overwrite;
pub mod signatures;
