//! Stops software RAID arrays.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

mod raw {
    // <linux/raid/md_u.h>: STOP_ARRAY is _IO(MD_MAJOR, 0x32), MD_MAJOR is 9.
    nix::ioctl_none_bad!(stop_array, 0x0932);
}

/// Stops the array. Its members are free afterwards.
///
/// # Errors
/// `EBUSY` while the array is in use.
pub fn stop_array(array: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open for the whole call; STOP_ARRAY takes no
    // argument.
    unsafe { raw::stop_array(array.as_raw_fd()) }?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_no_array() {
        assert!(stop_array(&tempfile::tempfile().unwrap()).is_err());
    }
}
