//! The master boot record of a disk, as far as others want to know of it.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use crate::failure::{Class, Failure, Result};

/// Where the disk's signature stands (UEFI 2.10, 5.2.1), little-endian.
const SIGNATURE_OFFSET: u64 = 440;

/// The signature that tells disks apart, as a number with `0x`.
///
/// # Errors
/// If the disk cannot be read.
pub fn signature(disk: &Path) -> Result<String> {
    let mut bytes = [0; 4];
    File::open(disk)
        .and_then(|file| file.read_exact_at(&mut bytes, SIGNATURE_OFFSET))
        .map_err(|error| {
            Failure::new(
                Class::BlockDeviceError,
                format!("reading the MBR of {}: {error}", disk.display()),
            )
        })?;
    Ok(format!("0x{:08x}", u32::from_le_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_has_all_its_digits() {
        let disk = tempfile::NamedTempFile::new().unwrap();
        let mut sector = vec![0; 512];
        sector[440..444].copy_from_slice(&[0x0d, 0xf0, 0xad, 0x0b]);
        std::fs::write(disk.path(), &sector).unwrap();
        assert_eq!(signature(disk.path()).unwrap(), "0x0badf00d");
        std::fs::write(disk.path(), &sector[..442]).unwrap();
        assert!(signature(disk.path()).is_err());
    }
}
