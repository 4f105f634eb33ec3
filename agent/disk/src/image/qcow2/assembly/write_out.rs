//! Writes extents from the window to the disk.

use landfall_report::failure::Result;

use super::{Assembly, HEAD_END, Sink, invalid};
use crate::image::qcow2::extents::{Extent, Role};

impl Assembly {
    /// Writes the extents that are in the window. The caller must take the first MiB of
    /// the disk before it calls this function. During the first pass, compressed
    /// clusters may wait for a later call. At the end of the file and in later passes,
    /// every call writes all compressed clusters.
    ///
    /// # Errors
    /// If the sink fails or a cluster cannot be unpacked.
    pub fn write(&mut self, sink: &mut dyn Sink) -> Result<()> {
        self.put_ready(sink)?;
        while let Some(extent) = self.due(&self.bulk) {
            self.bulk.remove(&extent);
            self.progress = true;
            if extent.role == Role::Packed {
                self.unpack(extent)?;
                self.put_ready(sink)?;
                continue;
            }
            let bytes = self.window.part(extent.host, extent.len);
            let len = bytes.len() as u64;
            sink.put(extent.guest, bytes)?;
            self.window.mark_used(extent.host, len);
            self.put_back_rest(extent, len)?;
        }
        let at_end = self.file_len.is_some() && self.file_len == self.window.end();
        if self.passes > 1 || at_end {
            self.begin_batch()?;
            while self.collect()? {}
        }
        self.put_ready(sink)
    }

    fn unpack(&mut self, extent: Extent) -> Result<()> {
        if !self.open.fits(extent.guest) {
            self.begin_batch()?;
        }
        let packed = self
            .window
            .together(extent.host, extent.len, &mut self.scratch);
        self.open.push(&extent, packed);
        Ok(())
    }

    fn begin_batch(&mut self) -> Result<()> {
        if self.open.is_empty() {
            return Ok(());
        }
        while self.threads.is_full() {
            self.collect()?;
        }
        let next = self.threads.batch();
        self.threads.begin(std::mem::replace(&mut self.open, next));
        Ok(())
    }

    /// Waits for the oldest batch. Returns `false` if there is none.
    fn collect(&mut self) -> Result<bool> {
        let Some(outcome) = self.threads.wait() else {
            return Ok(false);
        };
        let batch = outcome.map_err(invalid)?;
        for (host, len) in batch.used() {
            self.window.mark_used(host, len);
        }
        self.ready.push_back(batch);
        Ok(true)
    }

    /// Waits for all batches with clusters before file offset `host`, so that the
    /// window knows which bytes these clusters used.
    pub(super) fn settle_before(&mut self, host: u64) -> Result<()> {
        if self.open.begins_before(host) {
            self.begin_batch()?;
        }
        // A batch that was begun later may contain clusters from earlier in the file,
        // so all batches are checked.
        while self.threads.begins_before(host) && self.collect()? {}
        Ok(())
    }

    fn put_ready(&mut self, sink: &mut dyn Sink) -> Result<()> {
        while let Some(batch) = self.ready.pop_front() {
            let (guest, bytes) = (batch.guest(), batch.bytes());
            let end = (guest + bytes.len() as u64).min(self.header.size);
            // `head` holds the first MiB; it is not written here.
            let from = guest.max(HEAD_END);
            if from < end {
                sink.put(
                    from,
                    &bytes[(from - guest) as usize..(end - guest) as usize],
                )?;
            }
            self.threads.give_back(batch);
        }
        Ok(())
    }
}
