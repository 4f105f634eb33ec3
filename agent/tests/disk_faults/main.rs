//! Disks and machines that fail while the program writes an image: after each
//! fault the disk boots the right system or none, and the message says what
//! happened and where.
//!
//! The program is the real one and its disk a real block device: a loop device
//! over a file, or over a disk in memory that fails on request. That needs
//! root.

#![expect(
    clippy::unwrap_used,
    reason = "what a test finds wrong ends it, outside of test functions as well"
)]

mod asked_to_end;
mod bad_sectors;
#[path = "../../src/disk/fixtures/faulty_disk.rs"]
mod faulty_disk;
mod firmware_view;
mod image_server;
mod killed;
#[path = "../../src/loop_device.rs"]
mod loop_device;
mod power_cut;
mod program;
#[path = "../../src/skip.rs"]
mod skip;
mod system_image;
