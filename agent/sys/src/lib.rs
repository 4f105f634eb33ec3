//! Thin safe wrappers for system calls and processor instructions. No other crate of this
//! repository contains `unsafe` code.
//!
//! This crate uses no other crate of the agent. A few modules without `unsafe` are here
//! because several crates need them: readers of /sys and /proc, state files, dates,
//! pauses between attempts, calls that are repeated while a disk or a mount is busy.

#![allow(unsafe_code)]

pub mod backoff;
pub mod block_ioctl;
pub mod block_partition;
pub mod boot_clock;
pub mod calendar;
pub mod confinement;
pub mod dm_ioctl;
pub mod ethtool;
pub mod ethtool_private_flags;
pub mod file_flags;
pub mod freed_memory;
pub mod interface_addresses;
pub mod ipmi;
pub mod kexec_file;
pub mod link_flags;
pub mod lldp_socket;
pub mod md_ioctl;
pub mod memory_use;
pub mod mount;
pub mod nvme_ioctl;
pub mod packet_socket;
pub mod private_file;
pub mod route_group;
pub mod scsi_generic;
#[cfg(feature = "sealed-file")]
pub mod sealed_file;
pub mod serial_speed;
pub mod service_notify;
#[cfg(target_arch = "x86_64")]
pub mod sha2_avx2;
#[cfg(not(target_arch = "x86_64"))]
#[path = "sha2_avx2/absent.rs"]
pub mod sha2_avx2;
pub mod state_file;
pub mod sysfs;
pub mod system_path;
pub mod terminal_keys;
pub mod uevent;
pub mod wall_clock;
pub mod watchdog_ioctl;
pub mod while_busy;
pub mod window_size;
pub mod xattr;
pub mod zero_range;

#[cfg(any(test, feature = "fixtures"))]
#[allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "for tests"
)]
pub mod loop_device;
#[cfg(any(test, feature = "fixtures"))]
#[allow(clippy::print_stderr, reason = "for tests")]
pub mod skip;
#[cfg(any(test, feature = "fixtures"))]
#[allow(clippy::unwrap_used, clippy::expect_used, reason = "for tests")]
pub mod sys_tree;
