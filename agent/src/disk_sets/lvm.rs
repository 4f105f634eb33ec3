//! The volume group of a disk or partition that is a physical volume of LVM
//! (lib/format_text/layout.h of LVM2). The parsers are pure.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// The label is in one of the first four sectors of 512 bytes.
const LABEL_SECTORS: usize = 4;
const SECTOR: usize = 512;
/// Bytes that are read of the start of a device.
const HEAD: usize = LABEL_SECTORS * SECTOR;
/// `FMTT_MAGIC`, behind a checksum of four bytes.
const AREA_MAGIC: &[u8] = b" LVM2 x[5A%r0N*>";
/// LVM writes areas of 1 MiB; more than this is not read.
const TEXT_LIMIT: u64 = 4 << 20;
/// LVM's own limit for the areas of one device.
const AREAS_LIMIT: usize = 32;

/// A volume group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeGroup {
    /// Its name, unless another device holds the metadata.
    pub name: Option<String>,
    /// How many devices it is made of, if known.
    pub devices: Option<usize>,
}

/// The volume group that a device of this size belongs to. A device that no volume
/// group uses yet has none.
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
        // The area is a ring: what does not fit at its end continues behind the header.
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

/// Where something is on the device, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    offset: u64,
    size: u64,
}

fn place(bytes: &[u8], at: usize) -> Option<Place> {
    let number = |at: usize| -> Option<u64> {
        let bytes = bytes.get(at..at.checked_add(8)?)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    };
    Some(Place {
        offset: number(at)?,
        size: number(at.checked_add(8)?)?,
    })
}

/// The metadata areas that the label in the first sectors names; `None` if this is
/// no physical volume.
pub fn metadata_areas(head: &[u8]) -> Option<Vec<Place>> {
    let label = head.chunks(SECTOR).take(LABEL_SECTORS).find(|sector| {
        sector.starts_with(b"LABELONE") && sector.get(24..32) == Some(b"LVM2 001")
    })?;
    let offset = u32::from_le_bytes(label.get(20..24)?.try_into().ok()?);
    // Behind the identity of 32 bytes and the size: data areas up to one of zeros,
    // then metadata areas up to another one.
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

/// Where the newest metadata are in an area, relative to its start, by the area's
/// header. `None` if the area is none or still empty.
pub fn text_in_area(header: &[u8]) -> Option<Place> {
    if header.get(4..20) != Some(AREA_MAGIC) {
        return None;
    }
    let text = place(header, 40)?;
    (text.offset >= SECTOR as u64 && text.size > 0).then_some(text)
}

/// Reads the name and the number of devices out of LVM's metadata text:
/// `NAME {` ... `physical_volumes {` `pv0 {` ... `}`.
pub fn parse_metadata(text: &[u8]) -> Option<VolumeGroup> {
    let text = String::from_utf8_lossy(text);
    let (name, rest) = text.split_once('{')?;
    let name = name.trim();
    let is_name = |c: char| c.is_ascii_alphanumeric() || "+_.-".contains(c);
    if name.is_empty() || !name.chars().all(is_name) {
        return None;
    }
    let (_, devices) = rest.split_once("physical_volumes")?;
    let devices = devices.split("logical_volumes").next()?;
    // A tag or a path in quotes may hold any of these words, but no line of it.
    let count = devices
        .lines()
        .filter_map(|line| line.trim().strip_prefix("pv")?.strip_suffix('{'))
        .filter(|number| number.trim().bytes().all(|byte| byte.is_ascii_digit()))
        .count();
    Some(VolumeGroup {
        name: Some(name.to_owned()),
        devices: (count > 0).then_some(count),
    })
}

#[cfg(test)]
mod tests;
