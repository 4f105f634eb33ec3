//! Compressed clusters that follow each other on the disk: what one thread
//! unpacks at a time and one write puts there.

use crate::disk::aligned_buffer::AlignedBuffer;
use crate::disk::qcow2::extents::Extent;
use crate::disk::qcow2::unpack::Unpacker;

/// What is unpacked at a time, if a cluster is not more. With 1 MiB and two
/// threads writing an image took 36 MiB at most, without threads 23 MiB.
pub const BATCH: usize = 512 << 10;

/// Clusters, packed and later unpacked.
#[derive(Debug)]
pub struct Batch {
    cluster_size: usize,
    clusters: Vec<Cluster>,
    packed: Vec<u8>,
    unpacked: AlignedBuffer,
}

#[derive(Debug)]
struct Cluster {
    host: u64,
    guest: u64,
    /// In `packed`.
    start: usize,
    /// How many bytes it took; at most, until it is unpacked.
    len: usize,
}

impl Batch {
    /// An empty one.
    pub fn new(cluster_size: u64) -> Self {
        // At most 2 MiB, see `Header`.
        let cluster_size = cluster_size as usize;
        Self {
            cluster_size,
            clusters: Vec::new(),
            packed: Vec::new(),
            unpacked: AlignedBuffer::zeroed(cluster_size.max(BATCH)),
        }
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.clusters.is_empty()
    }

    /// Whether the cluster for this place of the disk can be added.
    pub fn fits(&self, guest: u64) -> bool {
        let len = self.bytes().len();
        self.is_empty()
            || (self.guest() + len as u64 == guest
                && len + self.cluster_size <= self.unpacked.len())
    }

    /// Adds a cluster, packed in these bytes at most.
    pub fn push(&mut self, extent: &Extent, packed: &[u8]) {
        self.clusters.push(Cluster {
            host: extent.host,
            guest: extent.guest,
            start: self.packed.len(),
            len: packed.len(),
        });
        self.packed.extend_from_slice(packed);
    }

    /// Unpacks all of it.
    ///
    /// # Errors
    /// If a cluster cannot be.
    pub fn unpack(&mut self, unpacker: &mut Unpacker) -> Result<(), String> {
        let places = self.unpacked.chunks_exact_mut(self.cluster_size);
        for (cluster, out) in self.clusters.iter_mut().zip(places) {
            let packed = &self.packed[cluster.start..][..cluster.len];
            cluster.len = unpacker.unpack(packed, out).map_err(|reason| {
                format!(
                    "unpacking the cluster at byte {} for byte {} of the disk: {reason}",
                    cluster.host, cluster.guest
                )
            })?;
        }
        Ok(())
    }

    /// Where it begins on the disk.
    pub fn guest(&self) -> u64 {
        self.clusters.first().map_or(0, |cluster| cluster.guest)
    }

    /// What was unpacked.
    pub fn bytes(&self) -> &[u8] {
        &self.unpacked[..self.clusters.len() * self.cluster_size]
    }

    /// The bytes of the file that it took: place and length of each cluster.
    pub fn used(&self) -> impl Iterator<Item = (u64, u64)> {
        self.clusters
            .iter()
            .map(|cluster| (cluster.host, cluster.len as u64))
    }

    /// Whether something of it lies before this byte of the file.
    pub fn begins_before(&self, host: u64) -> bool {
        self.clusters.iter().any(|cluster| cluster.host < host)
    }

    /// Makes it empty, for the next clusters.
    pub fn clear(&mut self) {
        self.clusters.clear();
        self.packed.clear();
    }
}
