//! The file attributes that lsattr(1) shows. Only "immutable" is supported.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// <linux/fs.h>: the file cannot be changed, renamed or removed.
const FS_IMMUTABLE_FL: i32 = 0x10;

mod raw {
    // <linux/fs.h> declares the argument as a long, so the request numbers contain
    // the size of a long. But the kernel reads and writes an int (fs/ioctl.c,
    // ioctl_getflags).
    nix::ioctl_read_bad!(
        fs_ioc_getflags,
        nix::request_code_read!(b'f', 1, size_of::<std::ffi::c_long>()),
        std::ffi::c_int
    );
    nix::ioctl_write_ptr_bad!(
        fs_ioc_setflags,
        nix::request_code_write!(b'f', 2, size_of::<std::ffi::c_long>()),
        std::ffi::c_int
    );
}

/// Removes the immutable flag from a file. efivarfs sets it on every variable that
/// the kernel does not know to be harmless (fs/efivarfs/super.c), so that an `rm
/// -rf /` cannot brick a board.
///
/// # Errors
/// If the kernel reports an error. A file system without such flags is not an
/// error.
pub fn make_mutable(file: &File) -> io::Result<()> {
    let mut flags = 0;
    // SAFETY: the descriptor is open for the whole call and the kernel writes
    // one int to the given address.
    match unsafe { raw::fs_ioc_getflags(file.as_raw_fd(), &raw mut flags) } {
        Ok(_) => {}
        Err(nix::errno::Errno::ENOTTY | nix::errno::Errno::EOPNOTSUPP) => return Ok(()),
        Err(e) => return Err(e.into()),
    }
    if flags & FS_IMMUTABLE_FL == 0 {
        return Ok(());
    }
    let flags = flags & !FS_IMMUTABLE_FL;
    // SAFETY: as above, the kernel reads one int from the given address.
    unsafe { raw::fs_ioc_setflags(file.as_raw_fd(), &raw const flags) }?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::skip::skip;

    #[test]
    fn an_immutable_file_becomes_mutable() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let set = Command::new("chattr").arg("+i").arg(file.path()).output();
        if !set.is_ok_and(|output| output.status.success()) {
            return skip("chattr +i is not to be had here");
        }
        assert!(File::options().write(true).open(file.path()).is_err());
        make_mutable(&File::open(file.path()).unwrap()).unwrap();
        File::options().write(true).open(file.path()).unwrap();
        make_mutable(file.as_file()).unwrap();
    }
}
