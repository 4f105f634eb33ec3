//! Passes a module file to the kernel.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use nix::errno::Errno;
use nix::kmod::{ModuleInitFlags, finit_module, init_module};

/// `MODULE_INIT_COMPRESSED_FILE` of <linux/module.h>, which nix lacks.
const COMPRESSED_FILE: ModuleInitFlags = ModuleInitFlags::from_bits_retain(4);

/// Size limit for a module that init unpacks itself. amdgpu has 25 MB.
const UNPACKED_LIMIT: u64 = 64 << 20;

/// `uname -r`, or `?` if it is unknown.
pub(super) fn kernel_release() -> String {
    nix::sys::utsname::uname().map_or_else(
        |_| "?".to_owned(),
        |name| name.release().to_string_lossy().into_owned(),
    )
}

/// Why a module is not in the kernel.
#[derive(Debug, thiserror::Error)]
pub(super) enum InsertError {
    /// The file cannot be read or unpacked.
    #[error(transparent)]
    File(#[from] io::Error),
    /// The kernel is locked down by Secure Boot, and the module has no signature, or
    /// has a signature that the kernel does not trust. Use the modules of the kernel's
    /// own package, or sign them with a key that the kernel trusts: one in the
    /// firmware's list db, or a machine owner key (MOK).
    #[error("{0}: under Secure Boot the kernel accepts only modules whose signature it trusts")]
    Signature(Errno),
    /// The kernel rejects the module because it was built for another kernel. Build the ramdisk
    /// again with the kernel and the modules of one package.
    #[error("{error}: built for another kernel than {}?", kernel_release())]
    OtherKernel { error: Errno },
    /// Another refusal of the kernel.
    #[error(transparent)]
    Refused(Errno),
}

pub(super) fn insert(path: &Path) -> Result<(), InsertError> {
    let parameters = parameters(path);
    let file = File::open(path)?;
    let packed = path.extension().is_some_and(|suffix| suffix != "ko");
    let flags = if packed {
        COMPRESSED_FILE
    } else {
        ModuleInitFlags::empty()
    };
    match finit_module(&file, parameters, flags) {
        // EEXIST: another thread or program has loaded the module in the meantime.
        Ok(()) | Err(Errno::EEXIST) => Ok(()),
        // A driver that does not find its device refuses to load (intel_rapl, edac
        // drivers). This is normal, not a fault.
        Err(Errno::ENODEV) => Ok(()),
        // A kernel with MODULE_DECOMPRESS unpacks only the one format that it was built
        // for. For other formats, and without that option, finit_module(2) fails with one
        // of these errors (ENOEXEC and EINVAL were measured).
        Err(Errno::ENOEXEC | Errno::EINVAL | Errno::EOPNOTSUPP) if packed => {
            let image = unpack(path)?;
            match init_module(&image, parameters) {
                Ok(()) | Err(Errno::EEXIST | Errno::ENODEV) => Ok(()),
                Err(error) => Err(refusal(error)),
            }
        }
        Err(error) => Err(refusal(error)),
    }
}

/// The parameters with which init loads a module. Without them, bonding and dummy create
/// a device (bond0, dummy0) when they are loaded. It has default options, and a name that
/// a network plan probably uses. systemd's modprobe.d sets the same two parameters.
fn parameters(path: &Path) -> &'static CStr {
    let file = path.file_name().and_then(|name| name.to_str());
    match file.and_then(|name| name.split('.').next()) {
        Some("bonding") => c"max_bonds=0",
        Some("dummy") => c"numdummies=0",
        _ => c"",
    }
}

fn refusal(error: Errno) -> InsertError {
    match error {
        Errno::EPERM | Errno::EKEYREJECTED => InsertError::Signature(error),
        Errno::ENOEXEC | Errno::ENOENT => InsertError::OtherKernel { error },
        _ => InsertError::Refused(error),
    }
}

fn unpack(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let mut image = Vec::new();
    let reader: Box<dyn io::Read> = match path.extension().and_then(|suffix| suffix.to_str()) {
        Some("xz") => Box::new(liblzma::read::XzDecoder::new(file)),
        Some("zst") => Box::new(zstd::Decoder::new(file)?),
        Some("gz") => Box::new(flate2::read::GzDecoder::new(file)),
        _ => return Err(io::Error::other("unknown compression")),
    };
    reader.take(UNPACKED_LIMIT + 1).read_to_end(&mut image)?;
    if image.len() as u64 > UNPACKED_LIMIT {
        return Err(io::Error::other("larger than 64 MiB unpacked"));
    }
    Ok(image)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;

    use super::*;

    #[test]
    fn no_driver_makes_a_device_by_itself() {
        for (file, expected) in [
            ("kernel/drivers/net/bonding/bonding.ko", c"max_bonds=0"),
            ("kernel/drivers/net/bonding/bonding.ko.xz", c"max_bonds=0"),
            ("kernel/drivers/net/dummy.ko.zst", c"numdummies=0"),
            ("kernel/drivers/net/virtio_net.ko", c""),
        ] {
            assert_eq!(parameters(Path::new(file)), expected, "{file}");
        }
    }

    #[test]
    fn packed_module_is_unpacked_by_suffix() {
        let dir = tempfile::tempdir().unwrap();
        let elf = b"\x7fELF and ~Module signature appended~\n";
        let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
        xz.write_all(elf).unwrap();
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(elf).unwrap();
        for (name, packed) in [
            ("a.ko.zst", zstd::encode_all(&elf[..], 1).unwrap()),
            ("a.ko.xz", xz.finish().unwrap()),
            ("a.ko.gz", gz.finish().unwrap()),
        ] {
            let path = dir.path().join(name);
            fs::write(&path, packed).unwrap();
            assert_eq!(unpack(&path).unwrap(), elf, "{name}");
        }
        let path = dir.path().join("a.ko.bz2");
        fs::write(&path, b"").unwrap();
        assert!(unpack(&path).is_err());
    }
}
