//! The parts of a file that are still to be read, ordered by file offset.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::image::qcow2::header::Header;

/// What an extent of the file contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// A part of the L1 table.
    L1,
    /// A part of an L2 table.
    L2,
    /// Uncompressed data of the disk's first MiB.
    HeadData,
    /// A compressed cluster that contains data of the disk's first MiB.
    HeadPacked,
    /// Uncompressed data of the rest of the disk.
    Data,
    /// A compressed cluster for the rest of the disk.
    Packed,
}

impl Role {
    /// Whether the extent must be read before the agent can write anything.
    pub fn is_urgent(self) -> bool {
        !matches!(self, Self::Data | Self::Packed)
    }

    /// Whether the extent can be read in parts.
    pub fn is_divisible(self) -> bool {
        !matches!(self, Self::HeadPacked | Self::Packed)
    }
}

/// A range of the file and its content. Offsets and lengths are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Offset in the file.
    pub host: u64,
    /// Offset on the disk. For a table: the offset on the disk that its first entry
    /// maps.
    pub guest: u64,
    /// Length in the file; for a compressed cluster, an upper limit.
    pub len: u64,
    pub role: Role,
}

impl Extent {
    /// Whether `next` continues this extent, in the file and on the disk.
    pub fn is_followed_by(&self, next: &Self) -> bool {
        matches!(self.role, Role::Data | Role::HeadData)
            && self.role == next.role
            && self.host + self.len == next.host
            && self.guest + self.len == next.guest
    }
}

/// How many bytes of the disk one byte of an L1 or L2 table maps.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    l1: u64,
    l2: u64,
}

impl Scale {
    pub fn new(header: &Header) -> Self {
        Self {
            l1: header.l2_coverage() / 8,
            l2: header.cluster_size() / header.l2_entry_len(),
        }
    }

    /// The rest of an extent after its first `used` bytes.
    pub fn rest(self, extent: &Extent, used: u64) -> Extent {
        let scale = match extent.role {
            Role::L1 => self.l1,
            Role::L2 => self.l2,
            _ => 1,
        };
        Extent {
            host: extent.host + used,
            // Cannot overflow: the tables are not longer than the size of the disk
            // requires.
            guest: extent.guest + used * scale,
            len: extent.len - used,
            role: extent.role,
        }
    }
}

/// Extents ordered by file offset. Several extents may have the same offset.
#[derive(Debug, Default)]
pub struct Extents(BTreeMap<(u64, u64, Role), u64>);

impl Extents {
    pub fn insert(&mut self, extent: Extent) {
        match self.0.entry((extent.host, extent.guest, extent.role)) {
            Entry::Vacant(place) => {
                place.insert(extent.len);
            }
            // Of two extents with the same place and role, only the longer one is needed.
            Entry::Occupied(mut known) => {
                let len = extent.len.max(*known.get());
                known.insert(len);
            }
        }
    }

    pub fn remove(&mut self, extent: &Extent) {
        self.0.remove(&(extent.host, extent.guest, extent.role));
    }

    /// The first extent that begins at or after `host`.
    pub fn first_from(&self, host: u64) -> Option<Extent> {
        self.iter_from(host).next()
    }

    /// All extents that begin at or after `host`.
    pub fn iter_from(&self, host: u64) -> impl Iterator<Item = Extent> {
        self.0
            .range((host, 0, Role::L1)..)
            .map(|(&key, &len)| extent((key, len)))
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Removes and returns all extents that begin at or after `host`.
    pub fn split_off(&mut self, host: u64) -> impl Iterator<Item = Extent> + use<> {
        let map = self.0.split_off(&(host, 0, Role::L1));
        map.into_iter().map(extent)
    }

    /// Removes everything before `host` and passes it to `each`. An extent that crosses
    /// `host` is split if it is divisible; otherwise the whole extent is removed.
    pub fn cut_before(&mut self, host: u64, scale: Scale, mut each: impl FnMut(Extent)) {
        while let Some(extent) = self.first_from(0).filter(|extent| extent.host < host) {
            self.remove(&extent);
            let before = host - extent.host;
            if extent.role.is_divisible() && extent.len > before {
                self.insert(scale.rest(&extent, before));
                each(Extent {
                    len: before,
                    ..extent
                });
            } else {
                each(extent);
            }
        }
    }
}

fn extent(((host, guest, role), len): ((u64, u64, Role), u64)) -> Extent {
    Extent {
        host,
        guest,
        len,
        role,
    }
}
