//! The agent that a bare server boots. It configures the network, carries out
//! Ironic's commands, writes the disk, and reboots into it.
//!
//! One binary has three roles. As PID 1 it is the ramdisk's init. When the kernel
//! calls it to load a module, it is modprobe. Otherwise it runs its sub-command.
//! ARCHITECTURE.md lists the modules in the order of the boot.

#![cfg_attr(
    not(test),
    deny(
        clippy::print_stdout,
        clippy::print_stderr,
        reason = "they panic if output cannot be written: a closed pipe, a full disk"
    )
)]

mod api;
mod backoff;
#[cfg(feature = "bench-entry")]
#[doc(hidden)]
pub mod bench_entry;
mod boot_medium;
mod calendar;
mod cli;
mod clock;
mod commands;
#[cfg(test)]
mod compatibility;
mod critical_section;
mod devices_settled;
mod discovery;
mod disk;
mod disk_paths;
mod disk_sets;
mod driver_faults;
mod early;
mod failure;
#[cfg(fuzzing)]
pub mod fuzz_entry;
mod handover;
mod host_name;
mod http_client;
mod http_options;
mod installation;
mod interface_names;
mod inventory;
mod ironic;
mod live_system;
mod logs;
#[cfg(test)]
mod loop_device;
mod mdns_question;
mod media;
mod memory_use;
mod network;
mod permission;
mod private_file;
mod report;
mod rescue;
mod settings;
#[cfg(test)]
mod skip;
mod stages;
mod state_file;
mod sys;
#[cfg(test)]
mod sys_tree;
mod sysfs;
mod system_path;
mod tls;
mod tools;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser as _;

use crate::cli::{Cli, Command};

/// Runs the whole program and returns the process's exit code.
pub fn run() -> ExitCode {
    if early::is_init() {
        early::run();
    }
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if early::is_modprobe_call(&arguments) {
        return early::modprobe(&arguments[2]);
    }
    sys::freed_memory::in_one_arena();
    // This is the only place that names the crypto provider. The call fails only if
    // a provider is already installed, so the result is ignored.
    let _ = rustls::crypto::ring::default_provider().install_default();

    let cli = Cli::parse();
    match cli.command {
        Command::Run(arguments) => stages::run(&arguments, cli.debug),
        Command::Tool(tool) => tools::run(tool, cli.progress_json, cli.debug),
    }
}
