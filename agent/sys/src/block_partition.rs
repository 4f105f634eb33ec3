//! Adds partitions of a disk to the kernel and removes them, without a partition table on
//! the disk.

use std::ffi::{c_char, c_int, c_longlong, c_void};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

mod raw {
    use super::Request;
    // <linux/blkpg.h>: BLKPG is _IO(0x12, 105), without direction or size.
    nix::ioctl_write_ptr_bad!(blkpg, 0x1269, Request);
}

/// `BLKPG_ADD_PARTITION` and `BLKPG_DEL_PARTITION`.
const ADD: c_int = 1;
const DELETE: c_int = 2;

/// `struct blkpg_ioctl_arg`
#[repr(C)]
struct Request {
    operation: c_int,
    flags: c_int,
    length: c_int,
    partition: *mut c_void,
}

/// `struct blkpg_partition`. The kernel no longer uses the names.
#[repr(C)]
struct Partition {
    start: c_longlong,
    length: c_longlong,
    number: c_int,
    device_name: [c_char; 64],
    volume_name: [c_char; 64],
}

/// Adds partition `number`. `start` and `length` are in bytes. When this returns,
/// the device node exists (devtmpfs).
///
/// # Errors
/// `EBUSY` if it overlaps with a partition that the kernel already has.
pub fn add(disk: &File, number: u32, start: u64, length: u64) -> io::Result<()> {
    request(disk, ADD, number, start, length)
}

/// Removes partition `number` from the kernel. The disk itself does not change.
///
/// # Errors
/// `EBUSY` while the partition is in use.
pub fn delete(disk: &File, number: u32) -> io::Result<()> {
    request(disk, DELETE, number, 0, 0)
}

fn request(disk: &File, operation: c_int, number: u32, start: u64, length: u64) -> io::Result<()> {
    let too_large = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let mut partition = Partition {
        start: start.try_into().map_err(too_large)?,
        length: length.try_into().map_err(too_large)?,
        number: number.try_into().map_err(too_large)?,
        device_name: [0; 64],
        volume_name: [0; 64],
    };
    let request = Request {
        operation,
        flags: 0,
        length: size_of::<Partition>() as c_int,
        partition: (&raw mut partition).cast(),
    };
    // SAFETY: the descriptor is open for the whole call; `request` has the
    // layout of struct blkpg_ioctl_arg and points to a struct blkpg_partition
    // that outlives the call and that the kernel only reads.
    unsafe { raw::blkpg(disk.as_raw_fd(), &raw const request) }?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_is_the_kernels() {
        assert_eq!(size_of::<Partition>(), 152);
        assert_eq!(size_of::<Request>(), 24);
    }

    #[test]
    fn a_file_has_no_partitions() {
        let file = tempfile::tempfile().unwrap();
        assert!(add(&file, 1, 1 << 20, 1 << 20).is_err());
        assert!(delete(&file, 1).is_err());
        assert!(add(&file, 1, u64::MAX, 1).is_err());
    }
}
