//! The agent that a bare server boots. It configures the network, carries out
//! Ironic's commands, writes the disk, and reboots into it.
//!
//! One binary has four roles. As PID 1 it is the ramdisk's init. When the kernel calls it
//! to load a module, it is modprobe. When the agent starts it as a child without
//! privileges, it parses data from outside. Otherwise it runs a sub-command.
//! ARCHITECTURE.md lists the modules in the order of the boot.

mod api;
mod cli;
pub mod commands;
#[cfg(test)]
mod compatibility;
mod http_options;
mod mdns_question;
mod parsers;
mod rescue;
mod stages;
mod tools;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser as _;

use crate::cli::{Cli, Command};

/// Runs the whole program and returns the process's exit code.
pub fn run() -> ExitCode {
    if landfall_init::is_init() {
        landfall_init::run();
    }
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if landfall_init::is_modprobe_call(&arguments) {
        return landfall_init::modprobe(&arguments[2]);
    }
    if let Some(name) = landfall_parser_child::asked_for(&arguments) {
        return parsers::serve_named(name);
    }
    landfall_parser_child::offer_this_program();
    landfall_sys::freed_memory::in_one_arena();
    // Set the crypto provider of the whole process. The call fails only if a provider is
    // already installed, so the result is ignored.
    let _ = rustls::crypto::ring::default_provider().install_default();

    let cli = Cli::parse();
    match cli.command {
        Command::Run(arguments) => stages::run(&arguments, cli.debug),
        Command::Tool(tool) => tools::run(tool, cli.progress_json, cli.debug),
    }
}
