//! Assembles the disk inside a qcow2 file from pieces of the file. Each pass delivers
//! pieces in ascending order; there are as many passes as needed. Does no I/O: the
//! caller reads the pieces, and a [`Sink`] writes the disk.

mod read_tables;
mod write_out;

use std::collections::VecDeque;
use std::fmt;

use landfall_report::failure::{Failure, Result};

use crate::device::aligned_buffer::AlignedBuffer;
use crate::image::qcow2::batch::Batch;
use crate::image::qcow2::extents::{Extent, Extents, Role, Scale};
use crate::image::qcow2::header::Header;
use crate::image::qcow2::unpack::Unpacker;
use crate::image::qcow2::unpack_threads::UnpackThreads;
use crate::image::qcow2::window::{Fingerprint, PIECE, Piece, Window, fingerprint};
use crate::tables::gpt::HEAD_LEN;

/// The maximum number of extents in memory; they take 12 MiB. If a table needs more, a
/// later pass reads the rest of the table.
const MOST_EXTENTS: usize = 1 << 18;
/// The maximum number of passes. Each pass makes progress, but a hostile file could
/// require one pass for each of its tables.
const MOST_PASSES: u32 = 100;
const HEAD_END: u64 = HEAD_LEN as u64;

/// Receives the bytes of the disk inside.
pub trait Sink {
    /// Accepts bytes for offset `guest` of the disk, which is always behind the first
    /// MiB. `guest` is a multiple of the allocation unit of the file, or of 1 MiB if
    /// the unit is larger than that. The bytes are in an [`AlignedBuffer`], and are
    /// whole sectors of 512 bytes, except at the end of a truncated file.
    fn put(&mut self, guest: u64, bytes: &[u8]) -> Result<()>;
}

/// What the caller must read next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// The piece at this offset of the file, and its expected fingerprint.
    Piece(u64, Fingerprint),
    /// Read the whole file from its start, because the agent has no fingerprint of the
    /// bytes that it needs.
    WholeFile,
    /// Nothing more in this pass.
    Nothing,
}

/// The state of a file that is being read.
#[derive(Debug)]
pub struct Assembly {
    header: Header,
    scale: Scale,
    file_len: Option<u64>,
    urgent: Extents,
    bulk: Extents,
    /// Extents whose bytes have left the window, for the next pass.
    later: Vec<Extent>,
    window: Window,
    /// Offset and fingerprint of each piece that the first pass did not use completely,
    /// in ascending order.
    fingerprints: Vec<(u64, Fingerprint)>,
    passes: u32,
    /// [`MOST_EXTENTS`], or less in a test.
    room: usize,
    /// Whether this pass processed any extent, or any entry of a table.
    progress: bool,
    threads: UnpackThreads,
    /// Compressed clusters that no thread unpacks yet.
    open: Batch,
    /// Batches that are unpacked but not written yet.
    ready: VecDeque<Batch>,
    scratch: Vec<u8>,
    head: AlignedBuffer,
}

impl Assembly {
    /// Starts with a file that has this header. `file_len` is its length in bytes,
    /// if known. `threads` threads unpack its clusters.
    ///
    /// # Errors
    /// If the L1 table extends beyond the end of the file.
    pub fn new(header: Header, file_len: Option<u64>, threads: usize) -> Result<Self> {
        // A compressed cluster may be as long as two clusters.
        let window = Window::new(2 * header.cluster_size());
        let mut threads = UnpackThreads::new(&header, threads);
        let mut assembly = Self {
            scale: Scale::new(&header),
            file_len,
            urgent: Extents::default(),
            bulk: Extents::default(),
            later: Vec::new(),
            window,
            fingerprints: Vec::new(),
            passes: 1,
            room: MOST_EXTENTS,
            progress: false,
            open: threads.batch(),
            threads,
            ready: VecDeque::new(),
            scratch: Vec::new(),
            head: AlignedBuffer::zeroed(HEAD_LEN),
            header,
        };
        let l1 = Extent {
            host: assembly.header.l1_offset,
            guest: 0,
            len: assembly.header.l1_len(),
            role: Role::L1,
        };
        if l1.len > 0 {
            assembly.note(l1)?;
        }
        Ok(assembly)
    }

