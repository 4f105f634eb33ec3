//! Finds the volume group of a disk or partition that is a physical volume of LVM
//! (lib/format_text/layout.h of LVM2). The parsers do no I/O.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use landfall_media_formats::little_endian::{u32_at, u64_at};

/// The label is in one of the first four sectors of 512 bytes.
const LABEL_SECTORS: usize = 4;
const SECTOR: usize = 512;
/// The number of bytes to read from the start of a device.
const HEAD: usize = LABEL_SECTORS * SECTOR;
/// `FMTT_MAGIC`, which follows a checksum of four bytes.
const AREA_MAGIC: &[u8] = b" LVM2 x[5A%r0N*>";
/// In bytes: longer metadata are ignored. LVM writes areas of 1 MiB.
const TEXT_LIMIT: u64 = 4 << 20;
/// LVM's own limit for the areas of one device.
const AREAS_LIMIT: usize = 32;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeGroup {
    /// `None` if only other devices hold the metadata.
    pub name: Option<String>,
    /// The number of physical volumes, if known.
    pub devices: Option<usize>,
}

const UNKNOWN: VolumeGroup = VolumeGroup {
    name: None,
    devices: None,
};

/// The volume group that a device of `size` bytes belongs to. `None` if the device is no
/// physical volume, or if all its metadata areas are empty, because no volume group uses
/// it yet. A physical volume whose metadata cannot be read or parsed may belong to a
/// group, so it counts as a member of an unknown one.
///
/// # Errors
/// If the start of the device cannot be read.
pub fn find(device: &File, size: u64) -> io::Result<Option<VolumeGroup>> {
    if size < HEAD as u64 {
        return Ok(None);
    }
    let mut head = vec![0; HEAD];
    device.read_exact_at(&mut head, 0)?;
    let Some(areas) = metadata_areas(&head) else {
        return Ok(None);
    };
    let mut is_free = !areas.is_empty();
    for area in areas {
        match metadata_in(device, size, area) {
            Ok(Metadata::Group(group)) => return Ok(Some(group)),
            Ok(Metadata::Empty) => {}
            Ok(Metadata::Unknown) | Err(_) => is_free = false,
        }
    }
    Ok((!is_free).then_some(UNKNOWN))
}

/// What a metadata area contains.
enum Metadata {
    Empty,
    Group(VolumeGroup),
    /// The area is damaged, or LVM keeps no metadata in it.
    Unknown,
}

fn metadata_in(device: &File, size: u64, area: Place) -> io::Result<Metadata> {
    if area.offset.saturating_add(area.size) > size || area.size < SECTOR as u64 {
        return Ok(Metadata::Unknown);
    }
    let mut header = vec![0; SECTOR];
    device.read_exact_at(&mut header, area.offset)?;
    let text = match text_in_area(&header) {
        AreaText::None => return Ok(Metadata::Empty),
        AreaText::At(text) if text.size <= TEXT_LIMIT && text.offset <= area.size => text,
        AreaText::At(_) | AreaText::Unknown => return Ok(Metadata::Unknown),
    };
    // The area is a ring: text that does not fit at its end continues after the
    // header.
    let until_end = (area.size - text.offset).min(text.size);
    let mut bytes = vec![0; text.size as usize];
    let (first, rest) = bytes.split_at_mut(until_end as usize);
    device.read_exact_at(first, area.offset + text.offset)?;
    device.read_exact_at(rest, area.offset + SECTOR as u64)?;
    Ok(parse_metadata(&bytes).map_or(Metadata::Unknown, Metadata::Group))
}

/// A range of bytes, on the device or in an area.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    offset: u64,
    size: u64,
}

fn place(bytes: &[u8], at: usize) -> Option<Place> {
    Some(Place {
        offset: u64_at(bytes, at)?,
        size: u64_at(bytes, at.checked_add(8)?)?,
    })
}

/// The metadata areas that the label in the first sectors lists. `None` if this is
/// no physical volume. Empty if the label lists no area, or if its lists are damaged.
pub fn metadata_areas(head: &[u8]) -> Option<Vec<Place>> {
    let label = head.chunks(SECTOR).take(LABEL_SECTORS).find(|sector| {
        sector.starts_with(b"LABELONE") && sector.get(24..32) == Some(b"LVM2 001")
    })?;
    Some(listed_areas(label).unwrap_or_default())
}

fn listed_areas(label: &[u8]) -> Option<Vec<Place>> {
    let offset = u32_at(label, 20)?;
    // After the identity of 32 bytes and the size come two lists: the data areas and
    // the metadata areas. An entry of zeros ends each list.
    let mut at = (offset as usize).checked_add(40)?;
    let mut areas = Vec::new();
    let mut ends = 0;
    for _ in 0..2 * AREAS_LIMIT {
        let area = place(label, at)?;
        at += 16;
        match (area.offset, ends) {
            (0, 0) => ends = 1,
            (0, _) => return Some(areas),
            (_, 0) => {}
            (_, _) => areas.push(area),
        }
    }
    None
}

/// What the header of a metadata area says about the text in the area.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AreaText {
    /// The area is still empty.
    None,
    /// The place of the newest text, relative to the start of the area.
    At(Place),
    /// The header is damaged, or it tells LVM to ignore the area
    /// (`pvchange --metadataignore`).
    Unknown,
}

/// Reads the header of a metadata area (`mda_header` of LVM2).
pub fn text_in_area(header: &[u8]) -> AreaText {
    /// `RAW_LOCN_IGNORED`
    const IGNORED: u32 = 1;
    let (Some(text), Some(flags)) = (place(header, 40), u32_at(header, 60)) else {
        return AreaText::Unknown;
    };
    if header.get(4..20) != Some(AREA_MAGIC) || flags & IGNORED != 0 {
        return AreaText::Unknown;
    }
    match text {
        Place { offset: 0, .. } | Place { size: 0, .. } => AreaText::None,
        text if text.offset < SECTOR as u64 => AreaText::Unknown,
        text => AreaText::At(text),
    }
}

/// Reads the name and the number of devices from LVM's metadata text:
/// `NAME {` ... `physical_volumes {` `pv0 {` ... `}`.
pub fn parse_metadata(text: &[u8]) -> Option<VolumeGroup> {
    let text = String::from_utf8_lossy(text);
    let (name, rest) = text.split_once('{')?;
    let name = name.trim();
    let is_name = |c: char| c.is_ascii_alphanumeric() || "+_.-".contains(c);
    if name.is_empty() || !name.chars().all(is_name) {
        return None;
    }
    // A quoted tag or path may contain `physical_volumes`, but never a whole line
    // `physical_volumes {`.
    let mut lines = rest.lines().map(str::trim);
    lines.find(|line| opens(line, "physical_volumes"))?;
    let count = lines
        .take_while(|line| !opens(line, "logical_volumes"))
        .filter_map(|line| line.strip_prefix("pv")?.strip_suffix('{'))
        .filter(|number| number.trim().bytes().all(|byte| byte.is_ascii_digit()))
        .count();
    Some(VolumeGroup {
        name: Some(name.to_owned()),
        devices: (count > 0).then_some(count),
    })
}

/// Whether a line begins the section of this name.
fn opens(line: &str, section: &str) -> bool {
    line.strip_suffix('{').map(str::trim_end) == Some(section)
}

#[cfg(test)]
mod tests;
