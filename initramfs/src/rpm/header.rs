//! Reads a header: an index of tags, and a store with their values (rpm's
//! `docs/manual/format_header.md`).

use std::io::Read;

use super::{RpmError, read_part};

/// The first bytes of a header: magic number and version. Four reserved bytes follow.
const MAGIC: [u8; 4] = [0x8e, 0xad, 0xe8, 0x01];
const INTRO_BYTES: u64 = 16;
const ENTRY_BYTES: usize = 16;
/// The maximum number of tags, as in rpm (`headerMaxTags`, lib/header.cc). A kernel
/// package has 100.
const MAX_TAGS: u32 = 0xffff;
/// The size limit of the store in bytes. The store of a package with ten thousand
/// modules has 2 MB.
const MAX_STORE: u32 = 64 << 20;
/// The maximum number of values of one tag. A kernel package provides ten thousand names.
const MAX_TEXTS: usize = 1 << 18;

/// The tags that the builder reads (rpm's include/rpm/rpmtag.h).
pub(super) struct Tag;

impl Tag {
    pub(super) const NAME: u32 = 1000;
    /// The size of all files in bytes, in 32 bits.
    pub(super) const SIZE: u32 = 1009;
    pub(super) const PROVIDE_NAME: u32 = 1047;
    pub(super) const REQUIRE_NAME: u32 = 1049;
    /// The size of all files in bytes, in 64 bits. Packages have it if 32 bits are not
    /// enough.
    pub(super) const LONG_SIZE: u32 = 5009;
    /// The digest of the compressed archive.
    pub(super) const PAYLOAD_DIGEST: u32 = 5092;
    pub(super) const PAYLOAD_DIGEST_ALGORITHM: u32 = 5093;
}

/// The types of values.
const INT32: u32 = 4;
const INT64: u32 = 5;
const STRING: u32 = 6;
const STRING_ARRAY: u32 = 8;

#[derive(Debug)]
struct Entry {
    tag: u32,
    kind: u32,
    offset: usize,
    count: usize,
}

#[derive(Debug)]
pub(super) struct Header {
    entries: Vec<Entry>,
    store: Vec<u8>,
}

/// Reads the header that begins here. Errors contain `part` as its name.
pub(super) fn read(input: &mut impl Read, part: &'static str) -> Result<Header, RpmError> {
    let intro = read_part(input, part, INTRO_BYTES)?;
    if intro[..4] != MAGIC {
        return Err(RpmError::NoHeader {
            part,
            found: intro[..4].escape_ascii().to_string(),
        });
    }
    let within = |found: u32, limit: u32, unit| match found <= limit {
        true => Ok(u64::from(found)),
        false => Err(RpmError::TooLarge {
            part,
            limit: limit.into(),
            unit,
            found: found.into(),
        }),
    };
    let tags = within(number_at(&intro, 8), MAX_TAGS, "tags")?;
    let store = within(number_at(&intro, 12), MAX_STORE, "bytes")?;
    let index = read_part(input, part, tags * ENTRY_BYTES as u64)?;
    let store = read_part(input, part, store)?;
    Ok(Header::parse(&index, store))
}

/// The big-endian number at `at` in an entry or an intro. Cannot panic, because entries
/// and intros have a fixed length.
fn number_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4]
        .iter()
        .fold(0, |number, &byte| number << 8 | u32::from(byte))
}

impl Header {
    fn parse(index: &[u8], store: Vec<u8>) -> Self {
        let entries = index.chunks_exact(ENTRY_BYTES).map(|entry| Entry {
            tag: number_at(entry, 0),
            kind: number_at(entry, 4),
            // The casts are lossless: this is a program for 64-bit systems.
            offset: number_at(entry, 8) as usize,
            count: number_at(entry, 12) as usize,
        });
        Self {
            entries: entries.collect(),
            store,
        }
    }

    /// In bytes: the length of the header in the file.
    pub(super) fn stored_bytes(&self) -> u64 {
        INTRO_BYTES + (self.entries.len() * ENTRY_BYTES + self.store.len()) as u64
    }

    /// The texts of a tag; empty if the header does not have the tag. Texts with control
    /// characters are rejected, because errors print these texts on a terminal.
    pub(super) fn texts(&self, tag: u32) -> Result<Vec<String>, RpmError> {
        let bad = || RpmError::BadTag {
            tag,
            expected: "texts",
        };
        let Some(entry) = self.entry(tag) else {
            return Ok(Vec::new());
        };
        let is_one = entry.kind == STRING && entry.count == 1;
        if !is_one && entry.kind != STRING_ARRAY || entry.count > MAX_TEXTS {
            return Err(bad());
        }
        let mut rest = self.store.get(entry.offset..).ok_or_else(bad)?;
        let mut texts = Vec::new();
        for _ in 0..entry.count {
            let end = rest.iter().position(|&byte| byte == 0).ok_or_else(bad)?;
            let text = String::from_utf8_lossy(&rest[..end]).into_owned();
            if text.chars().any(char::is_control) {
                return Err(bad());
            }
            texts.push(text);
            rest = &rest[end + 1..];
        }
        Ok(texts)
    }

    /// The first number of a tag; `None` if the header does not have it.
    pub(super) fn number(&self, tag: u32) -> Result<Option<u64>, RpmError> {
        let Some(entry) = self.entry(tag) else {
            return Ok(None);
        };
        let length = match entry.kind {
            INT32 => 4,
            INT64 => 8,
            _ => 0,
        };
        let bytes = self.store.get(entry.offset..);
        let bytes = bytes.and_then(|bytes| bytes.get(..length));
        match bytes {
            Some(bytes) if length > 0 && entry.count > 0 => Ok(Some(
                bytes
                    .iter()
                    .fold(0, |number, &byte| number << 8 | u64::from(byte)),
            )),
            _ => Err(RpmError::BadTag {
                tag,
                expected: "a number",
            }),
        }
    }

    fn entry(&self, tag: u32) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.tag == tag)
    }
}
