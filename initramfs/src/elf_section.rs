//! Reads one named section of an ELF file without reading the rest.
//!
//! A module of 4 MB has a `.modinfo` section of a few hundred bytes. Four small reads
//! find the section, so reading a tree of 4000 uncompressed modules is fast.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use object::elf::{ELFCLASS64, ELFDATA2LSB, ELFMAG, FileHeader64};
use object::read::elf::{FileHeader, SectionHeader};
use object::{LittleEndian as LE, ReadCache, ReadRef};

/// Why a section cannot be found.
#[derive(Debug, thiserror::Error)]
pub enum ElfError {
    #[error("cannot read {what}")]
    Io {
        /// The part of the file that cannot be read.
        what: &'static str,
        source: io::Error,
    },
    /// The file is shorter than its headers say, or they contradict each other.
    #[error("cannot read {what}")]
    Read {
        /// The part of the file that cannot be read.
        what: &'static str,
        #[source]
        source: object::read::Error,
    },
    /// The file is not a 64-bit little-endian ELF file. The kernel loads only such files.
    #[error("expected {expected}, found {found}")]
    Format {
        expected: &'static str,
        found: String,
    },
}

/// The content of the first section called `name`; `None` if there is none.
pub(crate) fn read(file: &File, name: &str) -> Result<Option<Vec<u8>>, ElfError> {
    let fault = RefCell::new(None);
    let file = ReadCache::new(Watched {
        file,
        fault: &fault,
    });
    let section = find(&file, name).map_err(|error| match (error, fault.take()) {
        (ElfError::Read { what, .. }, Some(source)) => ElfError::Io { what, source },
        (error, _) => error,
    })?;
    Ok(section.map(<[u8]>::to_vec))
}

/// A file that stores its last I/O error. The crate `object` replaces every error by its
/// own text, so that a disk error would look like a damaged file.
struct Watched<'a> {
    file: &'a File,
    fault: &'a RefCell<Option<io::Error>>,
}

impl Watched<'_> {
    /// Stores the error, and returns a new one of the same kind, because an `io::Error`
    /// cannot be cloned.
    fn keep(&self, error: io::Error) -> io::Error {
        let copy = error.kind().into();
        // The caller repeats an interrupted call.
        if error.kind() != io::ErrorKind::Interrupted {
            self.fault.replace(Some(error));
        }
        copy
    }
}

impl Read for Watched<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut file = self.file;
        file.read(bytes).map_err(|error| self.keep(error))
    }
}

impl Seek for Watched<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let mut file = self.file;
        file.seek(to).map_err(|error| self.keep(error))
    }
}

/// Like [`read`], for a file in memory.
pub(crate) fn find<'a, R: ReadRef<'a>>(file: R, name: &str) -> Result<Option<&'a [u8]>, ElfError> {
    let header = header(file)?;
    let sections = header.section_headers(LE, file);
    let sections = sections.map_err(reading("the section headers"))?;
    let names_index = header.shstrndx(LE, file);
    let names_index = names_index.map_err(reading("the section names"))?;
    let names = sections
        .get(names_index as usize)
        .ok_or_else(|| ElfError::Format {
            expected: "section names",
            found: format!("index {names_index} of {} sections", sections.len()),
        })?;
    let names = names.data(LE, file);
    let names = names.map_err(reading("the section names"))?;
    for section in sections {
        let start = names.get(section.sh_name(LE) as usize..);
        // Compare the prefix first. A search for the NUL would be slow if thousands of
        // headers pointed to the same megabytes without a NUL.
        let rest = start.and_then(|start| start.strip_prefix(name.as_bytes()));
        if rest.is_some_and(|rest| rest.first().is_none_or(|&b| b == 0)) {
            let content = section.data(LE, file);
            return content.map(Some).map_err(reading("the section"));
        }
    }
    Ok(None)
}

fn header<'a, R: ReadRef<'a>>(file: R) -> Result<&'a FileHeader64<LE>, ElfError> {
    let parsed = FileHeader64::<LE>::parse(file);
    let Ok(header) = file.read_at::<FileHeader64<LE>>(0) else {
        return parsed.map_err(reading("the ELF header"));
    };
    let ident = header.e_ident;
    if ident.magic != ELFMAG {
        return Err(ElfError::Format {
            expected: "an ELF file",
            found: format!("`{}`", ident.magic.escape_ascii()),
        });
    }
    if (ident.class, ident.data) != (ELFCLASS64, ELFDATA2LSB) {
        return Err(ElfError::Format {
            expected: "a 64-bit little-endian ELF file",
            found: format!("class and order {:?}", [ident.class.0, ident.data.0]),
        });
    }
    parsed.map_err(reading("the ELF header"))
}

fn reading(what: &'static str) -> impl Fn(object::read::Error) -> ElfError {
    move |source| ElfError::Read { what, source }
}

#[cfg(test)]
pub(crate) mod tests;
