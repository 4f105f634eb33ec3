//! The config drive: a small file system image in a partition of its own.
//! cloud-init or Ignition (platform `openstack`) reads it on the first boot.

mod parts;

use std::borrow::Cow;
use std::fmt;
use std::io::{Cursor, Read};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::MultiGzDecoder;
use landfall_download::fetch::{self, Request};
use landfall_media_formats::fat;
use landfall_media_formats::iso9660::{Extent, Iso};
use landfall_report::failure::{Failure, Result};
use uuid::Uuid;

use crate::device::aligned_buffer::AlignedBuffer;
use crate::device::target::Target;
use crate::tables::file_system::{self, PROBE_LEN};
use crate::tables::gpt::{Partition, Table};
use crate::tables::mbr;
use crate::tables::table_error::TableError;

pub use parts::{Parts, PartsError};

/// The label of the file system and the name of the partition.
const LABEL: &str = "config-2";
/// In bytes: Ironic's limit for the image of a config drive. A partition that the agent
/// adds for the image has the same size.
const SIZE: u64 = 64 << 20;
const PIECE: usize = 1 << 20;
/// The size of a VFAT cluster in bytes.
const CLUSTER: usize = 4096;
/// In bytes: a file system that is smaller than this gets clusters of one sector. FAT16
/// needs at least 4085 clusters, which take 16 MiB with [`CLUSTER`] bytes each, or 2 MiB
/// with 512 bytes each. FAT16 has at most 65524 clusters. With 512 bytes each they take
/// just under 32 MiB, so from this size on the clusters must be larger.
const SMALL: u64 = 32 << 20;

/// A config drive in the form in which Ironic sends it.
#[derive(Clone, PartialEq, Eq)]
pub enum ConfigDrive {
    /// The image as base64 text, usually compressed with gzip.
    Text(String),
    /// The URL of such a text, or of the image itself.
    Url(String),
    /// The contents without a file system: the agent builds the files from them.
    Parts(Parts),
}

/// The content of the partition.
#[derive(Clone, PartialEq, Eq)]
pub enum Content {
    /// A file system image.
    Image(Vec<u8>),
    /// Files for a VFAT file system that fills the partition, or the first 64 MiB of
    /// it. The kernel can mount VFAT on a disk with any sector size, which is not true
    /// of ISO 9660.
    Files(Vec<(String, Vec<u8>)>),
}

impl fmt::Debug for ConfigDrive {
    /// Leaves out the content, because it holds secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "ConfigDrive({} characters)", text.len()),
            Self::Url(url) => write!(f, "ConfigDrive({})", fetch::shown(url)),
            Self::Parts(_) => write!(f, "ConfigDrive(parts)"),
        }
    }
}

impl ConfigDrive {
    /// Downloads and unpacks the config drive, for a disk with sectors of this
    /// size.
    ///
    /// An ISO 9660 image becomes files for a VFAT file system if the sectors are too
    /// large for ISO 9660, or if `rebuild` (`config_drive_rebuild`) is set. This
    /// function does the conversion, so that an image that cannot be converted is an
    /// error before anything is written to the disk. It does not know the size of a
    /// `config-2` partition in the disk image, so the files may still be too large for
    /// that partition.
    ///
    /// # Errors
    /// If the download fails, if the text or the image is malformed, if the image is
    /// larger than 64 MiB, if it cannot be converted, or if the files do not fit into 64
    /// MiB of VFAT.
    pub fn load(&self, client: &reqwest::Client, sector: u32, rebuild: bool) -> Result<Content> {
        let image = match self {
            Self::Text(text) => unpack(decode_base64(text.as_bytes())?)?,
            Self::Parts(parts) => {
                let files = parts.files();
                vfat_of(&files, sector as usize, SIZE)?;
                return Ok(Content::Files(files));
            }
            Self::Url(url) => {
                let request = Request::new([url]);
                // The limit for the image also applies to the base64 text, although the
                // text is longer: no real config drive comes near 64 MiB.
                let body = fetch::small_file(request, client.clone(), SIZE as usize)?;
                match decode_base64(&body) {
                    Ok(image) => unpack(image),
                    Err(_) => unpack(body),
                }?
            }
        };
        let found = file_system::identify(&image[..image.len().min(PROBE_LEN)]);
        if !found
            .as_ref()
            .is_some_and(|found| found.label.eq_ignore_ascii_case(LABEL))
        {
            tracing::warn!(
                "expected a config drive with a file system labelled {LABEL}, found other content; writing it unchanged"
            );
        }
        // An ISO 9660 image has blocks of 2048 bytes. No kernel mounts it on a disk
        // with larger sectors.
        let is_iso = found.is_some_and(|found| found.kind == "iso9660");
        if !is_iso || !(rebuild || sector > 2048) {
            return Ok(Content::Image(image));
        }
        let files = files_of_iso(&image)?;
        // Frees the memory of the image before the file system is made.
        drop(image);
        vfat_of(&files, sector as usize, SIZE)?;
        Ok(Content::Files(files))
    }
}

