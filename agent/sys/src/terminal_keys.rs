//! Reads single keys from a terminal.

use std::fs::File;
use std::io;

use nix::sys::termios::{InputFlags, LocalFlags, SetArg, tcgetattr, tcsetattr};

/// Makes the terminal pass on each key at once. It neither echoes keys nor turns keys
/// such as Ctrl-C into signals. The output of programs does not change.
///
/// # Errors
/// If the file is no terminal.
pub fn read_single_keys(terminal: &File) -> io::Result<()> {
    let mut mode = tcgetattr(terminal)?;
    mode.local_flags.remove(
        LocalFlags::ICANON
            | LocalFlags::ECHO
            | LocalFlags::ECHONL
            | LocalFlags::ISIG
            | LocalFlags::IEXTEN,
    );
    // Carriage return and line feed stay different: some terminals send both for Enter.
    mode.input_flags.remove(InputFlags::ICRNL);
    Ok(tcsetattr(terminal, SetArg::TCSANOW, &mode)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_no_terminal() {
        assert!(read_single_keys(&File::open("/dev/null").unwrap()).is_err());
    }
}
