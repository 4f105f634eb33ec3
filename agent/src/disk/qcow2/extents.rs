//! What of a file is still to be read, ordered by its place in the file.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::disk::qcow2::header::Header;

/// What bytes of the file are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// A part of the L1 table.
    L1,
    /// A part of an L2 table.
    L2,
    /// Bytes of the disk's first MiB.
    HeadData,
    /// A compressed cluster with bytes of the disk's first MiB.
    HeadPacked,
    /// Bytes of the disk.
    Data,
    /// A compressed cluster.
    Packed,
}

impl Role {
    /// Whether it must be read before anything can be written.
    pub fn is_urgent(self) -> bool {
        !matches!(self, Self::Data | Self::Packed)
    }

    /// Whether it can be read in parts.
    pub fn is_divisible(self) -> bool {
        !matches!(self, Self::HeadPacked | Self::Packed)
    }
}

/// Bytes of the file and what they are for. Offsets and lengths are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Where it begins in the file.
    pub host: u64,
    /// Where it begins on the disk; of a table, where that begins which its
    /// first entry maps.
    pub guest: u64,
    /// Its length in the file; of a compressed cluster, at most.
    pub len: u64,
    /// What it is for.
    pub role: Role,
}

impl Extent {
    /// Whether `next` goes on where this ends, in the file and on the disk.
    pub fn is_followed_by(&self, next: &Self) -> bool {
        matches!(self.role, Role::Data | Role::HeadData)
            && self.role == next.role
            && self.host + self.len == next.host
            && self.guest + self.len == next.guest
    }
}

/// How much of the disk a byte of each kind stands for.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    l1: u64,
    l2: u64,
}

impl Scale {
    /// Of a file with this header.
    pub fn new(header: &Header) -> Self {
        Self {
            l1: header.l2_coverage() / 8,
            l2: header.cluster_size() / header.l2_entry_len(),
        }
    }

    /// What is left of an extent after its first `used` bytes.
    pub fn rest(self, extent: &Extent, used: u64) -> Extent {
        let scale = match extent.role {
            Role::L1 => self.l1,
            Role::L2 => self.l2,
            _ => 1,
        };
        Extent {
            host: extent.host + used,
            // The tables are no longer than the disk's size asks for.
            guest: extent.guest + used * scale,
            len: extent.len - used,
            role: extent.role,
        }
    }
}

/// Extents by their place in the file; two may have the same.
#[derive(Debug, Default)]
pub struct Extents(BTreeMap<(u64, u64, Role), u64>);

impl Extents {
    /// Adds one.
    pub fn insert(&mut self, extent: Extent) {
        match self.0.entry((extent.host, extent.guest, extent.role)) {
            Entry::Vacant(place) => {
                place.insert(extent.len);
            }
            // The same bytes for the same purpose: once is enough.
            Entry::Occupied(mut known) => {
                let len = extent.len.max(*known.get());
                known.insert(len);
            }
        }
    }

    /// Takes one out.
    pub fn remove(&mut self, extent: &Extent) {
        self.0.remove(&(extent.host, extent.guest, extent.role));
    }

    /// The first that begins at or after this place.
    pub fn first_from(&self, host: u64) -> Option<Extent> {
        self.iter_from(host).next()
    }

    /// All that begin at or after this place.
    pub fn iter_from(&self, host: u64) -> impl Iterator<Item = Extent> {
        self.0
            .range((host, 0, Role::L1)..)
            .map(|(&key, &len)| extent((key, len)))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Takes out all that begin at or after this place.
    pub fn split_off(&mut self, host: u64) -> impl Iterator<Item = Extent> + use<> {
        let map = self.0.split_off(&(host, 0, Role::L1));
        map.into_iter().map(extent)
    }

    /// Takes out everything before this place, for `each`; what begins before
    /// and ends behind is divided, if it can be.
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
