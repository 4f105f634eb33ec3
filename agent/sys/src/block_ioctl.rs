//! Properties of a block device that are only available through ioctl(2).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

mod raw {
    // The BLK* requests of <linux/fs.h> have the ioctl type 0x12.
    nix::ioctl_read!(blkgetsize64, 0x12, 114, u64);
    nix::ioctl_read_bad!(blksszget, 0x1268, std::ffi::c_int);
    nix::ioctl_none_bad!(blkrrpart, 0x125f);
    nix::ioctl_none_bad!(blkflsbuf, 0x1261);
    nix::ioctl_read!(blkgetdiskseq, 0x12, 128, u64);
}

/// The size of the device in bytes.
///
/// # Errors
/// If the file is not a block device.
pub fn size_bytes(device: &File) -> io::Result<u64> {
    let mut size = 0u64;
    // SAFETY: the descriptor is open for the whole call and BLKGETSIZE64
    // writes one u64 to the given address.
    unsafe { raw::blkgetsize64(device.as_raw_fd(), &raw mut size) }?;
    Ok(size)
}

/// The logical sector size in bytes, usually 512 or 4096.
///
/// # Errors
/// If the file is not a block device.
pub fn logical_sector_size(device: &File) -> io::Result<u32> {
    let mut size = 0;
    // SAFETY: the descriptor is open for the whole call and BLKSSZGET writes
    // one int to the given address.
    unsafe { raw::blksszget(device.as_raw_fd(), &raw mut size) }?;
    u32::try_from(size).map_err(io::Error::other)
}

/// A number that the kernel gives to a disk and does not use for another disk until the
/// next boot. It distinguishes a device from a later device with the same name. `None`
/// for kernels before 5.15, which have no such number, and for QEMU's user mode, which
/// does not support this call.
pub fn disk_sequence(device: &File) -> io::Result<Option<u64>> {
    let mut number = 0;
    // SAFETY: the descriptor is open for the whole call and BLKGETDISKSEQ
    // writes one u64 to the given address.
    match unsafe { raw::blkgetdiskseq(device.as_raw_fd(), &raw mut number) } {
        Ok(_) => Ok(Some(number)),
        Err(nix::errno::Errno::ENOTTY | nix::errno::Errno::ENOSYS) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// Makes the kernel read the partition table again.
///
/// # Errors
/// `EBUSY` if a partition of the device is in use.
pub fn reread_partition_table(device: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open; BLKRRPART takes no argument.
    unsafe { raw::blkrrpart(device.as_raw_fd()) }?;
    Ok(())
}

/// Drops the kernel's cache of the device, so that the next read comes from the
/// medium.
pub fn flush_buffers(device: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open; BLKFLSBUF takes no argument.
    unsafe { raw::blkflsbuf(device.as_raw_fd()) }?;
    Ok(())
}
