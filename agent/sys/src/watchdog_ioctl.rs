//! Sets the timeout of hardware watchdogs.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

mod raw {
    // <linux/watchdog.h>: WDIOC_SETTIMEOUT is _IOWR(WATCHDOG_IOCTL_BASE, 6, int).
    nix::ioctl_readwrite!(set_timeout, b'W', 6, nix::libc::c_int);
}

/// Sets the time in seconds after which the watchdog resets the machine unless a
/// program writes to it. Returns the time that the driver chose, which is the nearest
/// time that the hardware supports.
///
/// # Errors
/// `EINVAL` if the hardware does not support the time, `EOPNOTSUPP` if its time is
/// fixed.
pub fn set_timeout(watchdog: &File, seconds: i32) -> io::Result<i32> {
    let mut seconds: nix::libc::c_int = seconds;
    // SAFETY: the descriptor is open and `seconds` lives for the whole call. The
    // kernel reads and writes one int.
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
