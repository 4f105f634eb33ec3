//! `plan-network`: the network that would be set up.

use clap::Args;
use landfall_boot_params::NetArgs;
use landfall_network_plan::{NetworkPlan, describe};

use super::command_line_source::CommandLineSource;
use crate::failure::Result;

/// `plan-network`
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    source: CommandLineSource,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints the plan.
///
/// # Errors
/// If the running kernel's command line cannot be read.
pub fn run(arguments: &Arguments) -> Result<()> {
    let settings = arguments.source.settings()?;
    let network = NetArgs::from_command_line(&settings.command_line);
    if arguments.json {
        let plan = NetworkPlan::from_boot_args(&network);
        println!("{}", serde_json::to_value(&plan).unwrap_or_default());
        return Ok(());
    }
    for line in describe::describe(&NetworkPlan::for_boot(&network)) {
        println!("{line}");
    }
    Ok(())
}
