//! Reads RPM packages: the fields of their headers that the builder needs, and their
//! files.
//!
//! A package is a lead of 96 bytes, a header with signatures, a header that describes
//! the package, and a compressed cpio archive (rpm's `docs/manual/format_v4.md` and
//! `format_header.md`). Numbers are big-endian.
//!
//! This module executes nothing and writes nothing. It limits every size in the file. It
//! checks the digest of the archive, but not the signatures: `rpm --checksig` checks
//! those, with the keys that the user trusts.

mod header;
mod payload;

use std::io::{self, Read, Seek, SeekFrom};

use sha2::{Digest as _, Sha256};

use crate::digest_writer::hex;
use crate::newc::{NewcError, NewcFault, StreamError};
use header::Tag;
pub use payload::Payload;

const LEAD_BYTES: usize = 96;
const LEAD_MAGIC: [u8; 4] = [0xed, 0xab, 0xee, 0xdb];
/// The type of a source package, in the lead.
const SOURCE: [u8; 2] = [0, 1];
/// The number of SHA-256 among the digest algorithms (RFC 4880, 9.4).
const SHA_256: u64 = 8;

/// Why an RPM package cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RpmError {
    /// The file cannot be read, or its archive cannot be unpacked.
    #[error("cannot read the {part}")]
    Io {
        /// The part of the package.
        part: &'static str,
        #[source]
        source: io::Error,
    },
    /// The file is no RPM package. Check whether it is the right file.
    #[error("expected an RPM package, found a file that begins with `{found}`")]
    NotRpm {
        /// The first bytes of the file.
        found: String,
    },
    /// The package holds the sources. Take the package for `x86_64`.
    #[error("expected a package with programs, found a source package")]
    Source,
    /// The package is cut off: download it again.
    #[error("{part}: expected {expected} bytes, found {found}: the package is cut off")]
    CutOff {
        part: &'static str,
        expected: u64,
        found: u64,
    },
    /// The package is damaged, or in a later format than that of RPM 4. Download it again.
    #[error("{part}: expected a header in version 1, found `{found}`")]
    NoHeader {
        part: &'static str,
        /// The first bytes of the part.
        found: String,
    },
    /// A size in the package is larger than in any kernel package. The package is damaged.
    #[error("{part}: expected at most {limit} {unit}, found {found}")]
    TooLarge {
        part: &'static str,
        limit: u64,
        /// What is counted: bytes or tags.
        unit: &'static str,
        found: u64,
    },
    /// An entry of the header contradicts itself. The package is damaged: download it again.
    #[error("header: expected {expected} in tag {tag}, found another type, place or number")]
    BadTag { tag: u32, expected: &'static str },
    /// The archive has another digest than at the build of the package: it is damaged.
    /// Download the package again.
    #[error("payload: expected the SHA-256 {expected}, found {found}")]
    Digest { expected: String, found: String },
    /// The archive is compressed with another program. Take the package of another build.
    #[error("payload: expected gzip, xz, zstd or a newc archive, found {found}")]
    UnknownPacking {
        /// The name of the format, or the first bytes.
        found: String,
    },
    /// The archive contains the numbers of the files instead of their names, as in
    /// packages for RPM 6. Unpack the package with `rpm2archive`, and give the directory
    /// with `--kernel-dir`.
    #[error("payload: expected an archive with the names of the files (RPM 4), found one without")]
    NoNames,
    /// The archive is damaged.
    #[error("cannot unpack the payload")]
    Archive(#[source] NewcError),
    /// The unpacked archive is larger than any kernel package. The package is damaged, or
    /// somebody made it to fill the disk.
    #[error("payload unpacks to more than {limit} bytes")]
    Bomb { limit: u64 },
}

impl From<StreamError> for RpmError {
    fn from(error: StreamError) -> Self {
        match error {
            StreamError::Io(source) => Self::Io {
                part: "payload",
                source,
            },
            StreamError::Newc(NewcError {
                fault: NewcFault::Magic(found),
                ..
            }) if found == "07070X" => Self::NoNames,
            StreamError::Newc(fault) => Self::Archive(fault),
        }
    }
}

/// An RPM package. Its headers have been read, its archive has not.
#[derive(Debug)]
pub struct Package<R> {
    input: R,
    name: String,
    requires: Vec<String>,
    provides: Vec<String>,
    installed_bytes: u64,
    payload_offset: u64,
    /// The SHA-256 of the archive in hexadecimal digits. `None` if the header has no
    /// digest or one of another algorithm.
    payload_sha256: Option<String>,
}

impl<R: Read + Seek> Package<R> {
    pub fn open(mut input: R) -> Result<Self, RpmError> {
        lead(&mut input)?;
        let signatures = header::read(&mut input, "signature header")?;
        // This header is padded with zeros to a multiple of 8. The next header is not.
        let padding = signatures.stored_bytes().next_multiple_of(8) - signatures.stored_bytes();
        read_part(&mut input, "signature header", padding)?;
        let header = header::read(&mut input, "header")?;
        let payload_offset = input.stream_position().map_err(io_error("header"))?;
        let large = header.number(Tag::LONG_SIZE)?;
        let installed_bytes = match large {
            Some(bytes) => bytes,
            None => header.number(Tag::SIZE)?.unwrap_or_default(),
        };
        let payload_sha256 = match header.number(Tag::PAYLOAD_DIGEST_ALGORITHM)? {
            Some(SHA_256) => header.texts(Tag::PAYLOAD_DIGEST)?.into_iter().next(),
            _ => None,
        };
        Ok(Self {
            input,
            name: header
                .texts(Tag::NAME)?
                .into_iter()
                .next()
                .unwrap_or_default(),
            requires: header.texts(Tag::REQUIRE_NAME)?,
            provides: header.texts(Tag::PROVIDE_NAME)?,
            installed_bytes,
            payload_offset,
            payload_sha256,
        })
    }

    /// The name without version, such as `kernel-core`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The names that the package requires, without versions.
    #[must_use]
    pub fn requires(&self) -> &[String] {
        &self.requires
    }

    /// The names that the package provides, without versions.
    #[must_use]
    pub fn provides(&self) -> &[String] {
        &self.provides
    }

    /// The size of the package's files in bytes, as the header states it; 0 if it states
    /// none.
    #[must_use]
    pub fn installed_bytes(&self) -> u64 {
        self.installed_bytes
    }

    /// Checks the digest of the archive, if the header has a SHA-256 digest, and prepares
    /// to unpack the archive.
    pub fn payload(mut self) -> Result<Payload, RpmError>
    where
        R: 'static,
    {
        let part = "payload";
        let begin = SeekFrom::Start(self.payload_offset);
        if let Some(expected) = self.payload_sha256.take() {
            self.input.seek(begin).map_err(io_error(part))?;
            let found = sha256(&mut self.input).map_err(io_error(part))?;
            if found != expected.to_ascii_lowercase() {
                return Err(RpmError::Digest { expected, found });
            }
        }
        self.input.seek(begin).map_err(io_error(part))?;
        Payload::open(self.input)
    }
}

fn sha256(input: &mut impl Read) -> io::Result<String> {
    let mut digest = Sha256::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        match input.read(&mut buffer) {
            Ok(0) => return Ok(hex(&digest.finalize())),
            Ok(read) => digest.update(&buffer[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn lead(input: &mut impl Read) -> Result<(), RpmError> {
    let mut lead = Vec::new();
    input
        .take(LEAD_BYTES as u64)
        .read_to_end(&mut lead)
        .map_err(io_error("lead"))?;
    if !lead.starts_with(&LEAD_MAGIC) {
        let found = lead[..lead.len().min(8)].escape_ascii().to_string();
        return Err(RpmError::NotRpm { found });
    }
    if lead.len() < LEAD_BYTES {
        return Err(RpmError::CutOff {
            part: "lead",
            expected: LEAD_BYTES as u64,
            found: lead.len() as u64,
        });
    }
    match lead[6..8] == SOURCE {
        true => Err(RpmError::Source),
        false => Ok(()),
    }
}

/// Reads the next `bytes` bytes. Allocates memory only for bytes that are really in the
/// file.
fn read_part(input: &mut impl Read, part: &'static str, bytes: u64) -> Result<Vec<u8>, RpmError> {
    let mut read = Vec::new();
    input
        .take(bytes)
        .read_to_end(&mut read)
        .map_err(io_error(part))?;
    if (read.len() as u64) < bytes {
        return Err(RpmError::CutOff {
            part,
            expected: bytes,
            found: read.len() as u64,
        });
    }
    Ok(read)
}

fn io_error(part: &'static str) -> impl FnOnce(io::Error) -> RpmError {
    move |source| RpmError::Io { part, source }
}

#[cfg(test)]
pub(crate) mod tests;
