//! A base ISO: where its areas, its kernel and its ramdisk are.

use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;

use bytes::Bytes;
use landfall_initramfs::compress::WholeError;
use landfall_media_formats::areas::{Areas, AreasError, DESCRIPTION, Places};
use landfall_media_formats::iso9660::{Extent, Iso, IsoError};
use landfall_media_formats::layout::{KERNEL, RAMDISK};

use crate::archive::{self, ArchiveError, HostFile};
use crate::host_image::{HostImage, Piece};
use crate::host_version::{HostError, HostVersion};
use crate::kernel_args::AreaArguments;

/// Why a file cannot be a base.
#[derive(Debug, thiserror::Error)]
pub enum BaseError {
    #[error(transparent)]
    Iso(#[from] IsoError),
    #[error("expected an ISO of landfall-image, found no {DESCRIPTION}")]
    NotOurs,
    #[error(transparent)]
    Areas(#[from] AreasError),
    #[error("the ISO is cut off: expected {expected} bytes, found {found}")]
    CutOff { expected: u64, found: u64 },
    #[error(
        "{path}: expected kernel arguments as {DESCRIPTION} describes them, found other content -- restore those of the build with `landfall-image customize --reset`"
    )]
    Kargs { path: String },
    #[error(
        "{path}: expected archives of landfall-image, found other content -- remove it with `landfall-image customize --reset`"
    )]
    Embedded {
        path: String,
        #[source]
        source: ArchiveError,
    },
    #[error(
        "expected a ramdisk (cpio, zstd, gzip, xz, lz4, bzip2, lzma or lzo), found something else"
    )]
    NotRamdisk,
    #[error("expected an addition to the ramdisk of at most {limit} bytes, found {found}")]
    LargeAddition { limit: u64, found: u64 },
    #[error(
        "addition to the ramdisk: expected archives of landfall-image, found other content -- customize the original ramdisk again"
    )]
    Addition(#[source] ArchiveError),
    #[error(transparent)]
    Ramdisk(#[from] WholeError),
    #[error("cannot read the base")]
    Io(#[from] std::io::Error),
}

#[derive(Debug, Clone)]
pub struct BaseIso {
    size: u64,
    areas: Areas,
    places: Places,
    /// The arguments in the area now.
    current_args: String,
    /// The files in the embed area now.
    files: Vec<HostFile>,
    kernel: Extent,
    ramdisk: Extent,
}

impl BaseIso {
    /// Reads the description of the areas, and their present content.
    ///
    /// # Errors
    /// If the image cannot be read, is no ISO of landfall-image or is cut off, if its
    /// parts contradict each other, or if the area for arguments or for files has content
    /// of another form, from another program.
    pub fn open(image: impl Read + Seek) -> Result<Self, BaseError> {
        Self::open_with(image, false)
    }

    /// Like [`BaseIso::open`], for a version that drops the content of the areas. If
    /// the files cannot be read, the ISO counts as having no files. If the arguments
    /// cannot be read, the result has the arguments that the ISO was built with.
    ///
    /// # Errors
    /// As for [`BaseIso::open`], except that the areas may have any content.
    pub fn open_to_reset(image: impl Read + Seek) -> Result<Self, BaseError> {
        Self::open_with(image, true)
    }

    fn open_with(mut image: impl Read + Seek, may_be_foreign: bool) -> Result<Self, BaseError> {
        let size = image.seek(SeekFrom::End(0))?;
        let mut iso = Iso::open(image)?;
        if size < iso.size {
            let (expected, found) = (iso.size, size);
            return Err(BaseError::CutOff { expected, found });
        }
        let (areas, places, [kernel, ramdisk]) = match Areas::of_with(&mut iso, [KERNEL, RAMDISK]) {
            Err(AreasError::Iso(IsoError::NotFound(path))) if path == DESCRIPTION => {
                return Err(BaseError::NotOurs);
            }
            areas => areas?,
        };
        let text = areas.kargs.read(&mut iso)?;
        let current_args = match areas.kargs.arguments(&text) {
            Some(arguments) => arguments.to_owned(),
            None if may_be_foreign => areas.kargs.default.clone(),
            None => {
                let path = areas.kargs.path.clone();
                return Err(BaseError::Kargs { path });
            }
        };
        let files = match archive::read(&areas.embed.read(&mut iso)?) {
            Err(_) if may_be_foreign => Vec::new(),
            embedded => embedded.map_err(|source| BaseError::Embedded {
                path: areas.embed.path.clone(),
                source,
            })?,
        };
        Ok(Self {
            size,
            areas,
            places,
            current_args,
            files,
            kernel,
            ramdisk,
        })
    }

    /// In bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The byte range of the kernel in the ISO.
    #[must_use]
    pub fn kernel(&self) -> Range<u64> {
        range(self.kernel)
    }

    /// The byte range of the ramdisk in the ISO.
    #[must_use]
    pub fn ramdisk(&self) -> Range<u64> {
        range(self.ramdisk)
    }

    /// The kernel arguments of a host.
    ///
    /// # Errors
    /// If the host's change of the kernel arguments is impossible.
    pub fn kernel_args(&self, host: &HostVersion) -> Result<AreaArguments, HostError> {
        let edit = host.kargs();
        Ok(edit.apply(&self.current_args, &self.areas.kargs.default)?)
    }

    /// The files of a host: those in the area of the ISO, replaced and extended by the
    /// host's own files.
    #[must_use]
    pub fn files(&self, host: &HostVersion) -> Vec<HostFile> {
        host.files_on(&self.files)
    }

    /// The host's version of the ISO. `epoch` is the modification time of its files in
    /// the embed area, in seconds since 1970.
    ///
    /// # Errors
    /// If the host's content is invalid or does not fit into the areas.
    pub fn of_host(&self, host: &HostVersion, epoch: u32) -> Result<HostImage, HostError> {
        let mut changes = Vec::new();
        if !host.kargs().is_empty() {
            let line = self.kernel_args(host)?;
            let file = self.areas.kargs.file(line.as_str())?;
            changes.push((self.places.kargs, Bytes::from(file)));
        }
        let files = self.files(host);
        if files != self.files || host.drops_files_of_base() {
            let content = match files.as_slice() {
                [] => Bytes::new(),
                files => archive::write(files, None, epoch)?.into(),
            };
            let (room, found) = (self.places.embed.size, content.len() as u64);
            if found > room {
                let path = self.areas.embed.path.clone();
                return Err(HostError::TooLarge { path, room, found });
            }
            changes.push((self.places.embed, content));
        }
        if host.drops_files_of_base() {
            // Also clear the area for an Ignition config, which programs of CoreOS may
            // have filled.
            changes.extend(self.places.ignition.map(|place| (place, Bytes::new())));
        }
        changes.sort_by_key(|(place, _)| place.offset);
        let mut image = HostImage::default();
        for (place, content) in changes {
            image.push(Piece::Base(image.size()..place.offset));
            let len = place.size - content.len() as u64;
            image.push(Piece::Own(content));
            image.push(Piece::Zeros(len));
        }
        image.push(Piece::Base(image.size()..self.size));
        Ok(image)
    }
}

fn range(place: Extent) -> Range<u64> {
    place.offset..place.offset + place.size
}

#[cfg(test)]
mod tests;
