//! Zeroes a range of a disk without writing it.

use std::fs::File;
use std::io;

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};

/// Makes a range of a block device or file read as zeros without sending the zeros.
/// Returns `Ok(false)` if the device does not support this. The caller must then write
/// the zeros.
///
/// On a block device PUNCH_HOLE is either a write-zeroes command or fails with
/// EOPNOTSUPP. Unlike BLKZEROOUT it never falls back to writing pages, and unlike
/// BLKDISCARD it guarantees zeros (block/fops.c, `blkdev_fallocate`).
///
/// # Errors
/// If the kernel reports any error except "not supported".
pub fn punch_zeros(file: &File, offset: u64, len: u64) -> io::Result<bool> {
    let flags = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
    let signed = |value: u64| i64::try_from(value).map_err(io::Error::other);
    match fallocate(file, flags, signed(offset)?, signed(len)?) {
        Ok(()) => Ok(true),
        // EINVAL: the device is a block device and the kernel is older than 4.9. ENODEV:
        // the file system does not support the call. (Both are in fallocate(2).)
        Err(Errno::EOPNOTSUPP | Errno::ENOSYS | Errno::EINVAL | Errno::ENODEV) => Ok(false),
        Err(e) => Err(e.into()),
    }
}
