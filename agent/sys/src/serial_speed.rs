//! Sets the speed of a serial line.

use std::fs::File;
use std::io;

use nix::libc;
use nix::sys::termios::{ControlFlags, SetArg, tcgetattr, tcsetattr};

/// Sets 8 bits without parity at this speed in bit/s, without a wait for a carrier.
///
/// # Errors
/// If the file is no terminal, or the speed is none of 9600, 19200, 57600 and 115200.
pub fn set_serial_speed(terminal: &File, speed: u32) -> io::Result<()> {
    let rate = match speed {
        9600 => libc::B9600,
        19_200 => libc::B19200,
        57_600 => libc::B57600,
        115_200 => libc::B115200,
        _ => return Err(io::ErrorKind::InvalidInput.into()),
    };
    let mut mode = tcgetattr(terminal)?;
    mode.control_flags.remove(
        ControlFlags::CBAUD | ControlFlags::CSIZE | ControlFlags::PARENB | ControlFlags::CSTOPB,
    );
    mode.control_flags
        .insert(ControlFlags::CS8 | ControlFlags::CLOCAL | ControlFlags::CREAD);
    // The kernel reads the speed here (termios(3)). `cfsetspeed` would set the same bits, but
    // libc names a version of it that the static glibc does not have.
    mode.control_flags
        .insert(ControlFlags::from_bits_retain(rate));
    Ok(tcsetattr(terminal, SetArg::TCSANOW, &mode)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_its_speed() {
        let pty = nix::pty::openpty(None, None).unwrap();
        let terminal = File::from(pty.slave);
        set_serial_speed(&terminal, 57_600).unwrap();
        let mode = tcgetattr(&terminal).unwrap();
        let speed = mode.control_flags & ControlFlags::CBAUD;
        assert_eq!(speed.bits(), libc::B57600);
        assert!(set_serial_speed(&terminal, 1).is_err());
        assert!(set_serial_speed(&File::open("/dev/null").unwrap(), 9600).is_err());
    }
}
