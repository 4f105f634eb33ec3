//! How the agent continues when a command has ended its service.

use landfall_init::Ending;

/// What the agent does after the last command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Departure {
    /// End the boot.
    Boot(Ending),
    /// Hand the machine over to the user who rescues it.
    Rescue,
}
