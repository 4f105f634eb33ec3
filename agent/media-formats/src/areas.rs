//! The files on Landfall's ISO that a program can overwrite in place for one host, and
//! the JSON file that describes these files.
//!
//! ISO 9660 stores each of these files in one piece. A program can therefore replace the
//! bytes of a file without rebuilding the image. A server can replace them while it sends
//! the image, without a copy of the image. The areas are:
//!
//! * Two areas are further ramdisks: archives, then zeros. An area with only zeros is
//!   valid too, because the kernel skips zeros. The embed area is for Landfall's own
//!   programs. The Ignition area is for CoreOS' programs, which rewrite the whole area
//!   (coreos-installer) or only its start (image-customization-controller).
//! * The kernel arguments area is inside an environment block of GRUB, which is plain
//!   text and no script. It has the form that coreos-installer requires of such areas
//!   (its src/live/embed.rs): the arguments, a line break, then `#` up to a fixed length.
//!   The line `# COREOS_KARG_EMBED_AREA` follows the area, and assisted-image-service
//!   searches for this line.
//!
//! Secure Boot does not verify these areas: GRUB verifies only kernels.

use std::io::{Read, Seek};

use serde::{Deserialize, Serialize};

use crate::iso9660::{Extent, Iso, IsoError};

/// Path of the JSON file that describes the areas, an [`Areas`].
pub const DESCRIPTION: &str = "boot/landfall-areas.json";
pub const EMBED: &str = "boot/embed.img";
/// image-customization-controller expects this path, so it must not change.
pub const IGNITION: &str = "images/ignition.img";
pub const KARGS: &str = "boot/grub/kargs.env";
/// The kernel arguments area of format 1: a script of GRUB.
pub const KARGS_OF_FORMAT_1: &str = "boot/grub/kargs.cfg";

/// The size limit of the description in bytes.
const MAX_DESCRIPTION: u32 = 64 << 10;
/// The size limit of a file of kernel arguments in bytes.
const MAX_KARGS: u32 = 64 << 10;
/// The size limit of an area for a ramdisk in bytes. The builder makes no larger area.
const MAX_RAMDISK: u32 = 64 << 20;

/// The beginning of an environment block of GRUB (GRUB's include/grub/lib/envblk.h), and
/// the name of its only variable.
const ENVIRONMENT_BLOCK: &str = "# GRUB Environment Block\nkargs=";
const EMBED_AREA_MARK: &str = "# COREOS_KARG_EMBED_AREA\n";

/// The content of [`DESCRIPTION`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Areas {
    /// The version of this description: 1 or 2.
    pub format: u32,
    pub kargs: KargsArea,
    pub embed: RamdiskArea,
    /// Missing in format 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignition: Option<RamdiskArea>,
}

/// A file that contains the kernel arguments. The file consists of `before`, the
/// arguments, `after`, repeated `pad` characters up to the size of the file, and `last`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KargsArea {
    pub path: String,
    /// Size of the whole file in bytes.
    pub size: usize,
    pub before: String,
    pub after: String,
    /// One ASCII character.
    #[serde(default = "line_break")]
    pub pad: char,
    #[serde(default)]
    pub last: String,
    /// The arguments that the medium was built with.
    pub default: String,
}

fn line_break() -> char {
    '\n'
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RamdiskArea {
    pub path: String,
    /// In bytes.
    pub size: u64,
}

/// Where the areas are in an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Places {
    pub kargs: Extent,
    pub embed: Extent,
    pub ignition: Option<Extent>,
}

