//! Reads and writes extended attributes, to copy them from a file to its
//! replacement.

use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::errno::Errno;
use nix::libc;

/// The SELinux label of a file.
pub const SELINUX: &CStr = c"security.selinux";

/// The maximum length of a value in bytes. Linux allows 64 KiB (xattr(7)), but labels are
/// far shorter.
const LIMIT: usize = 4096;

/// The value of an attribute. `None` if the file does not have this attribute, or
/// if the file system does not support attributes.
///
/// # Errors
/// If getxattr(2) fails with any other error: `ERANGE` if the value is longer than 4096
/// bytes.
pub fn get(path: &Path, name: &CStr) -> io::Result<Option<Vec<u8>>> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut value = vec![0u8; LIMIT];
    // SAFETY: both names are NUL-terminated and live for the call. The kernel
    // writes at most LIMIT bytes to a buffer of LIMIT bytes.
    let len = unsafe {
        libc::getxattr(
            path.as_ptr(),
            name.as_ptr(),
            value.as_mut_ptr().cast(),
            LIMIT,
        )
    };
    match Errno::result(len) {
        Ok(len) => {
            value.truncate(usize::try_from(len).unwrap_or(0));
            Ok(Some(value))
        }
        Err(Errno::ENODATA | Errno::EOPNOTSUPP) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

pub fn set(path: &Path, name: &CStr, value: &[u8]) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: both names are NUL-terminated, the value is readable for its length,
    // and all three live for the call.
    let done = unsafe {
        libc::setxattr(
            path.as_ptr(),
            name.as_ptr(),
            value.as_ptr().cast(),
            value.len(),
            0,
        )
    };
    Errno::result(done)?;
    Ok(())
}
