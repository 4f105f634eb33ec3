//! Reads the headers of an EFI program and changes them for further sections.

use std::ops::Range;

use landfall_media_formats::little_endian::{u16_at, u32_at};

use super::ImageError;
use crate::arch::Arch;

/// The size of an entry of the section table in bytes.
pub(super) const SECTION_BYTES: usize = 40;

const PE: u32 = u32::from_le_bytes(*b"PE\0\0");
const PE32_PLUS: u16 = 0x020b;
/// The maximum number of sections in Windows' loader; firmware has the same limit.
const MAX_SECTIONS: usize = 96;
/// The largest alignments that are in use: 64 KiB in files, 2 MiB in memory.
const MAX_FILE_ALIGNMENT: u32 = 64 << 10;
const MAX_SECTION_ALIGNMENT: u32 = 2 << 20;

/// The instruction `nop`. In Debian 12's linuxaa64.efi.stub it fills the space between
/// the section table and the first section.
const AARCH64_NOP: [u8; 4] = 0xd503_201f_u32.to_le_bytes();

// Offsets from the signature `PE`. The file header and the optional header follow it.
const MACHINE: usize = 4;
const SECTION_COUNT: usize = 6;
const OPTIONAL_HEADER_BYTES: usize = 20;
const OPTIONAL_HEADER: usize = 24;
const SECTION_ALIGNMENT: usize = OPTIONAL_HEADER + 32;
const FILE_ALIGNMENT: usize = OPTIONAL_HEADER + 36;
const IMAGE_BYTES: usize = OPTIONAL_HEADER + 56;
const HEADER_BYTES: usize = OPTIONAL_HEADER + 60;
const CHECKSUM: usize = OPTIONAL_HEADER + 64;
/// The optional header must include data directory 4. Otherwise the bytes that
/// [`Headers::write`] changes could belong to the section table.
const LEAST_OPTIONAL_HEADER: usize = 112 + 5 * 8;
/// The offset of the field with the position of `PE`, and the end of the header with this
/// field.
const START: usize = 0x3c;
const FIRST_HEADER_BYTES: usize = 0x40;
/// Data directory 4: the signatures.
const CERTIFICATE_BYTES: usize = OPTIONAL_HEADER + 112 + 4 * 8 + 4;

/// The values in the headers that matter for adding sections.
#[derive(Debug)]
pub(super) struct Headers {
    /// The offset of the signature `PE`.
    start: usize,
    pub(super) arch: Arch,
    pub(super) section_alignment: u32,
    pub(super) file_alignment: u32,
    /// The end of all headers.
    header_bytes: usize,
    pub(super) certificate_bytes: u32,
    /// The offset of the section table.
    pub(super) table: usize,
    pub(super) sections: Vec<OwnSection>,
}

/// A section that is already in the program.
#[derive(Debug)]
pub(super) struct OwnSection {
    pub(super) name: String,
    /// Where the section ends in memory.
    memory_end: u64,
    /// Its content in the file, without padding.
    pub(super) file: Range<usize>,
}

impl Headers {
    pub(super) fn read(image: &[u8]) -> Result<Self, ImageError> {
        const PROGRAM: &str = "an EFI program for x86-64 or aarch64";
        let cut_off = || wrong(PROGRAM, format!("a file of {} bytes", image.len()));
        if !image.starts_with(b"MZ") {
            let start = image.get(..2).unwrap_or(image).escape_ascii();
            return Err(wrong(PROGRAM, format!("`{start}`")));
        }
        // The casts from u32 to usize are lossless: this is a program for 64-bit systems.
        let start = u32_at(image, START).ok_or_else(cut_off)? as usize;
        if start < FIRST_HEADER_BYTES {
            return Err(wrong(PROGRAM, format!("headers that begin at {start}")));
        }
        let half = |offset| u16_at(image, start + offset).ok_or_else(cut_off);
        let word = |offset| u32_at(image, start + offset).ok_or_else(cut_off);
        let kind = (word(0)?, half(MACHINE)?, half(OPTIONAL_HEADER)?);
        let arch = match (kind, Arch::of_efi_program(kind.1)) {
            ((PE, _, PE32_PLUS), Some(arch)) => arch,
            _ => {
                let found = format!("signature, machine and kind {kind:x?}");
                return Err(wrong(PROGRAM, found));
            }
        };
        let optional_bytes = usize::from(half(OPTIONAL_HEADER_BYTES)?);
        if optional_bytes < LEAST_OPTIONAL_HEADER {
            let found = format!("{optional_bytes} bytes");
            return Err(wrong("an optional header of at least 152 bytes", found));
        }
        let headers = Self {
            start,
            arch,
            section_alignment: alignment(word(SECTION_ALIGNMENT)?, MAX_SECTION_ALIGNMENT)?,
            file_alignment: alignment(word(FILE_ALIGNMENT)?, MAX_FILE_ALIGNMENT)?,
            header_bytes: word(HEADER_BYTES)? as usize,
            certificate_bytes: word(CERTIFICATE_BYTES)?,
            table: start + OPTIONAL_HEADER + optional_bytes,
            sections: Vec::new(),
        };
        let count = usize::from(half(SECTION_COUNT)?);
        if !(1..=MAX_SECTIONS).contains(&count) {
            let found = count.to_string();
            return Err(wrong("1 to 96 sections", found));
        }
        let sections = (0..count).map(|index| headers.section(image, index));
        let sections = sections.collect::<Result<_, _>>()?;
        Ok(Self {
            sections,
            ..headers
        })
    }

