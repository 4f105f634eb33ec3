//! The bytes of the table: bounded access to its fields and to the objects of its heap.

use std::net::{IpAddr, Ipv6Addr};
use std::ops::Range;

/// Why a field cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidField {
    /// A reference in the firmware's table points outside the table. Update the
    /// firmware of the machine or of its NIC.
    #[error("{field}: expected bytes of the heap, found {length} bytes at {offset}")]
    OutOfHeap {
        field: &'static str,
        offset: usize,
        length: usize,
    },
    /// The firmware's table has no value in a field that must have one. Enter the NVMe boot
    /// settings in the firmware's menu again.
    #[error("{field} is missing")]
    Missing { field: &'static str },
    /// A value of the firmware's table cannot be used. Correct the NVMe boot settings in
    /// the firmware's menu.
    #[error("{field}: expected {expected}, found {found:?}")]
    Value {
        field: &'static str,
        expected: &'static str,
        found: String,
    },
}

impl InvalidField {
    pub(super) fn value(
        field: &'static str,
        expected: &'static str,
        found: impl ToString,
    ) -> InvalidField {
        InvalidField::Value {
            field,
            expected,
            found: found.to_string(),
        }
    }
}

/// The whole table.
#[derive(Clone, Debug)]
pub(super) struct Table<'a> {
    pub bytes: &'a [u8],
    /// Where the heap is in `bytes`.
    pub heap: Range<usize>,
}

/// One structure of the table. Later revisions have longer structures, so a field
/// beyond the end of a structure counts as zero, like all reserved fields.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record<'a>(pub &'a [u8]);

impl<'a> Table<'a> {
    /// The structure at this place, if the table has all of it.
    pub fn record(&self, offset: usize, length: usize) -> Option<Record<'a>> {
        let end = offset.checked_add(length)?;
        self.bytes.get(offset..end).map(Record)
    }

    /// The object of the heap that the reference at offset `at` of the record points
    /// to. `None` for an empty reference.
    pub fn object(
        &self,
        record: Record<'_>,
        at: usize,
        field: &'static str,
    ) -> Result<Option<Record<'a>>, InvalidField> {
        let (offset, length) = record.reference(at);
        if length == 0 {
            return Ok(None);
        }
        let is_inside = offset >= self.heap.start && offset + length <= self.heap.end;
        match self.record(offset, length).filter(|_| is_inside) {
            Some(object) => Ok(Some(object)),
            None => Err(InvalidField::OutOfHeap {
                field,
                offset,
                length,
            }),
        }
    }

    /// Like [`Self::object`], for a text. Some firmware includes the final NUL in the
    /// length, some does not.
    pub fn text(
        &self,
        record: Record<'_>,
        at: usize,
        field: &'static str,
    ) -> Result<Option<String>, InvalidField> {
        let Some(Record(bytes)) = self.object(record, at, field)? else {
            return Ok(None);
        };
        let end = bytes.iter().position(|byte| *byte == 0);
        let bytes = &bytes[..end.unwrap_or(bytes.len())];
        match std::str::from_utf8(bytes) {
            Ok("") => Ok(None),
            Ok(text) => Ok(Some(text.to_owned())),
            Err(_) => Err(InvalidField::value(
                field,
                "UTF-8",
                String::from_utf8_lossy(bytes),
            )),
        }
    }
}

impl Record<'_> {
    pub fn array<const N: usize>(self, at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        let found = self.0.get(at..).unwrap_or_default();
        for (byte, found) in bytes.iter_mut().zip(found) {
            *byte = *found;
        }
        bytes
    }

    pub fn u8(self, at: usize) -> u8 {
        let [byte] = self.array(at);
        byte
    }

    pub fn u16(self, at: usize) -> u16 {
        u16::from_le_bytes(self.array(at))
    }

    pub fn u32(self, at: usize) -> u32 {
        u32::from_le_bytes(self.array(at))
    }

    /// Offset and length of an object in the heap.
    pub fn reference(self, at: usize) -> (usize, usize) {
        (self.u32(at) as usize, usize::from(self.u16(at + 4)))
    }

    /// An address of either family: IPv4 is in the mapped form, ::ffff:192.0.2.1.
    pub fn ip(self, at: usize) -> IpAddr {
        let address = Ipv6Addr::from(self.array::<16>(at));
        match address.to_ipv4_mapped() {
            Some(address) => IpAddr::V4(address),
            None => IpAddr::V6(address),
        }
    }

    /// Like [`Self::ip`]; `None` if all of the address is zero.
    pub fn given_ip(self, at: usize) -> Option<IpAddr> {
        Some(self.ip(at)).filter(|address| !address.is_unspecified())
    }
}
