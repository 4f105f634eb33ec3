//! Making a disk forget: its metadata, or everything.

pub mod boot_medium;
pub mod guard;
pub mod metadata;
pub mod signatures;
