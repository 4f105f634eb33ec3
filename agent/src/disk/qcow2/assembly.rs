//! Puts the disk inside of a qcow2 file together, from pieces of the file in
//! ascending order and in as many passes as it takes. Knows nothing of where the
//! pieces come from and where the disk is.

use std::collections::VecDeque;

use crate::disk::aligned_buffer::AlignedBuffer;
use crate::disk::image_head::HEAD_LEN;
use crate::disk::qcow2::batch::Batch;
use crate::disk::qcow2::extents::{Extent, Extents, Role, Scale};
use crate::disk::qcow2::header::Header;
use crate::disk::qcow2::unpack::Unpacker;
use crate::disk::qcow2::unpack_threads::UnpackThreads;
use crate::disk::qcow2::window::{Fingerprint, PIECE, Piece, Window, fingerprint};
use crate::failure::{Class, Failure, Result};

/// Extents that may be noted at a time, 12 MiB of them. A table that has more
/// to tell is read in a later pass.
const MOST_EXTENTS: usize = 1 << 18;
/// Each pass does something, but a file made to annoy could ask for one for each
/// of its tables.
const MOST_PASSES: u32 = 100;
/// The end of the first MiB of the disk.
const HEAD_END: u64 = HEAD_LEN as u64;

/// Takes the bytes of the disk.
pub trait Sink {
    /// Takes what belongs at `guest`: whole sectors of 512 bytes behind the
    /// first MiB, in an [`AlignedBuffer`] at a multiple of their length's unit.
    ///
    /// # Errors
    /// If it cannot.
    fn put(&mut self, guest: u64, bytes: &[u8]) -> Result<()>;
}

/// What to read next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// The piece that begins at this byte; its fingerprint is known.
    Piece(u64, Fingerprint),
    /// Bytes of which there is no fingerprint: the whole file, from its start.
    WholeFile,
    /// Nothing in this pass.
    Nothing,
}

/// The state of a file that is on its way.
#[derive(Debug)]
pub struct Assembly {
    header: Header,
    scale: Scale,
    file_len: Option<u64>,
    urgent: Extents,
    bulk: Extents,
    /// Bytes that are gone, for the next pass.
    later: Vec<Extent>,
    window: Window,
    /// Of the pieces that were not used up in the first pass, ascending.
    fingerprints: Vec<(u64, Fingerprint)>,
    passes: u32,
    /// See [`MOST_EXTENTS`].
    room: usize,
    /// Whether this pass did anything.
    progress: bool,
    threads: UnpackThreads,
    /// Compressed clusters that are not being unpacked yet.
    open: Batch,
    /// Unpacked, but not written yet.
    ready: VecDeque<Batch>,
    scratch: Vec<u8>,
    head: AlignedBuffer,
}

impl Assembly {
    /// Starts with a file of this header and, if known, of this length. So many
    /// threads unpack its clusters.
    ///
    /// # Errors
    /// If the file ends before its tables.
    pub fn new(header: Header, file_len: Option<u64>, threads: usize) -> Result<Self> {
        // A compressed cluster may take the place of two.
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

    /// Takes the next piece of the file. Gives back the buffer of one that is
    /// done with.
    ///
    /// # Errors
    /// If the tables contradict themselves or the file.
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

    /// The first MiB of the disk, as soon as all of it is known, and its length.
    pub fn head(&self) -> Option<(&AlignedBuffer, usize)> {
        let in_head = |extent: &Extent| extent.role.is_urgent() && extent.guest < HEAD_END;
        let open = self.urgent.iter_from(0).any(|extent| in_head(&extent))
            || self.later.iter().any(in_head);
        let len = HEAD_END.min(self.header.size) as usize;
        (!open).then_some((&self.head, len))
    }

    /// The file ends with the pieces taken so far. To be followed by a last
    /// [`Assembly::write`].
    ///
    /// # Errors
    /// If the tables name a place behind it.
    pub fn file_ends(&mut self) -> Result<()> {
        let len = self.window.end().unwrap_or(0);
        self.file_len = Some(len);
        for extent in self.urgent.split_off(len).chain(self.bulk.split_off(len)) {
            self.check_tail(&extent, len)?;
        }
        // Clusters at the very end may be said to be longer than the file.
        self.learn_due()
    }

    /// Begins the next pass; `false` if there is nothing left to read.
    ///
    /// # Errors
    /// If the file is too much out of order, or this leads nowhere.
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
                "its tables are too much out of order, gave up after {} passes",
                self.passes - 1
            )));
        }
        self.progress = false;
        for extent in std::mem::take(&mut self.later) {
            self.queue(extent);
        }
        Ok(true)
    }

    /// Which piece to read next in a pass after the first. `writing`: whether
    /// [`Assembly::write`] is called for what is in it.
    pub fn next(&self, writing: bool) -> Next {
        let bulk = writing.then(|| self.bulk.first_from(0)).flatten();
        let first = [self.urgent.first_from(0), bulk].into_iter().flatten();
        let Some(host) = first.map(|extent| extent.host).min() else {
            return Next::Nothing;
        };
        let offset = match self.window.end() {
            // A cluster that begins in the window and goes on behind it.
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

    /// The first extent of the window that is there in full, or in part if that
    /// is enough.
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
            self.progress = true;
            self.learn(extent)?;
        }
        Ok(())
    }

    fn learn(&mut self, extent: Extent) -> Result<()> {
        match extent.role {
            Role::L1 | Role::L2 => self.read_table(extent),
            Role::HeadData | Role::Data => {
                let bytes = self.window.part(extent.host, extent.len);
                let len = bytes.len();
                // Cut at the end of the head when it was noted.
                self.head[extent.guest as usize..][..len].copy_from_slice(bytes);
                self.window.mark_used(extent.host, len as u64);
                self.put_back_rest(extent, len as u64)
            }
            Role::HeadPacked | Role::Packed => self.learn_packed(&extent),
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

    /// Puts it where it will be found: ahead, or in the next pass.
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

    /// What is behind the file's end may be the rest of its last cluster, which
    /// reads as zeros, and nothing else.
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
        self.urgent.len() + self.bulk.len() + self.later.len()
    }

    /// Lets the oldest piece go; what was not done with it is for later.
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

fn invalid(reason: String) -> Failure {
    Failure::new(Class::InvalidImage, format!("the qcow2 image: {reason}"))
}

mod read_tables;
#[cfg(test)]
mod tests;
mod write_out;
