//! Reads the kernel images of aarch64: the plain `Image`, and `vmlinuz.efi`, which is an
//! EFI program that unpacks an `Image`.
//!
//! See the kernel's `Documentation/arch/arm64/booting.rst` and
//! `drivers/firmware/efi/libstub/zboot-header.S`. The headers of both formats lack the
//! kernel's release. The release is in the text that the kernel prints first
//! (`linux_banner` in `init/version.c`).

use std::borrow::Cow;
use std::io::Read;

use landfall_media_formats::little_endian::{u32_at, u64_at};
use liblzma::read::XzDecoder;
use liblzma::stream::{Error as XzError, Stream};

use super::{KernelImage, MAX_KERNEL_BYTES, certificate_table_size};
use crate::arch::Arch;
use crate::compress::{XZ_MEMORY, xz_error};

/// These bytes follow the first 56 bytes of an `Image`.
const MAGIC: &[u8] = b"ARM\x64";
const BANNER: &[u8] = b"Linux version ";
const MUCH_MEMORY: &str = "a vmlinuz.efi that takes at most 128 MiB of memory to unpack";
const LARGE: &str = "a vmlinuz.efi with an arm64 Image of at most 512 MiB";
// The two messages above contain the limits, so the limits must not change alone.
const _: () = assert!(XZ_MEMORY == 128 << 20 && MAX_KERNEL_BYTES == 512 << 20);

/// Parses a whole file; `None` if it is no kernel of aarch64.
pub(super) fn parse(file: &[u8]) -> Option<Result<KernelImage, &'static str>> {
    if file.starts_with(b"\x1f\x8b") {
        // `Image.gz`: GRUB may unpack it, but firmware cannot start it.
        return Some(Err("an unpacked kernel (gunzip unpacks this one)"));
    }
    let image = if has_magic(file) {
        Ok(Cow::Borrowed(file))
    } else if file.starts_with(b"MZ\0\0zimg") {
        unpacked(file, MAX_KERNEL_BYTES).map(Cow::Owned)
    } else {
        return None;
    };
    Some(image.and_then(|image| of_image(file, &image)))
}

fn has_magic(image: &[u8]) -> bool {
    image.get(56..60) == Some(MAGIC)
}

/// `file` is the file that the firmware starts, and `image` is the kernel in it.
fn of_image(file: &[u8], image: &[u8]) -> Result<KernelImage, &'static str> {
    let certificates = certificate_table_size(file);
    Ok(KernelImage {
        arch: Arch::Aarch64,
        release: release(image).ok_or("a kernel version in the arm64 Image")?,
        has_efi_stub: certificates.is_some(),
        is_signed: certificates.is_some_and(|size| size > 0),
        // `image_size`: the memory from the first byte of the kernel to the end of its
        // data.
        memory_bytes: u64_at(image, 16)
            .and_then(|bytes| u32::try_from(bytes).ok())
            .filter(|&bytes| bytes != 0),
    })
}

/// The first banner that contains a version. Format strings begin with the same text.
fn release(image: &[u8]) -> Option<String> {
    let mut starts = image.windows(BANNER.len()).enumerate();
    starts.find_map(|(at, window)| {
        if window != BANNER {
            return None;
        }
        let rest = image.get(at + BANNER.len()..)?;
        let word = rest.iter().take(128).take_while(|b| b.is_ascii_graphic());
        let word = std::str::from_utf8(&rest[..word.count()]).ok()?;
        word.starts_with(|c: char| c.is_ascii_digit())
            .then(|| word.to_owned())
    })
}

