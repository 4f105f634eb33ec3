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
/// In bytes: longer metadata count as damaged. LVM writes areas of 1 MiB.
const TEXT_LIMIT: u64 = 4 << 20;
/// LVM's own limit for the areas of one device.
const AREAS_LIMIT: usize = 32;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeGroup {
    /// `None` if only other devices hold the metadata, or if the metadata are damaged.
    pub name: Option<String>,
    /// The number of physical volumes, if known.
    pub devices: Option<usize>,
}

/// The volume group that a device of `size` bytes belongs to. `None` if the device is no
/// physical volume, or if no volume group uses it. A physical volume with damaged
/// metadata may belong to a group, so it counts as a member of an unknown one.
///
/// # Errors
/// If the start of the device cannot be read.
pub fn find(device: &File, size: u64) -> io::Result<Option<VolumeGroup>> {
    if size < HEAD as u64 {
        return Ok(None);
    }
    let mut head = vec![0; HEAD];
    device.read_exact_at(&mut head, 0)?;
    let Some(label) = label(&head) else {
        return Ok(None);
    };
    let mut name = None;
    // Whether only other devices may hold the metadata.
    let mut is_elsewhere = label.areas.is_empty();
    let mut is_damaged = false;
    for area in label.areas {
        match metadata_in(device, size, area) {
            Ok(Some(metadata)) if metadata.is_ignored => {
                is_elsewhere = true;
                // Only the name: a text that LVM ignores may be old.
                name = name.or(metadata.group.and_then(|group| group.name));
            }
            Ok(Some(Metadata {
                group: Some(group), ..
            })) => return Ok(Some(group)),
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => is_damaged = true,
        }
    }
    let is_used = label.is_used.unwrap_or(is_elsewhere);
    Ok((is_used || is_damaged).then_some(VolumeGroup {
        name,
        devices: None,
    }))
}

/// What a metadata area contains.
struct Metadata {
    /// `None` if the area is empty, or if the text of an ignored area cannot be parsed.
    group: Option<VolumeGroup>,
    is_ignored: bool,
}

/// Reads a metadata area. `None` if it is damaged.
fn metadata_in(device: &File, size: u64, area: Place) -> io::Result<Option<Metadata>> {
    if area.offset.saturating_add(area.size) > size || area.size < SECTOR as u64 {
        return Ok(None);
    }
    let mut header = vec![0; SECTOR];
    device.read_exact_at(&mut header, area.offset)?;
    let Some(AreaText { text, is_ignored }) = text_in_area(&header) else {
        return Ok(None);
    };
    let group = match text {
        None => None,
        Some(text) if text.size <= TEXT_LIMIT && text.offset <= area.size => {
            // The area is a ring: text that does not fit at its end continues after the
            // header.
            let until_end = (area.size - text.offset).min(text.size);
            let mut bytes = vec![0; text.size as usize];
            let (first, rest) = bytes.split_at_mut(until_end as usize);
            device.read_exact_at(first, area.offset + text.offset)?;
            device.read_exact_at(rest, area.offset + SECTOR as u64)?;
            parse_metadata(&bytes)
        }
        Some(_) => return Ok(None),
    };
    let is_damaged = text.is_some() && group.is_none() && !is_ignored;
    Ok((!is_damaged).then_some(Metadata { group, is_ignored }))
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

/// The label of a physical volume.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Label {
    /// The metadata areas.
    pub areas: Vec<Place>,
    /// Whether a volume group uses the physical volume (`PV_EXT_USED`). `None` if LVM
    /// older than 2.02.150 wrote the label, or if the label is damaged.
    pub is_used: Option<bool>,
}

/// Finds the label in the first sectors. `None` if this is no physical volume. A damaged
/// label has no areas.
pub fn label(head: &[u8]) -> Option<Label> {
    let label = head.chunks(SECTOR).take(LABEL_SECTORS).find(|sector| {
        sector.starts_with(b"LABELONE") && sector.get(24..32) == Some(b"LVM2 001")
    })?;
    Some(parse_label(label).unwrap_or_default())
}

fn parse_label(label: &[u8]) -> Option<Label> {
    /// The first version of the extension (`pv_header_extension`) that has the flag.
    const HAS_USED: u32 = 2;
    /// `PV_EXT_USED`
    const USED: u32 = 1;
    let offset = u32_at(label, 20)?;
    // After the identity of 32 bytes and the size come two lists: the data areas and
    // the metadata areas. An entry of zeros ends each list. Then comes the extension.
    let mut at = (offset as usize).checked_add(40)?;
    let mut areas = Vec::new();
    let mut ends = 0;
    for _ in 0..2 * AREAS_LIMIT {
        let area = place(label, at)?;
        at += 16;
        match (area.offset, ends) {
            (0, 0) => ends = 1,
            (0, _) => {
                let version = u32_at(label, at).unwrap_or(0);
                let flags = u32_at(label, at + 4).unwrap_or(0);
                let is_used = (version >= HAS_USED).then_some(flags & USED != 0);
                return Some(Label { areas, is_used });
            }
            (_, 0) => {}
            (_, _) => areas.push(area),
        }
    }
    None
}

/// What the header of a metadata area says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AreaText {
    /// The place of the newest text, relative to the start of the area. `None` if the
    /// area is empty.
    pub text: Option<Place>,
    /// Whether LVM keeps the metadata elsewhere (`pvchange --metadataignore`,
    /// `vgchange --vgmetadatacopies`). The text, if any, may be old.
    pub is_ignored: bool,
}

/// Reads the header of a metadata area (`mda_header` of LVM2). `None` if it is damaged.
pub fn text_in_area(header: &[u8]) -> Option<AreaText> {
    /// `RAW_LOCN_IGNORED`
    const IGNORED: u32 = 1;
    if header.get(4..20) != Some(AREA_MAGIC) {
        return None;
    }
    let text = place(header, 40)?;
    let is_ignored = u32_at(header, 60)? & IGNORED != 0;
    let text = match text.offset {
        0 => None,
        offset if offset < SECTOR as u64 || text.size == 0 => return None,
        _ => Some(text),
    };
    Some(AreaText { text, is_ignored })
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