pub fn decode_base64(text: &[u8]) -> Result<Vec<u8>> {
    // Some programs write base64 in several lines.
    let dense: Vec<u8> = text
        .iter()
        .copied()
        .filter(|b| !b.is_ascii_whitespace())
        .collect();
    STANDARD
        .decode(dense)
        .map_err(|e| error(format!("expected base64 text: {e}")))
}

pub fn unpack(image: Vec<u8>) -> Result<Vec<u8>> {
    let image = if image.starts_with(&[0x1f, 0x8b]) {
        let mut unpacked = Vec::new();
        MultiGzDecoder::new(&image[..])
            .take(SIZE + 1)
            .read_to_end(&mut unpacked)
            .map_err(|e| error(format!("cannot unpack gzip: {e}")))?;
        unpacked
    } else {
        image
    };
    if image.is_empty() || image.len() as u64 > SIZE {
        return Err(error(format!(
            "expected an image of 1 to {SIZE} bytes, found {}",
            if image.is_empty() { "none" } else { "more" }
        )));
    }
    Ok(image)
}

/// A partition table (GPT or MBR) to which one more partition can be added.
pub trait PartitionTable {
    fn partitions(&self) -> &[Partition];

    /// Adds a partition of `len` bytes at the end of the disk. An MBR cannot store
    /// the name.
    ///
    /// # Errors
    /// If there is no room.
    fn add_at_end(&mut self, name: &str, len: u64) -> std::result::Result<Partition, TableError>;
}

impl PartitionTable for Table {
    fn partitions(&self) -> &[Partition] {
        self.partitions()
    }

    fn add_at_end(&mut self, name: &str, len: u64) -> std::result::Result<Partition, TableError> {
        self.add_at_end(name, len, Uuid::new_v4())
    }
}

impl PartitionTable for mbr::Table {
    fn partitions(&self) -> &[Partition] {
        self.partitions()
    }

    fn add_at_end(&mut self, _: &str, len: u64) -> std::result::Result<Partition, TableError> {
        self.add_at_end(len)
    }
}

/// Writes the config drive into the partition `config-2` of a disk with this table. If
/// the table has no such partition, adds one at the end of the disk. The caller writes
/// `table` when the content of all its partitions is on the disk.
///
/// # Errors
/// If there is no room, if several partitions are config drives, if the partition begins
/// in the first MiB of the disk, or if the disk reports an error.
pub fn write_config_drive(
    target: &Target,
    table: &mut impl PartitionTable,
    content: &Content,
) -> Result<Partition> {
    let on_disk =
        |reason: &dyn fmt::Display| error(format!("{}: {reason}", target.path().display()));
    let (partition, new) = match existing(target, table)? {
        Some(partition) => (partition, false),
        None => {
            let added = table.add_at_end(LABEL, SIZE);
            (added.map_err(|reason| on_disk(&reason))?, true)
        }
    };
    let placed = partition.refuse_in_head();
    placed.map_err(|reason| on_disk(&reason))?;
    let image = match content {
        Content::Image(image) => Cow::Borrowed(&image[..]),
        Content::Files(files) => Cow::Owned(vfat_of(
            files,
            target.sector_size() as usize,
            // `load` has checked that the files fit into `SIZE`, which is a valid size of
            // FAT16.
            partition.len.min(SIZE),
        )?),
    };
    if partition.len < image.len() as u64 {
        return Err(on_disk(&format!(
            "partition {} has {} bytes, the config drive {}",
            partition.number,
            partition.len,
            image.len()
        )));
    }
    write_content(target, &partition, &image)?;
    tracing::info!(
        "config drive of {} bytes written to {} partition {} on {}",
        image.len(),
        if new { "the new" } else { "the existing" },
        partition.number,
        target.path().display()
    );
    Ok(partition)
}