    /// Takes the next piece of the file. Returns the buffer of a piece that has
    /// left the window.
    ///
    /// # Errors
    /// If the tables are inconsistent or do not fit the file, or if a compressed cluster
    /// cannot be unpacked.
    pub fn take(&mut self, piece: Piece) -> Result<Option<AlignedBuffer>> {
        let mut done = None;
        if self.window.end() != Some(piece.offset) {
            self.leave_window()?;
            self.cut_before(piece.offset);
        } else if self.window.is_full() {
            done = self.retire()?.map(Piece::into_buffer);
        }
        self.window.push(piece);
        self.learn_due()?;
        Ok(done)
    }

    /// The buffer with the first MiB of the disk, and the number of valid bytes in it
    /// (less than 1 MiB if the disk is smaller). `None` until all these bytes are known.
    pub fn head(&self) -> Option<(&AlignedBuffer, usize)> {
        let in_head = |extent: &Extent| extent.role.is_urgent() && extent.guest < HEAD_END;
        let open = self.urgent.iter_from(0).any(|extent| in_head(&extent))
            || self.later.iter().any(in_head);
        let len = HEAD_END.min(self.header.size) as usize;
        (!open).then_some((&self.head, len))
    }

    /// Marks the end of the file. The caller must call [`Assembly::write`] once
    /// more.
    ///
    /// # Errors
    /// If the tables are inconsistent or refer to bytes beyond the end of the file, or if
    /// a compressed cluster cannot be unpacked. The end of the file may cut off the last
    /// data cluster.
    pub fn file_ends(&mut self) -> Result<()> {
        let len = self.window.end().unwrap_or(0);
        self.file_len = Some(len);
        for extent in self.urgent.split_off(len).chain(self.bulk.split_off(len)) {
            self.check_tail(&extent, len)?;
        }
        // The declared length of a compressed cluster may reach beyond the end of the
        // file. The agent can process such a cluster only at the end of the file.
        self.learn_due()
    }

    /// Begins the next pass. Returns `false` if nothing is left to read.
    ///
    /// # Errors
    /// If the last pass made no progress, after `MOST_PASSES` passes, or if a compressed
    /// cluster cannot be unpacked.
    pub fn begin_pass(&mut self) -> Result<bool> {
        self.leave_window()?;
        self.cut_before(u64::MAX);
        debug_assert!(self.ready.is_empty(), "the last write left something");
        if self.later.is_empty() {
            return Ok(false);
        }
        self.passes += 1;
        if !self.progress || self.passes > MOST_PASSES {
            return Err(invalid(format!(
                "its tables are too far out of order: gave up after {} passes",
                self.passes - 1
            )));
        }
        self.progress = false;
        for extent in std::mem::take(&mut self.later) {
            self.queue(extent);
        }
        Ok(true)
    }

    /// Returns what to read next in a pass after the first. `writing` is true if the
    /// caller already calls [`Assembly::write`]. Otherwise only tables and the
    /// first MiB of the disk are needed.
    pub fn next(&self, writing: bool) -> Next {
        let bulk = writing.then(|| self.bulk.first_from(0)).flatten();
        let first = [self.urgent.first_from(0), bulk].into_iter().flatten();
        let Some(host) = first.map(|extent| extent.host).min() else {
            return Next::Nothing;
        };
        let offset = match self.window.end() {
            // The cluster begins in the window and continues behind it.
            Some(end) if host < end => end,
            _ => host - host % PIECE,
        };
        match self
            .fingerprints
            .binary_search_by_key(&offset, |known| known.0)
        {
            Ok(index) => Next::Piece(offset, self.fingerprints[index].1),
            Err(_) => Next::WholeFile,
        }
    }

    /// The first extent in the window that can be processed: an extent that is complete
    /// in the window, or one that may be processed in parts. At the end of the file every
    /// extent can be processed.
    fn due(&self, extents: &Extents) -> Option<Extent> {
        let (start, end) = (self.window.start()?, self.window.end()?);
        let at_end = self.file_len == Some(end);
        extents
            .iter_from(start)
            .take_while(|extent| extent.host < end)
            .find(|extent| at_end || extent.role.is_divisible() || extent.host + extent.len <= end)
    }

    fn learn_due(&mut self) -> Result<()> {
        while let Some(extent) = self.due(&self.urgent) {
            self.urgent.remove(&extent);
            self.learn(extent)?;
        }
        Ok(())
    }

