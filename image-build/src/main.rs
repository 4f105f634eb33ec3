//! The builder: makes the discovery ramdisk and the media that boot it, and
//! inspects them.

mod areas;
mod authorities;
mod base_url;
mod boot_image;
mod boot_parts;
mod ca_bundle;
mod checksums;
mod cli;
#[cfg(feature = "controller")]
mod controller_command;
mod coreos_image;
mod coreos_layout;
mod coreos_live_command;
mod customize_command;
mod disk_image;
mod downloader;
mod epoch;
mod external_program;
mod extract;
mod grub_cfg;
mod grub_core;
mod hosts;
mod hosts_command;
mod http_loader;
mod image_digest;
mod inspect;
mod inspect_command;
mod iso_command;
mod iso_image;
mod kargs_command;
mod live_ignition;
mod lock;
mod medium_identity;
mod pxe_command;
mod pxe_tree;
mod ramdisk_command;
mod release_command;
mod repack;
mod report;
mod serve_command;
mod site_configuration;
mod uki_command;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser as _;
// Makes the module available as `crate::kernel_args`. It is in another crate because the
// image service uses it too.
use landfall_host_media::kernel_args;
use landfall_initramfs::temporary;

use crate::cli::{Cli, Command};

fn main() -> ExitCode {
    let command = (!downloader::is_called()).then(|| Cli::parse().command);
    if !command.as_ref().is_some_and(Command::serves)
        && let Err(error) = temporary::remove_on_signals(report::interrupted)
    {
        report::warn(&format!(
            "cannot catch Ctrl-C and SIGTERM: {error}; if you stop the builder, its temporary files remain"
        ));
    }
    let Some(command) = command else {
        return ended(downloader::run());
    };
    ended(match command {
        Command::Initramfs(arguments) => ramdisk_command::run(&arguments),
        Command::Iso(arguments) => iso_command::run(&arguments),
        Command::Pxe(arguments) => pxe_command::run(&arguments),
        Command::Uki(arguments) => uki_command::run(&arguments),
        Command::Hosts(arguments) => hosts_command::run(&arguments),
        Command::CoreosLive(arguments) => coreos_live_command::run(&arguments),
        Command::Kargs(arguments) => kargs_command::run(&arguments),
        Command::Customize(arguments) => customize_command::run(&arguments),
        Command::Serve(arguments) => serve_command::run(&arguments),
        #[cfg(feature = "controller")]
        Command::Controller(arguments) => controller_command::run(&arguments),
        Command::Inspect(arguments) => inspect_command::run(&arguments),
        Command::Release(arguments) => release_command::run(&arguments),
    })
}

fn ended(result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report::failure(&error);
            ExitCode::FAILURE
        }
    }
}