/// The `Image` in a `vmlinuz.efi`, of at most `limit` bytes.
fn unpacked(file: &[u8], limit: u64) -> Result<Vec<u8>, &'static str> {
    const BROKEN: &str = "a vmlinuz.efi with an arm64 Image";
    let number = |at| Some(u32_at(file, at)? as usize);
    let payload = || {
        let start = number(8)?;
        file.get(start..start.checked_add(number(12)?)?)
    };
    let payload = payload().ok_or(BROKEN)?;
    let name = file.get(24..56).unwrap_or_default();
    let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
    let reader: Box<dyn Read + '_> = match name {
        b"gzip" => Box::new(flate2::read::GzDecoder::new(payload)),
        b"zstd" | b"zstd22" => {
            Box::new(zstd::stream::read::Decoder::new(payload).map_err(|_| BROKEN)?)
        }
        b"xz" | b"xzkern" => {
            let stream = Stream::new_stream_decoder(XZ_MEMORY, 0).map_err(|_| BROKEN)?;
            Box::new(XzDecoder::new_stream(payload, stream))
        }
        _ => return Err("a vmlinuz.efi that is compressed by gzip, xz or zstd"),
    };
    let mut image = Vec::new();
    // One byte more than allowed, to notice an Image that is too large.
    let read = reader.take(limit + 1).read_to_end(&mut image);
    read.map_err(|error| match xz_error(&error) {
        Some(XzError::MemLimit) => MUCH_MEMORY,
        _ => BROKEN,
    })?;
    if image.len() as u64 > limit {
        return Err(LARGE);
    }
    if has_magic(&image) {
        Ok(image)
    } else {
        Err(BROKEN)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use proptest::prelude::*;

    use super::*;

    /// An `Image` that consists of the part that the parser reads.
    fn image(release: &str) -> Vec<u8> {
        let mut image = vec![0; 0x400];
        image[..2].copy_from_slice(b"MZ");
        image[16..24].copy_from_slice(&0x0200_0000_u64.to_le_bytes());
        image[56..60].copy_from_slice(MAGIC);
        put_headers(&mut image);
        image.extend_from_slice(b"Linux version %s (%s)\0");
        image.extend_from_slice(format!("Linux version {release} (builder) #1 SMP\0").as_bytes());
        image
    }

    fn put_headers(image: &mut [u8]) {
        image[0x3c] = 0x40;
        image[0x40..0x44].copy_from_slice(b"PE\0\0");
        image[0x58..0x5a].copy_from_slice(&[0x0b, 0x02]);
    }

    /// A `vmlinuz.efi` around this content.
    fn zboot(kind: &str, payload: &[u8]) -> Vec<u8> {
        let mut file = vec![0; 0x200];
        file[..8].copy_from_slice(b"MZ\0\0zimg");
        file[8..12].copy_from_slice(&0x200_u32.to_le_bytes());
        file[12..16].copy_from_slice(&u32::try_from(payload.len()).unwrap().to_le_bytes());
        file[24..24 + kind.len()].copy_from_slice(kind.as_bytes());
        put_headers(&mut file);
        file.extend_from_slice(payload);
        file
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(bytes).unwrap();
        packer.finish().unwrap()
    }

    #[test]
    fn the_release_is_read_from_every_form() {
        let image = image("6.12.1-arm64");
        let zstd = zstd::encode_all(&image[..], 1).unwrap();
        for file in [
            image.clone(),
            zboot("gzip", &gzip(&image)),
            zboot("zstd22", &zstd),
        ] {
            let expected = KernelImage {
                arch: Arch::Aarch64,
                release: "6.12.1-arm64".to_owned(),
                has_efi_stub: true,
                is_signed: false,
                memory_bytes: Some(32 << 20),
            };
            assert_eq!(KernelImage::parse(&file), Ok(expected));
        }
    }

    #[test]
    fn invalid_aarch64_kernels_are_rejected() {
        let whole = image("6");
        for (file, expected) in [
            (gzip(&whole), "an unpacked kernel (gunzip unpacks this one)"),
            (
                whole[..0x400].to_vec(),
                "a kernel version in the arm64 Image",
            ),
            (zboot("gzip", b"x"), "a vmlinuz.efi with an arm64 Image"),
            (
                zboot("gzip", &gzip(b"x")),
                "a vmlinuz.efi with an arm64 Image",
            ),
            (
                zboot("lzo", b"x"),
                "a vmlinuz.efi that is compressed by gzip, xz or zstd",
            ),
            (
                zboot("gzip", b"x")[..0x200].to_vec(),
                "a vmlinuz.efi with an arm64 Image",
            ),
        ] {
            assert_eq!(KernelImage::parse(&file), Err(expected));
        }
    }

    /// A `vmlinuz.efi` may come from a package that nobody has checked.
    #[test]
    fn limits_of_an_unpacked_vmlinuz_efi() {
        let image = image("6.12.1-arm64");
        let mut packer = liblzma::write::XzEncoder::new(Vec::new(), 1);
        packer.write_all(&image).unwrap();
        let xz = packer.finish().unwrap();
        let parsed = KernelImage::parse(&zboot("xzkern", &xz)).unwrap();
        assert_eq!(parsed.release, "6.12.1-arm64");
        assert_eq!(
            KernelImage::parse(&zboot("xzkern", &with_dictionary_of_1_gib(xz))),
            Err("a vmlinuz.efi that takes at most 128 MiB of memory to unpack")
        );

        let size = image.len() as u64;
        let file = zboot("gzip", &gzip(&image));
        assert_eq!(unpacked(&file, size), Ok(image));
        assert_eq!(
            unpacked(&file, size - 1),
            Err("a vmlinuz.efi with an arm64 Image of at most 512 MiB")
        );
    }

    /// Changes the dictionary in the header of the only block (5.3.1 of the .xz file format).
    fn with_dictionary_of_1_gib(mut xz: Vec<u8>) -> Vec<u8> {
        // After the 12 bytes of the stream header: size, flags, filter, size of the
        // filter's properties, dictionary, zeros, and the CRC32 of these fields.
        assert_eq!(xz[12..16], [2, 0, 0x21, 1]);
        xz[16] = 36;
        let mut checksum = flate2::Crc::new();
        checksum.update(&xz[12..20]);
        xz[20..24].copy_from_slice(&checksum.sum().to_le_bytes());
        xz
    }

    proptest! {
        #[test]
        fn mutated_images_never_panic(at in 0usize..0x200, byte: u8, cut in 0usize..1200) {
            for mut file in [image("6.1.0"), zboot("gzip", &gzip(&image("6.1.0")))] {
                file[at] = byte;
                file.truncate(cut);
                let _ = KernelImage::parse(&file);
            }
        }
    }
}
