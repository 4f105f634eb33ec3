//! Writes an image from a URL to a disk. The order of the steps ensures that the
//! disk never boots a half-written or unverified system:
//!
//! 1. unpack and check the first MiB; nothing is written before that;
//! 2. wipe the first and the last MiB of the disk, and flush;
//! 3. write the image from its second MiB on, and flush;
//! 4. compare its digest, if one is given, and check its length.
//!
//! The result is a [`ProvenImage`]: its first MiB (boot code, MBR, GPT) is still in
//! memory. `commit` writes it, with the GPT adapted to this disk. After a failure
//! in steps 2 to 4 the agent wipes the first and the last MiB again, unless
//! `preserve_on_error` is set.
//!
//! If partitions are kept, the two ends are not empty after step 2: they have a table
//! with only the kept partitions (`ends.rs`). The agent rejects an image that would
//! reach the first kept partition. If the agent learns the image's size only while it
//! writes, it fails before it reaches that partition.

mod check;
mod piece_reader;
mod qcow2;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::ops::Range;
use std::time::Instant;

use landfall_download::digest::Computed;
use landfall_download::fetch::{Download, Request};
use landfall_download::proof::Proof;
use landfall_report::failure::{Failure, Result};
use landfall_report::{Progress, mib};

use crate::device::aligned_buffer::AlignedBuffer;
use crate::device::target::{Target, refuse_medium_of_image};
use crate::image::decode::Packing;
use crate::image::ends::Ends;
use crate::image::format_policy::{Format, FormatPolicy};
use crate::image::image_head::{self, Geometry, Image, Promise};
use crate::image::pipeline::{Broken, Pipeline, Step, Stream, UNIT};
use crate::image::proven_image::{ProvenImage, WrittenImage};
use crate::image::read_back::read_back;
use crate::image::sparse_write::{SparseWriter, Written};
use crate::software_raid::system_partitions;
use crate::tables::gpt::HEAD_LEN;
use crate::tables::saved_partitions::PartitionFilter;

/// In bytes: room for the first MiB, the last MiB and some data between them.
const SMALLEST_DISK: u64 = 4 << 20;

/// Where an image comes from, and how it is verified.
#[derive(Debug, Clone)]
pub struct ImageSource {
    pub request: Request,
    pub proof: Proof,
    pub formats: FormatPolicy,
}

impl ImageSource {
    /// An image in any format.
    pub fn new(request: Request, proof: Proof) -> Self {
        let request = Request {
            checked: !proof.is_nothing(),
            packed: true,
            ..request
        };
        Self {
            request,
            proof,
            formats: FormatPolicy::default(),
        }
    }
}

/// How to write an image.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// The agent keeps the partitions of the disk that match any of these filters.
    pub saved: Vec<PartitionFilter>,
    /// After a failure the agent leaves the disk as it is.
    pub preserve_on_error: bool,
    /// Before the image becomes visible, the agent reads back everything that it has
    /// written.
    pub verify: bool,
    /// The agent rejects an image that UEFI cannot boot.
    pub needs_efi: bool,
    /// The agent rejects an image that has no GPT, or whose partitions cannot be used
    /// before the commit. Callers that change something in these partitions set this.
    pub needs_partitions: bool,
}

/// Writes the image to the disk, except for its first MiB.
///
/// # Errors
/// A failure before the first write leaves the disk unchanged. After any other
/// failure the disk does not boot, and kept partitions are unchanged.
pub fn write_image_with(
    source: &ImageSource,
    options: &WriteOptions,
    mut target: Target,
    client: &reqwest::Client,
) -> Result<ProvenImage> {
    let started = Instant::now();
    if source.proof.is_nothing() {
        tracing::warn!("no checksum was given, the image is written unverified");
    }
    let ends = find_ends(source, options, &mut target)?;
    if options.verify {
        target.remember_writes();
    }
    let work = Work::new(source, options, &target, ends, client)?;
    let pipeline = work.pipeline()?;
    let outcome = work.write(pipeline);
    let (ends, touched) = (work.ends.into_inner(), work.touched.get());
    match outcome {
        Ok((stream, plan, placed)) => {
            let written = WrittenImage {
                disk: target.path().to_owned(),
                url: stream.url.clone(),
                packing: stream.packing,
                format: placed.format,
                verified: !source.proof.is_nothing(),
                digest: placed.digest,
                image_bytes: placed.image_bytes,
                written: placed.written,
                kept: plan.kept,
                seconds: started.elapsed().as_secs_f64(),
            };
            tracing::info!("{}", written.line(&target));
            let table = plan.image.gpt;
            Ok(ProvenImage::new(target, ends, plan.head, table, written))
        }
        Err(failure) => {
            if touched {
                ends.after(&failure, &target);
            }
            Err(failure)
        }
    }
}

