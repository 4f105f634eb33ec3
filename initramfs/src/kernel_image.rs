//! Reads the header of a kernel image. This file contains the reader for an x86 bzImage;
//! see the kernel's `Documentation/arch/x86/boot.rst`.

mod arm64;

use std::path::Path;

use landfall_media_formats::little_endian::{u16_at, u32_at};

use crate::arch::Arch;
use crate::path_error::{PathError, read_bounded};

/// The size limit of a kernel in bytes. Distribution kernels are 8 to 15 MB. A debug
/// kernel with a built-in initramfs is smaller than this limit, too.
const MAX_KERNEL_BYTES: u64 = 512 << 20;

/// Why a file is no kernel.
#[derive(Debug, thiserror::Error)]
pub enum KernelImageError {
    #[error(transparent)]
    Path(#[from] PathError),
    /// The file is neither a bzImage of x86 nor an Image or `vmlinuz.efi` of arm64.
    /// GRUB's `linux` command boots only these formats.
    #[error("kernel image {path}: expected {expected}, found none")]
    Format {
        path: String,
        expected: &'static str,
    },
}

/// What a kernel image's headers say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelImage {
    pub arch: Arch,
    /// The kernel's release, as `uname -r` prints it.
    pub release: String,
    /// Whether UEFI firmware can start it as a program.
    pub has_efi_stub: bool,
    /// Whether the kernel image carries a signature. Whether the firmware of a host
    /// trusts the signer is unknown here.
    pub is_signed: bool,
    /// In bytes: the memory for the code and data of the running kernel, including some
    /// space in which it unpacks itself (`init_size`). `None` if the header does not
    /// state it.
    pub memory_bytes: Option<u32>,
}

impl KernelImage {
    pub fn read(path: &Path) -> Result<Self, KernelImageError> {
        Self::parse(&read_bounded(path, MAX_KERNEL_BYTES)?).map_err(|expected| {
            KernelImageError::Format {
                path: path.display().to_string(),
                expected,
            }
        })
    }

    /// Parses a kernel image. The error says what was expected.
    pub fn parse(image: &[u8]) -> Result<Self, &'static str> {
        const BOOT_HEADER: &str = "the boot header of an x86 bzImage or of an arm64 Image";
        const VERSION: &str = "a kernel version in the boot header";
        if image.get(0x202..0x206) != Some(b"HdrS") {
            return arm64::parse(image).unwrap_or(Err(BOOT_HEADER));
        }
        // The offset is relative to the boot header; 0 means that there is no version.
        let offset = usize::from(u16_at(image, 0x20e).ok_or(BOOT_HEADER)?);
        let text = image
            .get(0x200 + offset..)
            .filter(|_| offset != 0)
            .ok_or(VERSION)?;
        let word = text
            .iter()
            .take(128)
            .take_while(|b| b.is_ascii_graphic())
            .count();
        let release = std::str::from_utf8(&text[..word])
            .ok()
            .filter(|word| !word.is_empty())
            .ok_or(VERSION)?;
        let certificates = certificate_table_size(image);
        Ok(Self {
            arch: Arch::X86_64,
            release: release.to_owned(),
            has_efi_stub: certificates.is_some(),
            is_signed: certificates.is_some_and(|size| size > 0),
            memory_bytes: u32_at(image, 0x260).filter(|&bytes| bytes != 0),
        })
    }
}

/// Reads data directory 4 of a PE32+ image (Microsoft's "PE Format"). `None` if the
/// image is not PE32+.
fn certificate_table_size(image: &[u8]) -> Option<u32> {
    if !image.starts_with(b"MZ") {
        return None;
    }
    let header = usize::try_from(u32_at(image, 0x3c)?).ok()?;
    let optional_header = header.checked_add(24)?;
    if u32_at(image, header)? != u32::from_le_bytes(*b"PE\0\0")
        || u16_at(image, optional_header)? != 0x020b
    {
        return None;
    }
    u32_at(image, optional_header + 112 + 4 * 8 + 4)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A bzImage that consists of the part that the parser reads.
    pub(crate) fn bz_image(release: &str) -> Vec<u8> {
        let mut image = vec![0; 0x400];
        image[..2].copy_from_slice(b"MZ");
        image[0x3c] = 0x40;
        image[0x40..0x44].copy_from_slice(b"PE\0\0");
        image[0x58..0x5a].copy_from_slice(&[0x0b, 0x02]);
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x20e..0x210].copy_from_slice(&0x200u16.to_le_bytes());
        image.extend_from_slice(format!("{release} (builder) #1 SMP\0").as_bytes());
        image
    }

    #[test]
    fn the_release_is_read_from_a_kernel() {
        let mut image = bz_image("6.1.0-56-cloud-amd64");
        let parsed = KernelImage::parse(&image).unwrap();
        let release = "6.1.0-56-cloud-amd64".to_owned();
        assert_eq!(
            parsed,
            KernelImage {
                arch: Arch::X86_64,
                release,
                has_efi_stub: true,
                is_signed: false,
                memory_bytes: None,
            }
        );
        image[0x260..0x264].copy_from_slice(&0x0300_0000_u32.to_le_bytes());
        let memory_bytes = KernelImage::parse(&image).unwrap().memory_bytes;
        assert_eq!(memory_bytes, Some(48 << 20));
        image[0x58 + 112 + 36] = 8;
        assert!(KernelImage::parse(&image).unwrap().is_signed);
        image[0] = 0;
        let parsed = KernelImage::parse(&image).unwrap();
        assert!(!parsed.has_efi_stub && !parsed.is_signed);
    }

    #[test]
    fn invalid_kernels_are_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("vmlinuz");
        for (bytes, expected) in [
            (
                vec![],
                "the boot header of an x86 bzImage or of an arm64 Image",
            ),
            (
                b"\x7fELF".to_vec(),
                "the boot header of an x86 bzImage or of an arm64 Image",
            ),
            (bz_image(""), "a kernel version in the boot header"),
            (
                bz_image("6")[..0x300].to_vec(),
                "a kernel version in the boot header",
            ),
        ] {
            std::fs::write(&path, bytes).unwrap();
            let error = KernelImage::read(&path).unwrap_err().to_string();
            assert_eq!(
                error,
                format!(
                    "kernel image {}: expected {expected}, found none",
                    path.display()
                )
            );
        }
    }

    proptest! {
        #[test]
        fn mutated_images_never_panic(at in 0usize..0x210, byte: u8, cut in 0usize..1100) {
            let mut image = bz_image("6.1.0");
            image[at] = byte;
            image.truncate(cut);
            let _ = KernelImage::parse(&image);
        }
    }
}
