//! Decides how the agent stops serving when a command ends the boot.

use landfall_init::Ending;

/// What the agent does after the last command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Departure {
    /// End the boot.
    Boot(Ending),
    /// Hand the machine over to the user who rescues it.
    Rescue,
}
