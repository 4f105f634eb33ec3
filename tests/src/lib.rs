//! End-to-end tests: real kernel, firmware, GRUB and Ignition in QEMU, with a
//! scripted conductor. The crates of the benchmarks and of the tests with the real Ironic
//! use the same lab.
//!
//! [`lab`] gives each test its own network, [`vm`] a machine in it. The [`journal`]
//! records all events with the host's time.

#![allow(clippy::print_stderr)]

pub mod artifacts;
pub mod authority;
pub mod ca_bundle;
pub mod capture;
pub mod conductor;
pub mod config_drive;
pub mod data_partition;
pub mod dhcp_server;
pub mod disk_comparison;
pub mod embedded_hosts;
mod example_screen;
pub mod folder_server;
mod guest_slots;
#[cfg(test)]
mod hardware;
pub mod host_arguments;
pub mod host_test;
pub mod ibft;
pub mod ignition;
pub mod image_server;
pub mod installation;
pub mod installers;
pub mod iscsi_target;
pub mod journal;
pub mod known_hardware;
pub mod lab;
pub mod matrix;
pub mod media;
#[cfg(test)]
mod module_sets;
pub mod old_disk;
pub mod peer;
pub mod program;
pub mod ramdisk_parts;
pub mod signed_loaders;
pub mod site;
pub mod syslog_server;
pub mod timeline;
pub mod uefi_variables;
pub mod vm;
pub mod webhook_receiver;
