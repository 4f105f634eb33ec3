//! Sets the speed of a serial line.

use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::AsRawFd as _;

use nix::libc;

/// These calls accept any speed. The calls of termios(3) accept only certain speeds.
mod raw {
    nix::ioctl_read_bad!(get_mode, nix::libc::TCGETS2, nix::libc::termios2);
    nix::ioctl_write_ptr_bad!(set_mode, nix::libc::TCSETS2, nix::libc::termios2);
}

/// Sets the serial line to `speed` in bit/s with 8 data bits, no parity and 1 stop bit.
/// Also sets CLOCAL, so that programs do not wait for a carrier on this line.
///
/// # Errors
/// If the file is no terminal.
pub fn set_serial_speed(terminal: &File, speed: u32) -> io::Result<()> {
    let mut mode = mode(terminal)?;
    let cleared = libc::CBAUD | libc::CIBAUD | libc::CSIZE | libc::PARENB | libc::CSTOPB;
    mode.c_cflag &= !cleared;
    // BOTHER: the speed is in `c_ispeed` and `c_ospeed`. CIBAUD is 0: the input has the
    // speed of the output.
    mode.c_cflag |= libc::BOTHER | libc::CS8 | libc::CLOCAL | libc::CREAD;
    (mode.c_ispeed, mode.c_ospeed) = (speed, speed);
    // SAFETY: the mode is valid for the whole call, which only reads it.
    unsafe { raw::set_mode(terminal.as_raw_fd(), &raw const mode) }?;
    Ok(())
}

fn mode(terminal: &File) -> io::Result<libc::termios2> {
    // SAFETY: termios2 consists of numbers only, for which zero is a valid value.
    let mut mode: libc::termios2 = unsafe { mem::zeroed() };
    // SAFETY: the mode is valid for the whole call, which fills it in.
    unsafe { raw::get_mode(terminal.as_raw_fd(), &raw mut mode) }?;
    Ok(mode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_its_speed() {
        let pty = nix::pty::openpty(None, None).unwrap();
        let terminal = File::from(pty.slave);
        // termios(3) has no constant for the last speed.
        for speed in [57_600, 115_200, 250_000] {
            set_serial_speed(&terminal, speed).unwrap();
            let mode = mode(&terminal).unwrap();
            assert_eq!(mode.c_ospeed, speed);
            assert_eq!(mode.c_cflag & libc::CSIZE, libc::CS8);
        }
        let error = set_serial_speed(&File::open("/dev/null").unwrap(), 9600).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOTTY));
    }
}
