//! Loads a kernel for the next reboot(2) with `LINUX_REBOOT_CMD_KEXEC`.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::libc;

/// Loads kernel and initrd (kexec_file_load(2)) in place of any earlier ones. The
/// running kernel checks the new kernel's signature if its policy requires this.
///
/// # Errors
/// If the kernel rejects the call: `EPERM` if the process lacks CAP_SYS_BOOT, or if the
/// kernel is locked down and the new kernel is not signed; `ENOSYS` if the running kernel
/// was built without CONFIG_KEXEC_FILE.
pub fn load(kernel: &File, initrd: &File, command_line: &CStr) -> io::Result<()> {
    let length = command_line.to_bytes_with_nul().len();
    // SAFETY: both descriptors are open and the text lives for the whole call. As
    // the call requires, the length includes the NUL.
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

    /// Neither file is a kernel, so the test loads nothing, even if it may load kernels.
    #[test]
    fn empty_files_are_no_kernel() {
        let (kernel, initrd) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        assert!(load(&kernel, &initrd, c"quiet").is_err());
    }
}
