//! Hardware watchdogs: the time after which one resets the machine.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

mod raw {
    // <linux/watchdog.h>: WDIOC_SETTIMEOUT is _IOWR(WATCHDOG_IOCTL_BASE, 6, int).
    nix::ioctl_readwrite!(set_timeout, b'W', 6, nix::libc::c_int);
}

/// Sets the time in which the watchdog must be fed. Returns the seconds that the
/// driver has chosen: the nearest that the hardware can.
///
/// # Errors
/// `EINVAL` if the hardware cannot, `EOPNOTSUPP` if its time is fixed.
pub fn set_timeout(watchdog: &File, seconds: i32) -> io::Result<i32> {
    let mut seconds: nix::libc::c_int = seconds;
    // SAFETY: the descriptor is open and `seconds` lives for the whole call, in
    // which the kernel reads and writes one int.
    unsafe { raw::set_timeout(watchdog.as_raw_fd(), &raw mut seconds) }?;
    Ok(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_no_watchdog() {
        assert!(set_timeout(&tempfile::tempfile().unwrap(), 60).is_err());
    }
}
