//! The size of a terminal.

use std::fs::File;
use std::os::fd::AsRawFd as _;

use nix::libc::winsize;

mod raw {
    nix::ioctl_read_bad!(get_window_size, nix::libc::TIOCGWINSZ, nix::libc::winsize);
}

/// Columns and lines of the terminal. `None` if the file is no terminal, or if the
/// terminal does not know its size, like most serial lines.
pub fn window_size(terminal: &File) -> Option<(usize, usize)> {
    let mut size = winsize {
        ws_row: 0,
        ws_col: 0,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: the descriptor is open for the whole call and TIOCGWINSZ writes one
    // winsize to the given address.
    unsafe { raw::get_window_size(terminal.as_raw_fd(), &raw mut size) }.ok()?;
    let known = size.ws_col > 0 && size.ws_row > 0;
    known.then_some((size.ws_col.into(), size.ws_row.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_no_terminal() {
        assert_eq!(window_size(&File::open("/dev/null").unwrap()), None);
    }
}
