//! What this boot was told: the kernel command line as typed values, each with
//! where it came from.

use std::fs::File;
use std::io::{self, Read as _};

use landfall_boot_params::cmdline::MAX_LENGTH;
use landfall_boot_params::{BootParams, CommandLine};
use serde_json::Value;

mod lookup_config;

/// Everything that was said to the agent.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The command line as tokens, for those who read a vocabulary of their own.
    pub command_line: CommandLine,
    /// The agent's own settings.
    pub params: BootParams,
}

impl Settings {
    /// The settings in the command line of the running kernel.
    ///
    /// # Errors
    /// If /proc/cmdline cannot be read.
    pub fn of_this_boot() -> io::Result<Self> {
        let mut bytes = Vec::new();
        // One byte beyond the limit, so that the parser can tell a cut line.
        File::open("/proc/cmdline")?
            .take(MAX_LENGTH as u64 + 1)
            .read_to_end(&mut bytes)?;
        Ok(Self::from_command_line(CommandLine::parse_bytes(&bytes)))
    }

    /// The settings in this command line.
    pub fn from_command_line(command_line: CommandLine) -> Self {
        let params = BootParams::from_command_line(&command_line);
        Self {
            command_line,
            params,
        }
    }

    /// Takes `config` of a lookup answer, which wins over all that was said at
    /// boot. Returns what was ignored and why, one line each.
    pub fn apply_lookup_config(&mut self, config: &Value) -> Vec<String> {
        lookup_config::apply(&mut self.params, config)
    }

    /// Says on the console what was set and by what, and what was not understood.
    pub fn report(&self) {
        for setting in self.params.list() {
            if *setting.origin != landfall_boot_params::Origin::Default {
                tracing::info!("{} = {} ({})", setting.key, setting.value, setting.origin);
            }
        }
        let ignored = self.params.not_supported_yet();
        for warning in self.params.warnings.iter().chain(&ignored) {
            tracing::warn!("{warning}");
        }
    }
}
