//! Removes devices of the device mapper.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

const NAME_LEN: usize = 128;
const UUID_LEN: usize = 129;

mod raw {
    use super::Request;
    // <linux/dm-ioctl.h>: DM_DEV_REMOVE is _IOWR(0xfd, 4, struct dm_ioctl).
    nix::ioctl_readwrite!(remove, 0xfd, 4, Request);
}

/// `struct dm_ioctl`, 312 bytes on every 64-bit machine.
#[repr(C)]
pub struct Request {
    version: [u32; 3],
    data_size: u32,
    data_start: u32,
    target_count: u32,
    open_count: i32,
    flags: u32,
    event_number: u32,
    padding: u32,
    device: u64,
    name: [u8; NAME_LEN],
    uuid: [u8; UUID_LEN],
    data: [u8; 7],
}

/// Removes the device with this number. It then no longer uses the devices below it,
/// which keep their data. `control` is `/dev/mapper/control`.
///
/// # Errors
/// `EBUSY` while a program has it open, `ENXIO` if there is no such device.
pub fn remove(control: &File, major: u64, minor: u64) -> io::Result<()> {
    let mut request = Request {
        // The oldest version that has this request. Every later kernel accepts it.
        version: [4, 0, 0],
        data_size: size_of::<Request>() as u32,
        data_start: 0,
        target_count: 0,
        open_count: 0,
        flags: 0,
        event_number: 0,
        padding: 0,
        device: kernel_number(major, minor),
        name: [0; NAME_LEN],
        uuid: [0; UUID_LEN],
        data: [0; 7],
    };
    // SAFETY: the descriptor is open and the structure valid for the whole call;
    // data_size tells the kernel where it ends.
    unsafe { raw::remove(control.as_raw_fd(), &raw mut request) }?;
    Ok(())
}

/// `huge_encode_dev` of <linux/kdev_t.h>.
fn kernel_number(major: u64, minor: u64) -> u64 {
    minor & 0xff | major << 8 | (minor & !0xff) << 12
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_is_what_the_kernel_expects() {
        assert_eq!(size_of::<Request>(), 312);
        assert_eq!(kernel_number(253, 0), 0xfd00);
        assert_eq!(kernel_number(253, 0x123), 0x0010_fd23);
    }

    #[test]
    fn a_file_is_no_control_device() {
        assert!(remove(&tempfile::tempfile().unwrap(), 253, 0).is_err());
    }
}
