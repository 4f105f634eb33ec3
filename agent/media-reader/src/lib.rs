//! Files out of the media that a host may be booted with: ISO 9660 and FAT.
//!
//! Read from the device itself. A mount would need drivers that have to be
//! loaded first, a place in the tree, and the kernel's trust in what somebody
//! has put into a drive. Nothing here writes, and every length that a medium
//! gives is bounded by the caller or by a constant.

pub mod coreos_image;
pub mod fat;
pub mod iso9660;

use std::io::{self, Read, Seek, SeekFrom};

use fat::{Fat, FatError};
use iso9660::{Iso, IsoError};

/// A medium with one of the two file systems.
#[derive(Debug)]
pub enum Medium<R> {
    /// A CD image.
    Iso(Iso<R>),
    /// A floppy image or a small disk.
    Fat(Fat<R>),
}

/// Why a medium cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum MediumError {
    /// The medium itself.
    #[error("reading the medium: {0}")]
    Io(#[from] io::Error),
    /// A CD image.
    #[error(transparent)]
    Iso(#[from] IsoError),
    /// A FAT file system.
    #[error(transparent)]
    Fat(#[from] FatError),
}

impl<R: Read + Seek> Medium<R> {
    /// Looks what it is; `None` if neither.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn open(mut image: R) -> Result<Option<Self>, MediumError> {
        // Where an ISO begins is free for other uses, such as a partition table.
        let mut mark = [0; 6];
        image.seek(SeekFrom::Start(iso9660::VOLUME_OFFSET))?;
        match image.read_exact(&mut mark) {
            Ok(()) if mark == iso9660::MARK => return Ok(Some(Self::Iso(Iso::open(image)?))),
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
            Err(error) => return Err(error.into()),
        }
        match Fat::open(image) {
            Ok(fat) => Ok(Some(Self::Fat(fat))),
            Err(FatError::NotFat) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Its label.
    pub fn label(&self) -> &str {
        match self {
            Self::Iso(iso) => &iso.label,
            Self::Fat(fat) => &fat.label,
        }
    }

    /// Who published it, if it is an ISO; empty if it says nothing.
    pub fn publisher(&self) -> Option<&str> {
        match self {
            Self::Iso(iso) => Some(&iso.publisher),
            Self::Fat(_) => None,
        }
    }

    /// A whole file, letter case ignored; `None` if there is no such file.
    ///
    /// # Errors
    /// If it has more than `limit` bytes or cannot be read.
    pub fn read(&mut self, path: &str, limit: u32) -> Result<Option<Vec<u8>>, MediumError> {
        match self {
            Self::Iso(iso) => match iso.read(path, limit) {
                Ok(bytes) => Ok(Some(bytes)),
                Err(IsoError::NotFound(_)) => Ok(None),
                Err(error) => Err(error.into()),
            },
            Self::Fat(fat) => Ok(fat.read(path, limit)?),
        }
    }

    /// The names of the files in a directory; empty if there is no such one.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn files(&mut self, directory: &str) -> Result<Vec<String>, MediumError> {
        match self {
            Self::Iso(iso) => Ok(iso.files(directory)?),
            Self::Fat(fat) => Ok(fat.files(directory)?),
        }
    }
}
