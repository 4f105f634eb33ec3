//! The kernel arguments that a sub-command reads: a given text, or those of the running
//! kernel.

use clap::Args;
use landfall_boot_params::CommandLine;
use landfall_report::failure::{Failure, Result};
use landfall_settings::media::Media;
use landfall_settings::{ConfigFiles, IgnitionParts, Settings};

/// The option that gives kernel arguments to a tool.
#[derive(Debug, Args)]
pub struct CommandLineSource {
    /// Kernel command line [default: the running kernel's]
    #[arg(long, value_name = "TEXT")]
    pub cmdline: Option<String>,
}

impl CommandLineSource {
    /// The settings of this boot, or only those in the given text if `--cmdline` is
    /// given. Fails if the running kernel's command line cannot be read.
    pub fn settings(&self) -> Result<Settings> {
        match &self.cmdline {
            Some(text) => Ok(Settings::from_sources(
                CommandLine::parse(text),
                Media::default(),
                ConfigFiles::default(),
                IgnitionParts::default(),
            )),
            None => Settings::of_this_boot()
                .map_err(|error| Failure::other(format!("cannot read /proc/cmdline: {error}"))),
        }
    }
}
