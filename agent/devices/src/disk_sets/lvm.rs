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

/// The volume group that a device of `size` bytes belongs to. `None` if the device is no
/// physical volume, if no volume group uses it yet, or if none of its metadata can be
/// parsed.
///
/// # Errors
/// If the device cannot be read.
pub fn find(device: &File, size: u64) -> io::Result<Option<VolumeGroup>> {
    if size < HEAD as u64 {
        return Ok(None);
    }
    let mut head = vec![0; HEAD];
    device.read_exact_at(&mut head, 0)?;
    let Some(areas) = metadata_areas(&head) else {
        return Ok(None);
    };
    if areas.is_empty() {
        return Ok(Some(VolumeGroup {
            name: None,
            devices: None,
        }));
    }
    for area in areas {
        if area.offset.saturating_add(SECTOR as u64) > size {
            continue;
        }
        let mut header = vec![0; SECTOR];
        device.read_exact_at(&mut header, area.offset)?;
        let Some(text) = text_in_area(&header) else {
            continue;
        };
        if text.size > TEXT_LIMIT || area.offset.saturating_add(area.size) > size {
            continue;
        }
        // The area is a ring: text that does not fit at its end continues after the
        // header.
        let until_end = area.size.saturating_sub(text.offset).min(text.size);
        let mut bytes = vec![0; text.size as usize];
        let (first, rest) = bytes.split_at_mut(until_end as usize);
        device.read_exact_at(first, area.offset + text.offset)?;
        device.read_exact_at(rest, area.offset + SECTOR as u64)?;
        if let Some(group) = parse_metadata(&bytes) {
            return Ok(Some(group));
        }
    }
    Ok(None)
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
/// no physical volume.
pub fn metadata_areas(head: &[u8]) -> Option<Vec<Place>> {
    let label = head.chunks(SECTOR).take(LABEL_SECTORS).find(|sector| {
        sector.starts_with(b"LABELONE") && sector.get(24..32) == Some(b"LVM2 001")
    })?;
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

/// The place of the newest metadata, relative to the start of the area, from the
/// area's header. `None` if the header is not that of an area, or if the area is
/// still empty.
pub fn text_in_area(header: &[u8]) -> Option<Place> {
    if header.get(4..20) != Some(AREA_MAGIC) {
        return None;
    }
    let text = place(header, 40)?;
    (text.offset >= SECTOR as u64 && text.size > 0).then_some(text)
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
