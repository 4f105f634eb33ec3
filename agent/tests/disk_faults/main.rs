//! Tests with disks and machines that fail while the program writes an image.
//! After each fault the disk must boot the right system or nothing, and the
//! message must say what happened and where.
//!
//! These tests run the real program on a real block device: a loop device over a
//! file, or over a disk in memory that fails on request. They need root.

#![expect(
    clippy::unwrap_used,
    reason = "what a test finds wrong ends it, outside of test functions as well"
)]

mod asked_to_end;
mod bad_sectors;
mod firmware_view;
mod killed;
mod power_cut;
mod program;
mod system_image;
