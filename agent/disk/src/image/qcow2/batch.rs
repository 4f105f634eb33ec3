//! Compressed clusters that are adjacent on the disk. One thread unpacks a whole batch,
//! and one write puts it on the disk.

use crate::device::aligned_buffer::AlignedBuffer;
use crate::image::qcow2::extents::Extent;
use crate::image::qcow2::unpack::{UnpackError, Unpacker};

/// Unpacked size of a batch in bytes, unless a cluster is larger. Larger batches cost too
/// much memory: with 1 MiB, an installation took up to 36 MiB with two threads and up to
/// 23 MiB without threads.
pub const BATCH: usize = 512 << 10;

/// Why a batch is not unpacked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// A compressed part of the qcow2 image is damaged; the reason follows. Compare the digest
    /// of the image, and make it again.
    #[error("cannot unpack the cluster at byte {host} for byte {guest} of the disk: {reason}")]
    Cluster {
        /// Offset in the file, in bytes.
        host: u64,
        /// Offset on the disk, in bytes.
        guest: u64,
        reason: UnpackError,
    },
    /// A thread of the agent has crashed. This is a defect of Landfall: report it with
    /// the log archive.
    #[error("the thread that unpacks it is gone")]
    ThreadGone,
}

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
    /// Offset in `packed`.
    start: usize,
    /// Packed length in bytes; an upper limit until the cluster is unpacked.
    len: usize,
}

impl Batch {
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

    pub fn is_empty(&self) -> bool {
        self.clusters.is_empty()
    }

    /// Whether the cluster at offset `guest` of the disk can be added. An empty batch
    /// accepts every cluster. Otherwise the cluster must follow the last cluster of the
    /// batch, and the batch must have room for it.
    pub fn fits(&self, guest: u64) -> bool {
        let len = self.bytes().len();
        self.is_empty()
            || (self.guest() + len as u64 == guest
                && len + self.cluster_size <= self.unpacked.len())
    }

    /// Adds a cluster. `packed` starts with its packed bytes and may be longer.
    pub fn push(&mut self, extent: &Extent, packed: &[u8]) {
        self.clusters.push(Cluster {
            host: extent.host,
            guest: extent.guest,
            start: self.packed.len(),
            len: packed.len(),
        });
        self.packed.extend_from_slice(packed);
    }

    /// # Errors
    /// If a cluster is damaged.
    pub fn unpack(&mut self, unpacker: &mut Unpacker) -> Result<(), BatchError> {
        let places = self.unpacked.chunks_exact_mut(self.cluster_size);
        for (cluster, out) in self.clusters.iter_mut().zip(places) {
            let packed = &self.packed[cluster.start..][..cluster.len];
            cluster.len = unpacker
                .unpack(packed, out)
                .map_err(|reason| BatchError::Cluster {
                    host: cluster.host,
                    guest: cluster.guest,
                    reason,
                })?;
        }
        Ok(())
    }

    /// Offset of the batch on the disk, in bytes.
    pub fn guest(&self) -> u64 {
        self.clusters.first().map_or(0, |cluster| cluster.guest)
    }

    pub fn bytes(&self) -> &[u8] {
        &self.unpacked[..self.clusters.len() * self.cluster_size]
    }

    /// File offset and packed length of each cluster.
    pub fn used(&self) -> impl Iterator<Item = (u64, u64)> {
        self.clusters
            .iter()
            .map(|cluster| (cluster.host, cluster.len as u64))
    }

    /// Whether any cluster begins before offset `host` of the file.
    pub fn begins_before(&self, host: u64) -> bool {
        self.clusters.iter().any(|cluster| cluster.host < host)
    }

    /// Empties the batch for reuse.
    pub fn clear(&mut self) {
        self.clusters.clear();
        self.packed.clear();
    }
}
