//! Loading a kernel that the next reboot(2) with `LINUX_REBOOT_CMD_KEXEC` runs.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::libc;

/// Loads kernel and initrd (kexec_file_load(2)): the kernel checks the image's
/// signature itself where it has to. What was loaded before is replaced.
///
/// # Errors
/// What the kernel says; `EPERM` where it is locked down, `ENOSYS` where it was
/// built without CONFIG_KEXEC_FILE.
pub fn load(kernel: &File, initrd: &File, command_line: &CStr) -> io::Result<()> {
    let length = command_line.to_bytes_with_nul().len();
    // SAFETY: both descriptors are open and the text lives for the whole call;
    // the length includes its NUL, as the call demands.
    let result = unsafe {
        libc::syscall(
            libc::SYS_kexec_file_load,
            kernel.as_raw_fd(),
            initrd.as_raw_fd(),
            length,
            command_line.as_ptr(),
            0 as libc::c_ulong,
        )
    };
    Errno::result(result).map(drop)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Neither is one, so nothing is loaded whatever right this test has.
    #[test]
    fn empty_files_are_no_kernel() {
        let (kernel, initrd) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        assert!(load(&kernel, &initrd, c"quiet").is_err());
    }
}
