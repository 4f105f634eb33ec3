//! Adds sections to an EFI program. A unified kernel image (UKI) is systemd's stub with
//! kernel, ramdisk and command line added.
//!
//! The formats are Microsoft's "PE Format" and the UAPI group's "Unified Kernel Image".
//! The stub reads its own headers and finds the sections by name, so nothing else in
//! the stub has to change.

mod headers;

use headers::{Headers, SECTION_BYTES};

use crate::arch::Arch;

/// The size limit of a stub in bytes. Debian's stub has 0.1 MB.
pub const MAX_STUB_BYTES: u64 = 16 << 20;

/// The size limit of the whole image in bytes. Offsets are 32-bit numbers, and firmware
/// treats them as signed numbers.
const MAX_IMAGE_BYTES: u64 = i32::MAX as u64;

/// `IMAGE_SCN_CNT_INITIALIZED_DATA | IMAGE_SCN_MEM_READ`.
const READABLE_DATA: u32 = 0x4000_0040;

/// A section to add.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Section<'a> {
    /// At most eight bytes, such as `.linux`.
    pub name: &'a str,
    pub content: &'a [u8],
}

/// Why the sections cannot be added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// The file is not an EFI program for x86-64 or aarch64, or its headers contradict
    /// each other. Use the file `linuxx64.efi.stub` or `linuxaa64.efi.stub` of Debian's
    /// package systemd-boot-efi.
    #[error("expected {expected}, found {found}")]
    Format {
        expected: &'static str,
        found: String,
    },
    /// The headers of the stub have no room for further sections. Use a newer stub.
    #[error("expected room for {expected} more sections in the headers, found room for {found}")]
    NoRoom { expected: usize, found: usize },
    /// The stub already has a section of this name, so it is a finished image. Use a stub
    /// without such sections.
    #[error("expected a stub without a section {name}, found one")]
    Taken { name: String },
    /// Kernel and ramdisk are too large for one EFI program.
    #[error("expected an image of at most {MAX_IMAGE_BYTES} bytes, found {found}")]
    TooLarge { found: u64 },
}

/// The stub with these sections after its own sections.
///
/// # Errors
/// If the stub is not an EFI program, is signed, already has one of the sections or has
/// no room for them, or if the image would be larger than 2 GiB.
pub fn assemble(stub: &[u8], sections: &[Section<'_>]) -> Result<Vec<u8>, ImageError> {
    let headers = Headers::read(stub)?;
    if headers.certificate_bytes != 0 {
        return Err(ImageError::Format {
            expected: "a stub without a signature",
            found: format!("one of {} bytes", headers.certificate_bytes),
        });
    }
    let room = headers.free_entries(stub);
    if room < sections.len() {
        return Err(ImageError::NoRoom {
            expected: sections.len(),
            found: room,
        });
    }
    let mut image = stub.to_vec();
    let mut memory_end = headers.memory_end();
    for (index, section) in sections.iter().enumerate() {
        if headers.sections.iter().any(|own| own.name == section.name) {
            let name = section.name.to_owned();
            return Err(ImageError::Taken { name });
        }
        let address = memory_end.next_multiple_of(u64::from(headers.section_alignment));
        let at = (image.len() as u64).next_multiple_of(u64::from(headers.file_alignment));
        let length = section.content.len() as u64;
        let padded = length.next_multiple_of(u64::from(headers.file_alignment));
        memory_end = address + length;
        let entry = Entry {
            name: section.name,
            bytes: limited(length)?,
            address: limited(address)?,
            padded: limited(padded)?,
            at: limited(at)?,
        };
        // Also check the ends of the section in the file and in memory against the limit.
        // So the casts below are lossless.
        let (start, end) = (at, limited(at + padded)?);
        limited(memory_end)?;
        image.resize(start as usize, 0);
        image.extend_from_slice(section.content);
        image.resize(end as usize, 0);
        let place = headers.table + (headers.sections.len() + index) * SECTION_BYTES;
        image[place..place + SECTION_BYTES].copy_from_slice(&entry.encode());
    }
    let memory = memory_end.next_multiple_of(u64::from(headers.section_alignment));
    headers.write(&mut image, sections.len(), limited(memory)?);
    Ok(image)
}

/// The sections of an EFI program, with their content.
///
/// # Errors
/// If the file is not an EFI program, or if it is cut off.
pub fn sections(image: &[u8]) -> Result<Vec<(String, &[u8])>, ImageError> {
    let headers = Headers::read(image)?;
    let sections = headers.sections.iter();
    let sections = sections.map(|section| (section.name.clone(), &image[section.file.clone()]));
    Ok(sections.collect())
}

/// The architecture that an EFI program is for.
///
/// # Errors
/// As for [`sections`].
pub fn arch(image: &[u8]) -> Result<Arch, ImageError> {
    Ok(Headers::read(image)?.arch)
}

/// Whether an EFI program carries a signature. This function cannot know whether the
/// firmware of a host trusts the signer.
///
/// # Errors
/// As for [`sections`].
pub fn is_signed(image: &[u8]) -> Result<bool, ImageError> {
    Ok(Headers::read(image)?.certificate_bytes != 0)
}

fn limited(number: u64) -> Result<u32, ImageError> {
    match u32::try_from(number) {
        Ok(fits) if number <= MAX_IMAGE_BYTES => Ok(fits),
        _ => Err(ImageError::TooLarge { found: number }),
    }
}

/// An entry of the section table.
struct Entry<'a> {
    name: &'a str,
    bytes: u32,
    address: u32,
    padded: u32,
    at: u32,
}

impl Entry<'_> {
    fn encode(&self) -> [u8; SECTION_BYTES] {
        let mut entry = [0; SECTION_BYTES];
        let name = self.name.as_bytes();
        let name = &name[..name.len().min(8)];
        entry[..name.len()].copy_from_slice(name);
        for (at, number) in [
            (8, self.bytes),
            (12, self.address),
            (16, self.padded),
            (20, self.at),
            (36, READABLE_DATA),
        ] {
            entry[at..at + 4].copy_from_slice(&number.to_le_bytes());
        }
        entry
    }
}

#[cfg(test)]
mod tests;
