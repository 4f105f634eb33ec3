//! Writes to standard output for the sub-commands. They do not use `println!`, because it
//! panics if it cannot write.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write as _};

use landfall_report::failure::{Failure, Result};

/// Prints a line. A reader that closes the pipe early (`| head`) is not an error. Fails
/// if the line cannot be written for another reason, for example on a full disk.
pub(super) fn line(text: impl Display) -> Result<()> {
    // Write the line in one call, so that a reader that closes the pipe gets whole
    // lines.
    match io::stdout().write_all(format!("{text}\n").as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::other(format!(
            "cannot write to standard output: {error}"
        ))),
        _ => Ok(()),
    }
}
