//! Reads the entries of an archive, one after the other, and reports what is wrong with
//! an entry.

use super::{HEADER_LEN, MAGIC, MAGIC_WITH_CHECKSUMS, MAX_ENTRIES, MAX_NAME_LEN, TRAILER};

/// The file is no ramdisk in the format newc, or it is damaged. Build or download it again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cpio archive at byte {offset}: {fault}")]
pub struct NewcError {
    /// The offset in bytes at which the entry begins.
    pub offset: usize,
    pub fault: NewcFault,
}

/// What is wrong with an entry: what was expected and what was found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NewcFault {
    /// The archive has more files than any ramdisk of Landfall. Check whether this is the
    /// right file.
    #[error("expected at most {MAX_ENTRIES} entries, found more")]
    TooManyEntries,
    /// The archive has no end mark. Build or copy the ramdisk again.
    #[error("expected an entry or the trailer, found the end: it is cut off")]
    NoEntry,
    /// The data at this byte is not an entry of an archive. The ramdisk is damaged, or it
    /// has another format. Build or copy it again.
    #[error("expected `070701` or `070702`, found `{0}`")]
    Magic(String),
    /// The archive ends in the middle of a name. Build or copy the ramdisk again.
    #[error("expected a name, found the end: it is cut off")]
    NoName,
    /// The header of an entry is damaged. Build or copy the ramdisk again.
    #[error("expected a name with one NUL, at its end")]
    NameEnd,
    /// The name of a file in the archive is not valid UTF-8. The archive is damaged;
    /// build or copy it again.
    #[error("expected a name in UTF-8")]
    NotUtf8,
    /// The size of an entry is larger than a file can be. The archive is damaged; build or copy
    /// it again.
    #[error("size is out of range")]
    SizeOutOfRange,
    /// Copy or build the file again.
    #[error("expected {size} bytes of `{name}`, found the end: it is cut off")]
    CutOff { size: usize, name: String },
    /// The header of an entry is damaged. Build or copy the ramdisk again.
    #[error("expected a name of 1 to {MAX_NAME_LEN} bytes, found {0}")]
    NameLength(usize),
    /// The archive is damaged. Copy or build the file again.
    #[error("expected 8 hex digits, found `{0}`")]
    Digits(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The name as written in the archive, usually without a leading slash.
    pub name: &'a str,
    /// File type and permissions, as in `stat`.
    pub mode: u32,
    /// The time in seconds since 1970.
    pub mtime: u32,
    /// Major and minor number of a device node.
    pub rdev: (u32, u32),
    pub data: &'a [u8],
}

impl Entry<'_> {
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.mode & super::S_IFMT == super::S_IFREG
    }
}

/// Reads one archive. For any input, the reader ends after a limited number of
/// entries or with an error.
#[derive(Debug)]
pub struct Reader<'a> {
    data: &'a [u8],
    offset: usize,
    entries: usize,
    ended: bool,
}

impl<'a> Reader<'a> {
    #[must_use]
    pub fn new(data: &'a [u8]) -> Self {
        Self {
            data,
            offset: 0,
            entries: 0,
            ended: false,
        }
    }

    /// The length of the archive in bytes, including the trailer. The value is final when
    /// the iterator has ended.
    #[must_use]
    pub fn consumed(&self) -> usize {
        self.offset
    }

    fn entry(&mut self) -> Result<Option<Entry<'a>>, NewcFault> {
        if self.entries == MAX_ENTRIES {
            return Err(NewcFault::TooManyEntries);
        }
        let rest = self.data.get(self.offset..).unwrap_or_default();
        // The trailer may be missing at the end of the data
        // (Documentation/driver-api/early-userspace/buffer-format.rst).
        if rest.is_empty() && self.entries > 0 {
            return Ok(None);
        }
        let (header, after_header) = rest
            .split_at_checked(HEADER_LEN)
            .ok_or(NewcFault::NoEntry)?;
        let (magic, fields) = header.split_at(MAGIC.len());
        if magic != MAGIC && magic != MAGIC_WITH_CHECKSUMS {
            return Err(NewcFault::Magic(magic.escape_ascii().to_string()));
        }
        let numbers = numbers(fields)?;
        let [
            _,
            mode,
            _,
            _,
            _,
            mtime,
            size,
            _,
            _,
            major,
            minor,
            name_size,
            _,
        ] = numbers;
        let (name_size, size) = (name_len(name_size)?, size as usize);
        let name = after_header.get(..name_size).ok_or(NewcFault::NoName)?;
        let name = match name.split_last() {
            Some((0, name)) if !name.contains(&0) => name,
            _ => return Err(NewcFault::NameEnd),
        };
        let name = std::str::from_utf8(name).map_err(|_| NewcFault::NotUtf8)?;

        let data_start = (self.offset + HEADER_LEN + name_size).next_multiple_of(4);
        let data_end = data_start
            .checked_add(size)
            .ok_or(NewcFault::SizeOutOfRange)?;
        let cut_off = || NewcFault::CutOff {
            size,
            name: name.escape_debug().to_string(),
        };
        let data = self.data.get(data_start..data_end).ok_or_else(cut_off)?;
        // At the end of the file the padding may be missing.
        self.offset = data_end.next_multiple_of(4).min(self.data.len());
        self.entries += 1;
        if name == TRAILER {
            return Ok(None);
        }
        Ok(Some(Entry {
            name,
            mode,
            mtime,
            rdev: (major, minor),
            data,
        }))
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Result<Entry<'a>, NewcError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let offset = self.offset;
        let result = self
            .entry()
            .map_err(|fault| NewcError { offset, fault })
            .transpose();
        self.ended = !matches!(result, Some(Ok(_)));
        result
    }
}

/// The sizes that the header of an entry states for the bytes after it.
pub(crate) struct Sizes {
    /// Of the name, NUL included.
    pub(crate) name: usize,
    pub(crate) content: usize,
}

/// Reads the sizes in the header of an entry. Checks neither its magic number nor its
/// other fields.
pub(crate) fn sizes(header: &[u8; HEADER_LEN]) -> Result<Sizes, NewcFault> {
    let numbers = numbers(&header[MAGIC.len()..])?;
    Ok(Sizes {
        name: name_len(numbers[11])?,
        content: numbers[6] as usize,
    })
}

pub(super) fn name_len(bytes: u32) -> Result<usize, NewcFault> {
    let bytes = bytes as usize;
    match (1..=MAX_NAME_LEN).contains(&bytes) {
        true => Ok(bytes),
        false => Err(NewcFault::NameLength(bytes)),
    }
}

/// The 13 numbers after the magic number.
pub(super) fn numbers(fields: &[u8]) -> Result<[u32; 13], NewcFault> {
    let mut numbers = [0; 13];
    for (number, digits) in numbers.iter_mut().zip(fields.chunks_exact(8)) {
        *number = hex(digits)?;
    }
    Ok(numbers)
}

fn hex(digits: &[u8]) -> Result<u32, NewcFault> {
    let fault = || NewcFault::Digits(digits.escape_ascii().to_string());
    // `from_str_radix` alone would accept a leading sign.
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return Err(fault());
    }
    std::str::from_utf8(digits)
        .ok()
        .and_then(|text| u32::from_str_radix(text, 16).ok())
        .ok_or_else(fault)
}
