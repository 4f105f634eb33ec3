//! Making a disk forget: its metadata, or everything.

pub mod ata;
mod ata_pass_through;
pub mod guard;
pub mod metadata;
pub mod nvme;
pub mod overwrite;
pub mod signatures;