    fn section(&self, image: &[u8], index: usize) -> Result<OwnSection, ImageError> {
        let place = self.table + index * SECTION_BYTES;
        let outside = || {
            wrong(
                "the sections within the file",
                format!("section {index} outside"),
            )
        };
        let entry = image
            .get(place..place + SECTION_BYTES)
            .ok_or_else(outside)?;
        let word = |at| u32_at(entry, at).ok_or_else(outside);
        let (bytes, address, in_file) = (word(8)?, word(12)?, word(16)? as usize);
        // A section without bytes in the file may state any offset.
        let from = if in_file == 0 { 0 } else { word(20)? as usize };
        let content = from..from + in_file.min(bytes as usize);
        if content.end > image.len() {
            return Err(outside());
        }
        let name = entry[..8]
            .split(|&byte| byte == 0)
            .next()
            .unwrap_or_default();
        Ok(OwnSection {
            name: String::from_utf8_lossy(name).into_owned(),
            memory_end: u64::from(address) + u64::from(bytes),
            file: content,
        })
    }

    /// Where the last section ends in memory.
    pub(super) fn memory_end(&self) -> u64 {
        let ends = self.sections.iter().map(|section| section.memory_end);
        ends.max().unwrap_or_default()
    }

    /// The number of section entries that fit into the padding after the section table,
    /// up to the end of the headers or the first content, and at most [`MAX_SECTIONS`]
    /// with the present ones.
    pub(super) fn free_entries(&self, image: &[u8]) -> usize {
        let first = self.table + self.sections.len() * SECTION_BYTES;
        let contents = self
            .sections
            .iter()
            .filter(|section| !section.file.is_empty());
        let limit = contents
            .map(|section| section.file.start)
            .fold(self.header_bytes.min(image.len()), usize::min);
        let (words, _) = image.get(first..limit).unwrap_or_default().as_chunks::<4>();
        let is_padding = |word: &&[u8; 4]| {
            **word == [0; 4] || self.arch == Arch::Aarch64 && **word == AARCH64_NOP
        };
        let free = words.iter().take_while(is_padding).count() * 4;
        (free / SECTION_BYTES).min(MAX_SECTIONS - self.sections.len())
    }

    /// Updates the headers for `added` more sections, which end at `image_bytes` in
    /// memory.
    pub(super) fn write(&self, image: &mut [u8], added: usize, image_bytes: u32) {
        // Lossless: at most MAX_SECTIONS.
        let count = (self.sections.len() + added) as u16;
        let mut put = |offset: usize, bytes: &[u8]| {
            let at = self.start + offset;
            image[at..at + bytes.len()].copy_from_slice(bytes);
        };
        put(SECTION_COUNT, &count.to_le_bytes());
        put(IMAGE_BYTES, &image_bytes.to_le_bytes());
        // Zero means that the checksum is not computed. Firmware verifies signatures, not
        // this sum.
        put(CHECKSUM, &[0; 4]);
    }
}

fn wrong(expected: &'static str, found: String) -> ImageError {
    ImageError::Format { expected, found }
}

fn alignment(number: u32, largest: u32) -> Result<u32, ImageError> {
    if number.is_power_of_two() && number <= largest {
        return Ok(number);
    }
    Err(wrong("a usual alignment of sections", number.to_string()))
}
