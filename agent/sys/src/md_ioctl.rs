//! Starts and stops software RAID arrays.

use std::ffi::c_int;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

mod raw {
    use super::{ArrayInfo, DiskInfo};
    // <linux/raid/md_u.h>: the group is MD_MAJOR, 9.
    nix::ioctl_write_ptr!(add_new_disk, 9, 0x21, DiskInfo);
    nix::ioctl_write_ptr!(set_array_info, 9, 0x23, ArrayInfo);
    // RUN_ARRAY is _IOW(MD_MAJOR, 0x30, mdu_param_t). The request number contains the
    // size of `mdu_param_t`, 12 bytes, but the kernel does not read the argument.
    nix::ioctl_none_bad!(run_array, 0x400c_0930);
    // STOP_ARRAY is _IO(MD_MAJOR, 0x32).
    nix::ioctl_none_bad!(stop_array, 0x0932);
}

/// `mdu_array_info_t`: 18 numbers of 32 bits. The first three are the metadata version.
/// The other numbers are zero for an array whose members have superblocks.
#[repr(C)]
pub struct ArrayInfo([c_int; 18]);

/// `mdu_disk_info_t`. `number` and `role` are zero, because the kernel reads them from
/// the superblock.
#[repr(C)]
pub struct DiskInfo {
    number: c_int,
    major: c_int,
    minor: c_int,
    role: c_int,
    state: c_int,
}

/// Starts an array whose members have superblocks of version 1.`minor_version`. `array`
/// is an md device without an array, open for writing. `members` are the major and minor
/// device numbers of the members.
///
/// # Errors
/// If the kernel rejects a member, or cannot start the array. The device may then hold
/// some members; [`stop_array`] releases them.
pub fn start_array(array: &File, minor_version: u8, members: &[(u64, u64)]) -> io::Result<()> {
    let mut info = ArrayInfo([0; 18]);
    info.0[0] = 1;
    info.0[1] = c_int::from(minor_version);
    // SAFETY: the descriptor is open and the structure valid for the whole call, which
    // only reads it.
    unsafe { raw::set_array_info(array.as_raw_fd(), &raw const info) }?;
    for (major, minor) in members {
        let number = |part: &u64| c_int::try_from(*part).map_err(io::Error::other);
        let disk = DiskInfo {
            number: 0,
            major: number(major)?,
            minor: number(minor)?,
            role: 0,
            state: 0,
        };
        // SAFETY: as above.
        unsafe { raw::add_new_disk(array.as_raw_fd(), &raw const disk) }?;
    }
    // SAFETY: the descriptor is open for the whole call; the kernel does not read the
    // argument.
    unsafe { raw::run_array(array.as_raw_fd()) }?;
    Ok(())
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
    fn the_requests_are_what_the_kernel_expects() {
        assert_eq!(size_of::<ArrayInfo>(), 72);
        assert_eq!(size_of::<DiskInfo>(), 20);
        assert_eq!(nix::request_code_write!(9, 0x30, 12), 0x400c_0930);
    }

    #[test]
    fn a_file_is_no_array() {
        let file = tempfile::tempfile().unwrap();
        assert!(stop_array(&file).is_err());
        assert!(start_array(&file, 2, &[(8, 1)]).is_err());
    }
}
