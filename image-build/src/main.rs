//! Assembles the discovery ramdisk and a kernel into ISOs, PXE trees and GRUB arguments.

#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        clippy::expect_used,
        reason = "a test that unwraps nothing has failed"
    )
)]

mod cli;
mod epoch;
mod ramdisk_command;
mod report;

use std::process::ExitCode;

use clap::Parser as _;

use crate::cli::{Cli, Command};

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Initramfs(arguments) => ramdisk_command::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report::failure(&error);
            ExitCode::FAILURE
        }
    }
}
