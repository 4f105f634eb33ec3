//! `make endurance`: many agents under one real Ironic, on bad links, with bad image
//! servers, bad disks and a conductor that is killed.

#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use landfall_ironic_tests::endurance::cast::MOST_AGENTS;
use landfall_ironic_tests::endurance::compressed_time::DAY;
use landfall_ironic_tests::endurance::{Wanted, endure, report};
use landfall_tests::{artifacts, lab};

/// Deploys many nodes with real agents at once, and prints how each has ended.
///
/// Fails if a node ends otherwise than planned, if an agent hangs or ends by itself,
/// or if memory or open files grow during the day.
#[derive(Parser)]
struct Arguments {
    /// Number of agents
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=i64::from(MOST_AGENTS)))]
    agents: u16,
    /// After that, let ten agents write an image for a day, compressed to 288 s
    #[arg(long)]
    day: bool,
    /// Print JSON, with the values of every node
    #[arg(long)]
    json: bool,
    /// The agent's program [default: the release build]
    #[arg(long)]
    agent: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let wanted = Wanted {
        agents: arguments.agents,
        day: arguments.day.then_some(DAY),
        cached: false,
        agent: match &arguments.agent {
            Some(agent) => agent.canonicalize()?,
            None => artifacts::agent()?,
        },
    };
    let name = format!("endurance-{}", arguments.agents);
    let (figures, faults) = lab::run(&name, async |lab| endure(lab, &wanted).await)?;
    if arguments.json {
        println!("{:#}", report::json(&figures));
    } else {
        println!("{}", report::text(&figures));
    }
    landfall_ironic_tests::endurance::day::must_be_none(&faults)
}