    fn learn(&mut self, extent: Extent) -> Result<()> {
        if matches!(extent.role, Role::L1 | Role::L2) {
            return self.read_table(extent);
        }
        self.progress = true;
        match extent.role {
            Role::HeadPacked | Role::Packed => self.learn_packed(&extent),
            _ => {
                let bytes = self.window.part(extent.host, extent.len);
                let len = bytes.len();
                // `note_data` has cut this extent at the end of the head.
                self.head[extent.guest as usize..][..len].copy_from_slice(bytes);
                self.window.mark_used(extent.host, len as u64);
                self.put_back_rest(extent, len as u64)
            }
        }
    }

    fn learn_packed(&mut self, extent: &Extent) -> Result<()> {
        let mut cluster = self.threads.batch();
        let packed = self
            .window
            .together(extent.host, extent.len, &mut self.scratch);
        cluster.push(extent, packed);
        cluster
            .unpack(&mut Unpacker::new(self.header.compression))
            .map_err(invalid)?;
        for (host, len) in cluster.used() {
            self.window.mark_used(host, len);
        }
        let start = extent.guest as usize;
        let len = cluster.bytes().len().min(HEAD_LEN - start);
        self.head[start..start + len].copy_from_slice(&cluster.bytes()[..len]);
        self.threads.give_back(cluster);
        Ok(())
    }

    /// Queues an extent for this pass, or for the next pass if its start has left
    /// the window.
    fn queue(&mut self, extent: Extent) {
        if self.window.start().is_some_and(|start| extent.host < start) {
            self.later.push(extent);
        } else if extent.role.is_urgent() {
            self.urgent.insert(extent);
        } else {
            self.bulk.insert(extent);
        }
    }

    fn put_back_rest(&mut self, extent: Extent, used: u64) -> Result<()> {
        if used == extent.len {
            return Ok(());
        }
        let rest = self.scale.rest(&extent, used);
        match self.file_len {
            Some(len) if rest.host >= len => self.check_tail(&rest, len)?,
            _ => self.queue(rest),
        }
        Ok(())
    }

    /// Only the rest of the last data cluster may lie behind the end of the file;
    /// this rest reads as zeros. A table or another cluster there is an error.
    fn check_tail(&self, rest: &Extent, len: u64) -> Result<()> {
        let is_data = matches!(rest.role, Role::Data | Role::HeadData);
        let cluster_end = len.next_multiple_of(self.header.cluster_size());
        if is_data && rest.host + rest.len <= cluster_end && rest.host < cluster_end {
            return Ok(());
        }
        Err(beyond(rest.host + rest.len, len))
    }

    fn check_place(&self, host: u64) -> Result<()> {
        match self.file_len {
            Some(len) if host >= len => Err(beyond(host, len)),
            _ => Ok(()),
        }
    }

    fn noted(&self) -> usize {
        self.urgent.count() + self.bulk.count() + self.later.len()
    }

    /// Removes the oldest piece from the window. Its unprocessed extents wait for
    /// the next pass.
    fn retire(&mut self) -> Result<Option<Piece>> {
        let Some(end) = self.window.oldest().map(Piece::end) else {
            return Ok(None);
        };
        self.settle_before(end)?;
        self.cut_before(end);
        let piece = self.window.pop();
        if let Some(piece) = &piece
            && self.passes == 1
            && !piece.is_used_up()
        {
            let known = (piece.offset, fingerprint(piece.bytes()));
            self.fingerprints.push(known);
        }
        Ok(piece)
    }

    fn leave_window(&mut self) -> Result<()> {
        while self.retire()?.is_some() {}
        Ok(())
    }

    fn cut_before(&mut self, host: u64) {
        let later = &mut self.later;
        let mut keep = |extent: Extent| match later.last_mut() {
            Some(last) if last.is_followed_by(&extent) => last.len += extent.len,
            _ => later.push(extent),
        };
        self.urgent.cut_before(host, self.scale, &mut keep);
        self.bulk.cut_before(host, self.scale, &mut keep);
    }
}

fn beyond(host: u64, len: u64) -> Failure {
    invalid(format!(
        "its tables name byte {host}, the file ends at byte {len}"
    ))
    .hint("the image is truncated or damaged: run qemu-img check on it")
}

fn invalid(reason: impl fmt::Display) -> Failure {
    Failure::invalid_image(format!("the qcow2 image: {reason}"))
}

#[cfg(test)]
mod tests;