/// Does everything except writing: reads the image to its end, and compares its
/// digest. The target may be open for reading only.
///
/// # Errors
/// The same errors as for [`write_image_with`], except the errors that only a write to
/// the disk can cause.
pub fn check_image(
    source: &ImageSource,
    options: &WriteOptions,
    mut target: Target,
    client: &reqwest::Client,
) -> Result<()> {
    let ends = find_ends(source, options, &mut target)?;
    let work = Work::new(source, options, &target, ends, client)?;
    let pipeline = work.pipeline()?;
    work.check(pipeline)
}

/// Rejects a disk that this image must not be written to, and finds the partitions to
/// keep.
fn find_ends(source: &ImageSource, options: &WriteOptions, target: &mut Target) -> Result<Ends> {
    refuse_medium_of_image(target.path(), &source.request.urls)?;
    // An image for UEFI gets a boot entry, which names a boot loader on a partition. So
    // the kernel must be able to show partitions of the target.
    if options.needs_partitions || options.needs_efi {
        target.refuse_without_partitions()?;
    }
    Ends::find(target, &options.saved, options.preserve_on_error)
}

/// The first MiB as it will be on the disk, and where the data must end.
struct Plan {
    image: Image,
    head: AlignedBuffer,
    head_len: usize,
    /// The numbers of the kept partitions in the image's table.
    kept: Vec<u32>,
    /// The first byte of the backup GPT that the commit will write, or the end of the
    /// disk if the image has no GPT.
    data_end: u64,
}

struct Placed {
    digest: Computed,
    image_bytes: u64,
    format: Format,
    written: Written,
}

struct Work<'a> {
    source: &'a ImageSource,
    target: &'a Target,
    needs_efi: bool,
    needs_partitions: bool,
    ends: RefCell<Ends>,
    client: &'a reqwest::Client,
    disk: Geometry,
    /// Whether the agent has begun to write to the disk.
    touched: Cell<bool>,
}

impl<'a> Work<'a> {
    fn new(
        source: &'a ImageSource,
        options: &WriteOptions,
        target: &'a Target,
        ends: Ends,
        client: &'a reqwest::Client,
    ) -> Result<Self> {
        let disk = Geometry {
            size: target.size(),
            sector: target.sector_size(),
        };
        if disk.size < SMALLEST_DISK {
            return Err(image_head::too_large(SMALLEST_DISK, disk.size));
        }
        Ok(Self {
            source,
            target,
            needs_efi: options.needs_efi,
            needs_partitions: options.needs_partitions,
            ends: RefCell::new(ends),
            client,
            disk,
            touched: Cell::new(false),
        })
    }
}

