//! `show-params`: every setting, its value and where it came from.

use clap::Args;
use landfall_boot_params::BootParams;
use serde_json::{Value, json};

use super::command_line_source::CommandLineSource;
use crate::failure::Result;

/// `show-params`
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    source: CommandLineSource,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints the settings.
///
/// # Errors
/// If the running kernel's command line cannot be read.
pub fn run(arguments: &Arguments) -> Result<()> {
    let params: BootParams = arguments.source.settings()?.params;
    if arguments.json {
        let list: Vec<Value> = params
            .list()
            .iter()
            .map(|setting| {
                json!({
                    "key": setting.key,
                    "value": setting.value,
                    "origin": setting.origin.to_string(),
                })
            })
            .collect();
        println!("{}", json!({"settings": list, "warnings": params.warnings}));
        return Ok(());
    }
    for setting in params.list() {
        println!(
            "{:44} {:24} ({})",
            setting.key, setting.value, setting.origin
        );
    }
    for warning in &params.warnings {
        tracing::warn!("{warning}");
    }
    Ok(())
}