#[derive(Debug, thiserror::Error)]
pub enum AreasError {
    #[error(transparent)]
    Iso(#[from] IsoError),
    #[error("{DESCRIPTION}: {0}")]
    Json(serde_json::Error),
    #[error("{DESCRIPTION}: expected format 1 or 2, found {0}: a newer builder made this ISO")]
    Format(u32),
    #[error("{DESCRIPTION}: {field}: expected {expected}, found {found}")]
    Field {
        field: &'static str,
        expected: &'static str,
        found: String,
    },
    #[error("{path}: expected {expected} bytes as in {DESCRIPTION}, found {found}")]
    Size {
        path: String,
        expected: u64,
        found: u64,
    },
    #[error("{path}: expected an area within the {volume} bytes of the ISO, found one up to {end}")]
    Outside { path: String, volume: u64, end: u64 },
    #[error("{first} and {second} overlap")]
    Overlap { first: String, second: String },
}

/// Why kernel arguments cannot be written into their area.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KargsError {
    #[error(
        "kernel arguments are {found} bytes, expected at most {room}, the size of the area for them -- give fewer or shorter arguments"
    )]
    TooLong { found: usize, room: usize },
    #[error(
        "kernel arguments: expected one line, found a line break or the text that ends the area"
    )]
    SeveralLines,
}

impl Areas {
    /// The areas of a new medium: `room` bytes for kernel arguments, and two ramdisks of
    /// `ramdisk` bytes each.
    pub fn new(arguments: &str, room: usize, ramdisk: u64) -> Self {
        let after = "\n";
        let area = |path: &str| RamdiskArea {
            path: path.to_owned(),
            size: ramdisk,
        };
        Self {
            format: 2,
            kargs: KargsArea {
                path: KARGS.to_owned(),
                size: ENVIRONMENT_BLOCK.len() + room + after.len() + EMBED_AREA_MARK.len(),
                before: ENVIRONMENT_BLOCK.to_owned(),
                after: after.to_owned(),
                pad: '#',
                last: EMBED_AREA_MARK.to_owned(),
                default: arguments.to_owned(),
            },
            embed: area(EMBED),
            ignition: Some(area(IGNITION)),
        }
    }

    /// Parses and checks the JSON.
    pub fn from_json(json: &[u8]) -> Result<Self, AreasError> {
        let areas: Self = serde_json::from_slice(json).map_err(AreasError::Json)?;
        if !(1..=2).contains(&areas.format) {
            return Err(AreasError::Format(areas.format));
        }
        areas.kargs.check()?;
        for (field, area) in areas.ramdisks() {
            if area.size > MAX_RAMDISK.into() {
                return Err(AreasError::Field {
                    field,
                    expected: "at most 64 MiB",
                    found: format!("{} bytes", area.size),
                });
            }
        }
        Ok(areas)
    }

    /// The areas of an ISO, and their places. Fails unless every area is a file of the
    /// ISO with the described size, and no two areas overlap.
    pub fn of<R: Read + Seek>(iso: &mut Iso<R>) -> Result<(Self, Places), AreasError> {
        let (areas, places, []) = Self::of_with(iso, [])?;
        Ok((areas, places))
    }

    /// Like [`Areas::of`], but also returns the places of the files `more` of the ISO.
    /// These files must not overlap an area or each other either.
    pub fn of_with<R: Read + Seek, const N: usize>(
        iso: &mut Iso<R>,
        more: [&str; N],
    ) -> Result<(Self, Places, [Extent; N]), AreasError> {
        let areas = Self::from_json(&iso.read(DESCRIPTION, MAX_DESCRIPTION)?)?;
        let kargs = place(iso, &areas.kargs.path, areas.kargs.size as u64)?;
        let embed = place(iso, &areas.embed.path, areas.embed.size)?;
        let ignition = match &areas.ignition {
            Some(area) => Some(place(iso, &area.path, area.size)?),
            None => None,
        };
        let mut all = vec![(&*areas.kargs.path, kargs), (&areas.embed.path, embed)];
        all.extend(areas.ignition.iter().map(|area| &*area.path).zip(ignition));
        let mut found = [kargs; N];
        for (path, extent) in more.into_iter().zip(&mut found) {
            let file = iso.find(path)?;
            *extent = within(iso, path, file)?;
            all.push((path, *extent));
        }
        all.sort_by_key(|(_, extent)| extent.offset);
        for pair in all.windows(2) {
            let [(first, extent), (second, next)] = [pair[0], pair[1]];
            if extent.offset + extent.size > next.offset && next.size > 0 {
                let (first, second) = (first.to_owned(), second.to_owned());
                return Err(AreasError::Overlap { first, second });
            }
        }
        let places = Places {
            kargs,
            embed,
            ignition,
        };
        Ok((areas, places, found))
    }

