//! The formats of the media that a host can boot from: a reader of ISO 9660 and FAT file
//! systems, a writer of FAT file systems, and the files on Landfall's own media that
//! several programs read.
//!
//! The agent reads the device directly instead of mounting it. A mount would need a mount
//! point and drivers that must be loaded first, and the kernel would have to parse a
//! medium that is not trusted. Each length in a medium is limited by the caller or by a
//! constant. The writer returns bytes; nothing here writes to a file.

pub mod areas;
pub mod coreos_image;
pub mod fat;
pub mod iso9660;
pub mod layout;
pub mod little_endian;

use std::io::{self, Read, Seek, SeekFrom};

use fat::{Fat, FatError};
use iso9660::{Iso, IsoError};

#[derive(Debug)]
pub enum Medium<R> {
    Iso(Iso<R>),
    /// A floppy image or a small disk without partitions.
    Fat(Fat<R>),
}

#[derive(Debug, thiserror::Error)]
pub enum MediumError {
    #[error("cannot read the medium: {0}")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Iso(#[from] IsoError),
    #[error(transparent)]
    Fat(#[from] FatError),
}

impl<R: Read + Seek> Medium<R> {
    /// Detects the file system; `None` if it is neither ISO 9660 nor FAT.
    pub fn open(mut image: R) -> Result<Option<Self>, MediumError> {
        // Check for an ISO first: the first 32 KiB of an ISO are free for other uses, so
        // they may contain a boot sector.
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

    pub fn label(&self) -> &str {
        match self {
            Self::Iso(iso) => &iso.label,
            Self::Fat(fat) => &fat.label,
        }
    }

    /// The publisher of an ISO, empty if the ISO names none; `None` for FAT.
    pub fn publisher(&self) -> Option<&str> {
        match self {
            Self::Iso(iso) => Some(&iso.publisher),
            Self::Fat(_) => None,
        }
    }

    /// Reads a whole file. The letter case of the path is ignored; `None` if there
    /// is no such file.
    ///
    /// # Errors
    /// If the file has more than `limit` bytes or cannot be read.
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

    /// The names of the files in a directory; empty if there is no such directory.
    pub fn files(&mut self, directory: &str) -> Result<Vec<String>, MediumError> {
        match self {
            Self::Iso(iso) => Ok(iso.files(directory)?),
            Self::Fat(fat) => Ok(fat.files(directory)?),
        }
    }
}
