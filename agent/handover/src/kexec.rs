//! Loads the kernel of the installed system, so that the reboot at the end of the
//! deployment starts it directly. That skips the firmware, which takes minutes on a
//! server.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use landfall_devices::permission::WritePermission;
use landfall_report::failure::{Failure, Result};
use landfall_sys::kexec_file;
use nix::libc;
use nix::mount::MsFlags;
use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::{boot_partition, file_in_boot, grub_choice, written_disk};

/// COMMAND_LINE_SIZE of x86, with the final NUL.
const COMMAND_LINE: usize = 2048;

/// In bytes, for a kernel or an initrd; those of CoreOS have 15 and 120 MB. The whole
/// file is loaded into memory, and a sparse file in an image can have a size of
/// terabytes.
const LARGEST_FILE: u64 = 512 << 20;

/// Loads the kernel, initrd and arguments that GRUB would boot from this disk.
///
/// # Errors
/// If the agent cannot find out what GRUB would boot, or the running kernel rejects
/// the kernel of the installed system. Then only a reboot through the firmware starts
/// the installed system.
pub fn load_installed_system(disk: &Path, _permission: &WritePermission) -> Result<()> {
    let started = Instant::now();
    let table = written_disk::read_table(disk)?;
    let boot_partition = boot_partition::find(disk, &table)?;
    let node = written_disk::node(disk, boot_partition.partition.number)?;
    let boot = Path::new(written_disk::BOOT_MOUNT_POINT);
    let mounted = written_disk::mount(
        &node,
        boot,
        boot_partition.file_system.kind,
        MsFlags::MS_RDONLY,
    )?;
    load(boot)?;
    mounted.unmount().map_err(|error| {
        Failure::deployment(format!("{}: cannot unmount it: {error}", node.display()))
    })?;
    tracing::info!(
        "{}: its kernel is loaded ({:.1} s)",
        disk.display(),
        started.elapsed().as_secs_f64()
    );
    Ok(())
}

fn load(boot: &Path) -> Result<()> {
    let next = grub_choice::read(boot)?;
    let command_line = CString::new(next.arguments.clone())
        .map_err(|_| Failure::deployment("kernel arguments: expected text without NUL"))?;
    let length = command_line.as_bytes_with_nul().len();
    if length > COMMAND_LINE {
        return Err(Failure::deployment(format!(
            "kernel arguments: expected at most {COMMAND_LINE} bytes, found {length}"
        )));
    }
    let kernel = open(&next.kernel)?;
    let initrd = match &next.initrds[..] {
        [single] => open(single)?,
        several => joined(several)?,
    };
    kexec_file::load(&kernel, &initrd, &command_line).map_err(|error| {
        Failure::deployment(format!("{}: {}", next.kernel.display(), why(&error)))
    })?;
    tracing::info!("next kernel: {}", next.arguments);
    Ok(())
}

/// Opens a regular file that fits into memory.
fn open(path: &Path) -> Result<File> {
    let file = file_in_boot::open(path, OpenOptions::new().read(true))
        .map_err(|error| file_in_boot::problem(path, &error))?;
    let length = file
        .metadata()
        .map_err(|error| file_in_boot::problem(path, &error))?
        .len();
    if length > LARGEST_FILE {
        return Err(file_in_boot::problem(
            path,
            &format!("expected at most {LARGEST_FILE} bytes, found {length}"),
        ));
    }
    Ok(file)
}

/// The initrds one after the other, as a boot loader places them in memory.
fn joined(paths: &[PathBuf]) -> Result<File> {
    let in_memory =
        |error: io::Error| Failure::deployment(format!("cannot join the initrds: {error}"));
    let memory = memfd_create(c"initrd", MFdFlags::MFD_CLOEXEC);
    let mut file = File::from(memory.map_err(|error| in_memory(error.into()))?);
    for path in paths {
        io::copy(&mut open(path)?, &mut file).map_err(in_memory)?;
        // The kernel expects each cpio archive at a multiple of four bytes.
        let length = file.stream_position().map_err(in_memory)?;
        if length > LARGEST_FILE {
            return Err(Failure::deployment(format!(
                "initrds: expected at most {LARGEST_FILE} bytes together, found {length}"
            )));
        }
        let padded = length.next_multiple_of(4);
        file.set_len(padded).map_err(in_memory)?;
        file.seek(io::SeekFrom::Start(padded)).map_err(in_memory)?;
    }
    Ok(file)
}

/// Explains the error codes of the kernel (kernel/kexec_file.c,
/// `kimage_validate_signature`).
fn why(error: &io::Error) -> String {
    let reason = match error.raw_os_error() {
        Some(libc::ENOSYS) => "the running kernel was built without CONFIG_KEXEC_FILE",
        Some(libc::EPERM) => "the running kernel is locked down (Secure Boot) and refuses kexec",
        Some(libc::ENODATA | libc::ENOKEY | libc::EKEYREJECTED | libc::EBADMSG) => {
            "it is not signed with a key that the running kernel trusts"
        }
        Some(libc::ENOEXEC) => "it is not a kernel that kexec can start",
        Some(libc::ENOMEM | libc::EADDRNOTAVAIL) => "not enough memory is free to load it",
        _ => return error.to_string(),
    };
    format!("{reason} ({error})")
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn initrds_follow_one_another_on_even_ground() {
        let directory = tempfile::tempdir().unwrap();
        let paths = ["abcde", "fg"].map(|text| {
            let path = directory.path().join(text);
            std::fs::write(&path, text).unwrap();
            path
        });
        let mut file = joined(&paths).unwrap();
        let mut content = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut content).unwrap();
        assert_eq!(content, b"abcde\0\0\0fg\0\0");
    }

    #[test]
    fn a_file_without_end_is_not_read_into_memory() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("initrd");
        let file = File::create(&path).unwrap();
        file.set_len(LARGEST_FILE + 1).unwrap();
        let failure = open(&path).unwrap_err();
        assert!(failure.details.contains("expected at most"), "{failure}");
        file.set_len(LARGEST_FILE / 2 + 4).unwrap();
        let failure = joined(&[path.clone(), path]).unwrap_err();
        assert!(failure.details.contains("together"), "{failure}");
    }

    #[test]
    fn refusals_have_words() {
        for (code, words) in [
            (libc::EPERM, "locked down"),
            (libc::ENOSYS, "CONFIG_KEXEC_FILE"),
            (libc::EKEYREJECTED, "signed"),
            (libc::EIO, "Input/output error"),
        ] {
            let text = why(&io::Error::from_raw_os_error(code));
            assert!(text.contains(words), "{text}");
        }
    }
}
