//! Writes disks: an image that is decoded while it arrives, partition tables, config
//! drives, software RAIDs, erasure. A disk boots only after the image on it has passed
//! all checks.

pub mod config_drive;
pub mod critical_section;
pub mod device;
pub mod erase;
pub mod image;
pub mod software_raid;
pub mod tables;

#[cfg(any(test, feature = "fixtures"))]
#[allow(clippy::unwrap_used, clippy::expect_used, reason = "for tests")]
pub mod fixtures;