/// The only partition whose name or file system label is `config-2`, ignoring case.
/// Skips kept partitions.
fn existing(target: &Target, table: &impl PartitionTable) -> Result<Option<Partition>> {
    let mut found: Option<Partition> = None;
    let of_image = |partition: &&Partition| !target.spares(partition);
    for partition in table.partitions().iter().filter(of_image) {
        let labelled = partition.name.eq_ignore_ascii_case(LABEL)
            || label(target, partition)?.eq_ignore_ascii_case(LABEL);
        if !labelled {
            continue;
        }
        if let Some(first) = &found {
            return Err(error(format!(
                "{}: expected one partition labelled {LABEL}, found {} and {}",
                target.path().display(),
                first.number,
                partition.number
            )));
        }
        found = Some(partition.clone());
    }
    Ok(found)
}

fn label(target: &Target, partition: &Partition) -> Result<String> {
    // The cast is lossless: at most PROBE_LEN.
    let len = partition.len.min(PROBE_LEN as u64) as usize;
    let start = target.read_at(partition.offset, len)?;
    Ok(file_system::identify(&start).map_or_else(String::new, |found| found.label))
}

/// The files of an ISO 9660 image, with their paths.
///
/// # Errors
/// If the image is malformed, or if its files have more than 64 MiB in total. The
/// files can be larger than the image, because many records of an image can share one
/// content.
pub fn files_of_iso(image: &[u8]) -> Result<Vec<(String, Vec<u8>)>> {
    let reading = |reason: String| error(format!("cannot read the ISO 9660 image: {reason}"));
    let files = Iso::open(Cursor::new(image)).and_then(|mut iso| iso.all_files());
    let files = files.map_err(|fault| reading(fault.to_string()))?;
    let total = files.iter().map(|(_, extent)| extent.size);
    if total.fold(0, u64::saturating_add) > SIZE {
        return Err(no_vfat(&fat::WriteError::Full(SIZE)));
    }
    let content = |(path, extent): (String, Extent)| match extent.content(image) {
        Some(content) => Ok((path, content.to_vec())),
        None => Err(reading(format!("{path} is cut off"))),
    };
    files.into_iter().map(content).collect()
}

/// A VFAT file system with these files for a partition of `len` bytes.
pub fn vfat_of(files: &[(String, Vec<u8>)], sector: usize, len: u64) -> Result<Vec<u8>> {
    let layout = fat::Layout {
        label: &LABEL.to_ascii_uppercase(),
        serial: u32::from_le_bytes(*b"CFG2"),
        sector,
        cluster: if len < SMALL { sector } else { CLUSTER },
        root_entries: 512,
        names: fat::Names::Long,
        size: fat::Size::Bytes(len),
    };
    let files = files.iter();
    let files = files.map(|(path, content)| (path.as_str(), &content[..]));
    fat::build(files, &layout).map_err(|reason| no_vfat(&reason))
}

fn no_vfat(reason: &fat::WriteError) -> Failure {
    error(format!("cannot make a VFAT file system: {reason}"))
}

/// Zeroes the whole partition, then writes the image.
fn write_content(target: &Target, partition: &Partition, image: &[u8]) -> Result<()> {
    let sector = target.sector_size() as usize;
    if !target.punch_zeros(partition.offset, partition.len)? {
        let zeros = AlignedBuffer::zeroed(PIECE);
        for start in (0..partition.len).step_by(PIECE) {
            let len = (partition.len - start).min(PIECE as u64) as usize;
            target.write_at(&zeros[..len], partition.offset + start)?;
        }
    }
    for (piece, start) in image.chunks(PIECE).zip((partition.offset..).step_by(PIECE)) {
        target.write_and_compare(start, &AlignedBuffer::padded(piece, sector))?;
    }
    Ok(())
}

fn error(details: String) -> Failure {
    Failure::deployment(format!("config drive: {details}"))
}

#[cfg(test)]
mod tests;
