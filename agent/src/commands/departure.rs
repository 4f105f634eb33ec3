//! How serving ends when a command asks for it.

use crate::early::Ending;

/// What comes after the last command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Departure {
    /// The boot ends.
    Boot(Ending),
    /// The machine is its user's to rescue.
    Rescue,
}
