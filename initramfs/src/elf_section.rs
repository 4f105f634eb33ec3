//! Reads one named section of an ELF file without reading the rest.
//!
//! A module of 4 MB has a `.modinfo` section of a few hundred bytes. Four small
//! reads find it, so a tree of 4000 uncompressed modules is searched in a moment.

use std::fs::File;
use std::io;

/// The largest `.modinfo` of a Debian kernel (amdgpu) is 40 kB.
const MAX_SECTION: u64 = 4 << 20;
/// Kernel modules built with one section per function have thousands of sections.
const MAX_SECTION_HEADERS: u64 = 8 << 20;

const HEADER_LEN: usize = 64;
const SECTION_HEADER_LEN: usize = 64;

pub(crate) trait ReadAt {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
}

impl ReadAt for File {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(self, buffer, offset)
    }
}

impl ReadAt for [u8] {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let source = start
            .checked_add(buffer.len())
            .and_then(|end| self.get(start..end));
        buffer.copy_from_slice(source.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// Why a section cannot be found.
#[derive(Debug, thiserror::Error)]
pub enum ElfError {
    /// The file is shorter than its headers say, or cannot be read.
    #[error("reading {what}")]
    Io {
        /// Which part of the file.
        what: &'static str,
        #[source]
        source: io::Error,
    },
    /// Not a 64-bit little-endian ELF file, which is what the kernel loads.
    #[error("expected {expected}, found {found}")]
    Format {
        expected: &'static str,
        found: String,
    },
}

/// The content of the first section called `name`; `None` if there is none.
pub(crate) fn read(file: &(impl ReadAt + ?Sized), name: &str) -> Result<Option<Vec<u8>>, ElfError> {
    let header: [u8; HEADER_LEN] = array(file, 0, "the ELF header")?;
    if header[..4] != *b"\x7fELF" {
        return Err(unexpected(
            "an ELF file",
            format!("`{}`", header[..4].escape_ascii()),
        ));
    }
    if header[4..6] != [2, 1] {
        return Err(unexpected(
            "a 64-bit little-endian ELF file",
            format!("class and order {:?}", &header[4..6]),
        ));
    }
    let table_offset = u64_at(&header, 0x28);
    let (entry_size, count, names_index) = (
        u16_at(&header, 0x3a),
        u16_at(&header, 0x3c),
        u16_at(&header, 0x3e),
    );
    if usize::from(entry_size) != SECTION_HEADER_LEN {
        return Err(unexpected(
            "section headers of 64 bytes",
            entry_size.to_string(),
        ));
    }
    let table_len = u64::from(count) * SECTION_HEADER_LEN as u64;
    let table = bytes(
        file,
        table_offset,
        table_len,
        MAX_SECTION_HEADERS,
        "the section headers",
    )?;
    let sections: Vec<&[u8]> = table.chunks_exact(SECTION_HEADER_LEN).collect();
    let Some(names_header) = sections.get(usize::from(names_index)) else {
        return Err(unexpected(
            "section names",
            format!("index {names_index} of {count} sections"),
        ));
    };
    let names = section(file, names_header, "the section names")?;
    for header in &sections {
        let start = names.get(u32_at(header, 0) as usize..).unwrap_or_default();
        // Compares the prefix first. Searching for the NUL would be slow if
        // thousands of headers pointed to the same megabytes without a NUL.
        let rest = start.strip_prefix(name.as_bytes());
        if rest.is_some_and(|rest| rest.first().is_none_or(|&b| b == 0)) {
            return section(file, header, "the section").map(Some);
        }
    }
    Ok(None)
}

fn section(
    file: &(impl ReadAt + ?Sized),
    header: &[u8],
    what: &'static str,
) -> Result<Vec<u8>, ElfError> {
    bytes(
        file,
        u64_at(header, 0x18),
        u64_at(header, 0x20),
        MAX_SECTION,
        what,
    )
}

fn bytes(
    file: &(impl ReadAt + ?Sized),
    offset: u64,
    len: u64,
    limit: u64,
    what: &'static str,
) -> Result<Vec<u8>, ElfError> {
    if len > limit {
        return Err(unexpected(
            "a section of a few kilobytes",
            format!("{len} bytes for {what}"),
        ));
    }
    // At most `limit`, so the cast loses nothing.
    let mut buffer = vec![0; len as usize];
    file.read_exact_at(&mut buffer, offset)
        .map_err(|source| ElfError::Io { what, source })?;
    Ok(buffer)
}

fn array<const N: usize>(
    file: &(impl ReadAt + ?Sized),
    offset: u64,
    what: &'static str,
) -> Result<[u8; N], ElfError> {
    let mut buffer = [0; N];
    file.read_exact_at(&mut buffer, offset)
        .map_err(|source| ElfError::Io { what, source })?;
    Ok(buffer)
}

fn unexpected(expected: &'static str, found: String) -> ElfError {
    ElfError::Format { expected, found }
}

// The callers pass offsets inside buffers of a fixed size.
fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

#[cfg(test)]
pub(crate) mod tests;
