//! The sub-commands. Each runs one stage and prints the result, or what the stage would
//! do. Data goes to stdout, messages go to stderr.

pub mod command_line_source;
pub mod discover;
pub mod install;
mod install_report;
mod installed_names;
pub mod inventory;
pub mod iscsi;
mod machine_http;
mod orderly_end;
pub mod plan_network;
pub mod root_device;
pub mod san_boot;
pub mod serve;
pub mod show_params;
mod stdout;
pub mod write_image;

use std::process::ExitCode;

use clap::Subcommand;
use landfall_report::Output;

/// The sub-commands, each of which runs one stage on any machine.
#[derive(Debug, Subcommand)]
pub enum Tool {
    /// Print every setting, its value and where it came from
    ShowParams(show_params::Arguments),
    /// Print the network that a kernel command line asks for
    PlanNetwork(plan_network::Arguments),
    /// Print this machine's hardware inventory, as Ironic receives it
    Inventory(inventory::Arguments),
    /// Print the iSCSI targets in the firmware's table (iBFT)
    Iscsi(iscsi::Arguments),
    /// Print the disk that root device hints choose from a list
    RootDevice(root_device::Arguments),
    /// Print the disks of a storage network that the firmware names
    SanBoot(san_boot::Arguments),
    /// Find the provisioning service and the address that reaches it
    Discover(discover::Arguments),
    /// Serve the agent's API; commands that change the machine fail
    Serve(serve::Arguments),
    /// Install a CoreOS image with its Ignition config and settings
    Install(Box<install::Arguments>),
    /// Write an image to a disk, which boots only if all succeeds
    WriteImage(write_image::Arguments),
}

/// Runs one sub-command; the exit code is 0, or 1 after a failure.
pub fn run(tool: Tool, progress_json: bool, debug: bool) -> ExitCode {
    let output = if progress_json {
        Output::JsonLines
    } else {
        Output::Stderr
    };
    landfall_report::start(output, debug);
    let outcome = match tool {
        Tool::ShowParams(arguments) => show_params::run(&arguments),
        Tool::PlanNetwork(arguments) => plan_network::run(&arguments),
        Tool::Inventory(arguments) => inventory::run(&arguments),
        Tool::Iscsi(arguments) => iscsi::run(&arguments),
        Tool::RootDevice(arguments) => root_device::run(&arguments),
        Tool::SanBoot(arguments) => san_boot::run(&arguments),
        Tool::Discover(arguments) => discover::run(arguments),
        Tool::Serve(arguments) => serve::run(&arguments),
        Tool::Install(arguments) => install::run(*arguments),
        Tool::WriteImage(arguments) => write_image::run(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            tracing::error!("{failure}");
            ExitCode::FAILURE
        }
    }
}
