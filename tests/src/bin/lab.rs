//! `make lab`: Ironic, a BMC and a host on one machine, to play with.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use landfall_tests::ironic::keep;
use landfall_tests::ironic::life::Place;
use landfall_tests::ironic::plan::{Boot, Plan};
use landfall_tests::lab::{self, Lab};
use landfall_tests::vm::Firmware;

/// Starts the real Ironic with one enrolled virtual host, and waits for Ctrl-C.
#[derive(Parser)]
struct Arguments {
    /// How the ramdisk gets into the host: virtual media or iPXE.
    #[arg(long, value_enum, default_value = "iso")]
    boot: BootWay,
    /// The host's firmware.
    #[arg(long, value_enum, default_value = "uefi")]
    firmware: FirmwareKind,
}

#[derive(Clone, Copy, ValueEnum)]
enum BootWay {
    Iso,
    Pxe,
}

#[derive(Clone, Copy, ValueEnum)]
enum FirmwareKind {
    Bios,
    Uefi,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let plan = Plan {
        boot: match arguments.boot {
            BootWay::Iso => Boot::VirtualMedia,
            BootWay::Pxe => Boot::Ipxe,
        },
        firmware: match arguments.firmware {
            FirmwareKind::Bios => Firmware::Bios,
            FirmwareKind::Uefi => Firmware::Uefi,
        },
        ..Plan::default()
    };
    match lab::run("lab", async |lab: &Lab| open(lab, &plan).await) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn open(lab: &Lab, plan: &Plan) -> Result<()> {
    let _place = Place::start(lab, plan).await?;
    keep::until_interrupted(lab, &plan.configuration).await
}
