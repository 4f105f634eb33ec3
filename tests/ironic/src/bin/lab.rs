//! `make lab`: Ironic, a BMC and a host on one machine, for experiments.

#![allow(clippy::print_stderr)]

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use landfall_ironic_tests::keep;
use landfall_ironic_tests::plan::{Boot, Plan};
use landfall_ironic_tests::scenario::Place;
use landfall_tests::host_arguments::{BootMedium, HostArguments};
use landfall_tests::lab::{self, Lab};

/// Starts the real Ironic with one enrolled virtual host, and waits for Ctrl-C.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    host: HostArguments,
}

fn main() -> ExitCode {
    let host = Arguments::parse().host;
    let plan = Plan {
        boot: match host.boot {
            BootMedium::Iso => Boot::VirtualMedia,
            BootMedium::Pxe => Boot::Ipxe,
        },
        firmware: host.firmware,
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