impl Work<'_> {
    fn pipeline(&self) -> Result<Pipeline> {
        let download = Download::start(self.source.request.clone(), self.client.clone())?;
        Pipeline::start(download, self.source.proof.hashing(), self.disk.size)
    }

    fn write(&self, pipeline: Pipeline) -> Result<(Stream, Plan, Placed)> {
        let (stream, pipeline, first) = self.first_unit(pipeline)?;
        let (plan, placed) = match self.permitted_format(&stream, &first)? {
            Format::Qcow2 => self.write_qcow2(&stream, pipeline, first)?,
            Format::Raw => {
                let plan = self.plan_of_raw(&stream, first)?;
                let placed = self.place(&stream, pipeline, &plan)?;
                (plan, placed)
            }
        };
        Ok((stream, plan, placed))
    }

    /// Wipes both ends of the disk. If the installation fails after this call, the disk
    /// does not boot.
    fn wipe(&self) -> Result<()> {
        self.touched.set(true);
        self.ends.borrow_mut().clear(self.target)
    }

    /// Waits for the first unit of the image. It is empty if the image is empty.
    fn first_unit(&self, pipeline: Pipeline) -> Result<(Stream, Pipeline, (AlignedBuffer, usize))> {
        let mut begun = None;
        let mut progress = Progress::new("fetching the image", None);
        loop {
            if let Some(line) = progress.at(pipeline.downloaded()) {
                tracing::info!(done = line.done, total = line.total, "{line}");
            }
            match pipeline.next() {
                Ok(Step::Wait) => {}
                Ok(Step::Begin(stream)) => begun = Some(stream),
                Ok(Step::Unit(buffer, len)) => {
                    let stream = begun.ok_or_else(|| no_head("data"))?;
                    return Ok((stream, pipeline, (buffer, len)));
                }
                Ok(Step::End) => {
                    let stream = begun.ok_or_else(|| no_head("its end"))?;
                    return Ok((stream, pipeline, (AlignedBuffer::zeroed(UNIT), 0)));
                }
                Err(broken) => return Err(self.diagnose(begun.as_ref(), broken, pipeline)),
            }
        }
    }

    /// The format of the image, detected from its first unit. Fails if it is not one of
    /// the permitted formats.
    fn permitted_format(
        &self,
        stream: &Stream,
        (head, head_len): &(AlignedBuffer, usize),
    ) -> Result<Format> {
        Format::of(&head[..*head_len])
            .and_then(|format| self.source.formats.check(format).map(|()| format))
            // A redirect may have led to another file, such as a login page.
            .map_err(|failure| untouched(&stream.place.shown_with_redirect(), failure))
    }

    /// The same as [`Self::plan`] for an image that is not inside a qcow2 file.
    fn plan_of_raw(&self, stream: &Stream, first: (AlignedBuffer, usize)) -> Result<Plan> {
        let promise = Promise {
            exact: (stream.packing == Packing::Raw)
                .then_some(stream.total)
                .flatten(),
            at_least: stream.promised,
        };
        self.plan(stream, first, promise)
    }

    /// Checks the image by its first unit. Writes nothing to the disk.
    fn plan(
        &self,
        stream: &Stream,
        (mut head, head_len): (AlignedBuffer, usize),
        promise: Promise,
    ) -> Result<Plan> {
        // A buffer that is used again still holds other bytes.
        head[head_len..].fill(0);
        let mut image = image_head::inspect(&head[..head_len], self.disk, promise)
            .map_err(|failure| untouched(&stream.url, failure))?;
        if self.needs_efi {
            image_head::refuse_without_efi(&head[..head_len], &image)
                .map_err(|failure| untouched(&stream.url, failure))?;
        }
        if self.needs_partitions {
            image_head::refuse_without_partitions(&image)
                .map_err(|failure| untouched(&stream.url, failure))?;
        }
        let ends = self.ends.borrow();
        ends.refuse_collision(image.end)
            .map_err(|failure| untouched(&stream.url, failure))?;
        let mut kept_numbers = Vec::new();
        let data_end = match (&mut image.gpt, ends.kept()) {
            (Some(table), kept) => {
                table.move_backup_to_end(self.disk.size).map_err(|reason| {
                    let failure = Failure::invalid_image(format!("the image's GPT: {reason}"));
                    untouched(&stream.url, failure)
                })?;
                if let Some(kept) = kept {
                    let numbers = kept
                        .merge_into(table)
                        .map_err(|reason| untouched(&stream.url, cannot_keep(&reason)))?;
                    kept_numbers.extend(numbers.into_iter().map(|(_, new)| new));
                }
                table.backup().0
            }
            (None, Some(_)) => {
                let reason = "the image has no GPT to enter them into";
                return Err(untouched(&stream.url, cannot_keep(&reason)));
            }
            (None, None) => self.disk.size,
        };
        let copies = self.target.loaders();
        if !copies.is_empty() {
            let (table, sector) = (image.gpt.as_ref(), self.disk.sector);
            system_partitions::of_image(table, &head, sector, &kept_numbers)
                .and_then(|of_image| system_partitions::refuse_small(copies, &of_image))
                .map_err(|failure| untouched(&stream.url, failure))?;
        }
        Ok(Plan {
            image,
            head,
            head_len,
            kept: kept_numbers,
            data_end,
        })
    }

    /// Logs what the agent is about to write.
    fn announce(&self, stream: &Stream) {
        tracing::info!(
            "writing {} ({}{}) to {} ({}, {} byte sectors)",
            stream.url,
            stream.packing,
            stream
                .total
                .map_or_else(String::new, |total| format!(", {} to download", mib(total))),
            self.target.path().display(),
            mib(self.disk.size),
            self.disk.sector,
        );
    }

    fn place(&self, stream: &Stream, pipeline: Pipeline, plan: &Plan) -> Result<Placed> {
        self.announce(stream);
        self.wipe()?;
        // The agent writes the image's data only up to the place of the backup GPT. The
        // commit writes the backup GPT.
        let data_end = plan.data_end;
        let mut writer =
            SparseWriter::new(self.target, HEAD_LEN as u64..plan.image.end.min(data_end));
        let mut progress = Progress::new("writing the image", stream.total);
        let mut image_bytes = plan.head_len as u64;
        loop {
            if let Some(line) = progress.at(pipeline.downloaded()) {
                tracing::info!(done = line.done, total = line.total, "{line}");
            }
            match pipeline.next() {
                Ok(Step::Begin(_) | Step::Wait) => {}
                Ok(Step::Unit(mut buffer, len)) => {
                    let offset = image_bytes;
                    image_bytes += len as u64;
                    if image_bytes > self.disk.size {
                        return Err(image_head::too_large(image_bytes, self.disk.size));
                    }
                    self.ends.borrow().refuse_collision(image_bytes)?;
                    let padded = len.next_multiple_of(self.disk.sector as usize);
                    buffer[len..padded].fill(0);
                    // The cast is lossless: at most a unit.
                    let keep = data_end.saturating_sub(offset).min(padded as u64) as usize;
                    if let Some(header) = self.stale_backup(&buffer[..keep], offset) {
                        buffer[header].fill(0);
                    }
                    writer.write(&buffer[..keep], offset)?;
                    pipeline.give_back(buffer);
                }
                Ok(Step::End) => break,
                Err(broken) => return Err(self.diagnose(Some(stream), broken, pipeline)),
            }
        }
        self.target.sync()?;
        let digest = pipeline.digest()?;
        self.source.proof.judge(&stream.url, &digest)?;
        self.check_complete(stream, plan, image_bytes)?;
        self.read_back(image_bytes.min(data_end))?;
        let mut written = writer.written();
        written.data += HEAD_LEN as u64;
        Ok(Placed {
            digest,
            image_bytes,
            format: Format::Raw,
            written,
        })
    }

    /// The range of bytes in `piece` that holds an old backup GPT header. If there is
    /// one, logs a warning; the caller then writes zeros in place of the header. `offset`
    /// is the place of the piece in the image, in bytes.
    fn stale_backup(&self, piece: &[u8], offset: u64) -> Option<Range<usize>> {
        let header = image_head::stale_backup(piece, offset, self.disk)?;
        tracing::warn!(
            "the image has an MBR, but also an old backup GPT header that would be in the disk's last sector: the agent leaves that sector empty"
        );
        Some(header)
    }

    /// Reads back what was written, up to `end`. Does nothing unless `verify` is
    /// set.
    fn read_back(&self, end: u64) -> Result<()> {
        let end = end.next_multiple_of(u64::from(self.disk.sector));
        read_back(self.target, HEAD_LEN as u64..end.max(HEAD_LEN as u64))
    }

    fn check_complete(&self, stream: &Stream, plan: &Plan, image_bytes: u64) -> Result<()> {
        let partitions_end = plan.image.partitions_end;
        if partitions_end <= image_bytes {
            return Ok(());
        }
        Err(Failure::invalid_image(format!(
            "{}: the image is truncated: its partitions end at byte {partitions_end}, it ends at byte {image_bytes}",
            stream.url
        )))
    }

    /// If the digest of the whole download is wrong, returns that failure instead of
    /// the failure of the decoder, because the wrong digest explains why the agent
    /// could not unpack the download.
    fn diagnose(&self, stream: Option<&Stream>, broken: Broken, pipeline: Pipeline) -> Failure {
        let Some(stream) = stream.filter(|_| broken.digest_complete) else {
            return broken.failure;
        };
        match pipeline
            .digest()
            .and_then(|got| self.source.proof.judge(&stream.url, &got))
        {
            Ok(()) => broken.failure,
            Err(mismatch) => Failure {
                details: format!("{}; {}", mismatch.details, broken.failure.details),
                ..mismatch
            },
        }
    }
}

fn untouched(url: &str, failure: Failure) -> Failure {
    Failure {
        details: format!("{url}: {}; the disk was not touched", failure.details),
        ..failure
    }
}

fn cannot_keep(reason: &dyn fmt::Display) -> Failure {
    Failure::deployment(format!("partitions cannot be kept: {reason}"))
}

fn no_head(found: &str) -> Failure {
    Failure::image_write(format!("the image stream began with {found}"))
}

#[cfg(test)]
mod tests;