    fn ramdisks(&self) -> impl Iterator<Item = (&'static str, &RamdiskArea)> {
        let ignition = self.ignition.iter().map(|area| ("ignition.size", area));
        [("embed.size", &self.embed)].into_iter().chain(ignition)
    }
}

/// A file that must have this size and be inside the volume.
fn place<R: Read + Seek>(iso: &mut Iso<R>, path: &str, size: u64) -> Result<Extent, AreasError> {
    let extent = iso.find(path)?;
    if extent.size != size {
        return Err(AreasError::Size {
            path: path.to_owned(),
            expected: size,
            found: extent.size,
        });
    }
    within(iso, path, extent)
}

fn within<R>(iso: &Iso<R>, path: &str, extent: Extent) -> Result<Extent, AreasError> {
    // No overflow: an ISO gives block numbers of 32 bits.
    let end = extent.offset + extent.size;
    if end > iso.size {
        return Err(AreasError::Outside {
            path: path.to_owned(),
            volume: iso.size,
            end,
        });
    }
    Ok(extent)
}

impl RamdiskArea {
    /// The content of the area.
    pub fn read<R: Read + Seek>(&self, iso: &mut Iso<R>) -> Result<Vec<u8>, IsoError> {
        iso.read(&self.path, MAX_RAMDISK)
    }
}

impl KargsArea {
    /// In bytes: the maximum length of the arguments.
    pub fn room(&self) -> usize {
        self.size - self.before.len() - self.after.len() - self.last.len()
    }

    /// The content of the file with these arguments.
    pub fn file(&self, arguments: &str) -> Result<Vec<u8>, KargsError> {
        let room = self.room();
        if arguments.len() > room {
            return Err(KargsError::TooLong {
                found: arguments.len(),
                room,
            });
        }
        let mut file = [&*self.before, arguments, &*self.after]
            .concat()
            .into_bytes();
        // The cast is lossless: the character is ASCII.
        file.resize(self.size - self.last.len(), self.pad as u8);
        file.extend_from_slice(self.last.as_bytes());
        match self.arguments(&file) == Some(arguments.trim()) {
            true => Ok(file),
            false => Err(KargsError::SeveralLines),
        }
    }

    /// The content of the file.
    pub fn read<R: Read + Seek>(&self, iso: &mut Iso<R>) -> Result<Vec<u8>, IsoError> {
        iso.read(&self.path, MAX_KARGS)
    }

    /// The arguments in a file, without the white space around them; `None` if the file
    /// does not have the described form. The bytes after the arguments are not checked:
    /// GRUB does not read them, and another program may use other padding. The result is
    /// also `None` if the arguments are longer than [`Self::room`]: after an interrupted
    /// write the line can lack its end and continue in the padding.
    pub fn arguments<'a>(&self, file: &'a [u8]) -> Option<&'a str> {
        let text = std::str::from_utf8(file).ok()?;
        let (arguments, _) = text.strip_prefix(&self.before)?.split_once(&self.after)?;
        let is_line = !arguments.contains('\n') && arguments.len() <= self.room();
        is_line.then(|| arguments.trim())
    }

    fn check(&self) -> Result<(), AreasError> {
        let field = |field, expected, found: String| AreasError::Field {
            field,
            expected,
            found,
        };
        let texts = [&self.before, &self.after, &self.last, &self.default];
        let least: usize = texts.iter().map(|text| text.len()).sum();
        if self.size < least || self.size > MAX_KARGS as usize {
            let expected = "room for the default and at most 64 KiB";
            return Err(field(
                "kargs.size",
                expected,
                format!("{} bytes", self.size),
            ));
        }
        if !self.pad.is_ascii() {
            let expected = "an ASCII character";
            return Err(field("kargs.pad", expected, format!("{:?}", self.pad)));
        }
        if self.after.is_empty() {
            return Err(field("kargs.after", "a text", "none".to_owned()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
