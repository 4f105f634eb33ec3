//! An image from a URL to a disk, in an order that never leaves a disk that
//! boots a half-written or unverified system:
//!
//! 1. the first MiB is unpacked and judged; nothing is written before that;
//! 2. first and last MiB of the disk are wiped and flushed;
//! 3. the image is written from its second MiB on, and flushed;
//! 4. its checksum and length are compared.
//!
//! What comes out is a [`ProvenImage`]: its first MiB (boot code, MBR, GPT) is
//! still in memory and written by its `commit`, with the GPT corrected for this
//! disk. Whatever fails after step 1 ends with first and last MiB wiped.
//!
//! Where partitions are kept, these ends hold a table of them alone (`ends.rs`),
//! and the image is refused, or ends, before their first byte.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::time::Instant;

use crate::disk::aligned_buffer::AlignedBuffer;
use crate::disk::decode::Packing;
use crate::disk::digest::Computed;
use crate::disk::ends::Ends;
use crate::disk::fetch::{Download, Patience, Request};
use crate::disk::format_policy::{Format, FormatPolicy};
use crate::disk::image_head::{self, Geometry, HEAD_LEN, Image, Promise};
use crate::disk::pipeline::{Broken, Pipeline, Step, Stream, UNIT};
use crate::disk::proof::Proof;
use crate::disk::proven_image::{ProvenImage, WrittenImage};
use crate::disk::saved_partitions::PartitionFilter;
use crate::disk::sparse_write::{SparseWriter, Written};
use crate::disk::target::Target;
use crate::failure::{Class, Failure, Result};
use crate::report::{Progress, mib};

/// First and last MiB and something between.
const SMALLEST_DISK: u64 = 4 << 20;

/// Where an image comes from and what it must be.
#[derive(Debug, Clone)]
pub struct ImageSource {
    /// The same image in several places.
    pub urls: Vec<String>,
    /// What shows that it is the right one.
    pub proof: Proof,
    /// The complete value of an `Authorization` header.
    pub authorization: Option<String>,
    /// How long to bear with the server.
    pub patience: Patience,
    /// Which formats are permitted.
    pub formats: FormatPolicy,
}

/// How to write it, besides what every image needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Partitions of the disk that meet any of these stay as they are.
    pub saved: Vec<PartitionFilter>,
    /// After a failure the disk is left as it is then.
    pub preserve_on_error: bool,
    /// Everything written is read back before the image becomes visible.
    pub verify: bool,
    /// An image that UEFI cannot boot is refused.
    pub needs_efi: bool,
    /// An image without a GPT is refused, and one whose partitions could not be used
    /// before the commit: something in them is to be changed.
    pub needs_partitions: bool,
}

/// Writes the image to the disk, all but its first MiB.
///
/// # Errors
/// Nothing has been touched when the failure is that the image does not belong
/// on this disk; after any other failure the disk does not boot, and saved
/// partitions are what they were.
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
    let ends = Ends::find(&mut target, &options.saved, options.preserve_on_error)?;
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
                url: stream.url.clone(),
                packing: stream.packing,
                qcow2: placed.qcow2,
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

/// Does all of it but writing: reads the image to its end, and compares its digest.
/// The target may be open for reading alone.
///
/// # Errors
/// What [`write_image_with`] would fail with, as far as the image and the size of the
/// disk tell it.
pub fn check_image(
    source: &ImageSource,
    options: &WriteOptions,
    mut target: Target,
    client: &reqwest::Client,
) -> Result<()> {
    let ends = Ends::find(&mut target, &options.saved, options.preserve_on_error)?;
    let work = Work::new(source, options, &target, ends, client)?;
    let pipeline = work.pipeline()?;
    work.check(pipeline)
}

/// The first MiB as it will be on the disk, and the end that belongs to it.
struct Plan {
    image: Image,
    head: AlignedBuffer,
    head_len: usize,
    /// The numbers of kept partitions in the image's table.
    kept: Vec<u32>,
    /// Where the backup GPT begins that will be written with the table; else
    /// the end of the disk.
    data_end: u64,
}

struct Placed {
    digest: Computed,
    image_bytes: u64,
    qcow2: bool,
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
    /// Whether anything of the disk's former content is gone.
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
        let download = Download::start(self.request(), self.client.clone())?;
        Pipeline::start(download, self.source.proof.hashing(), self.disk.size)
    }

    fn request(&self) -> Request {
        Request {
            urls: self.source.urls.clone(),
            authorization: self.source.authorization.clone(),
            checked: !self.source.proof.is_nothing(),
            packed: true,
            patience: self.source.patience.clone(),
        }
    }

    fn write(&self, pipeline: Pipeline) -> Result<(Stream, Plan, Placed)> {
        let (stream, pipeline, first) = self.first_unit(pipeline)?;
        let format = Format::of(&first.0[..first.1])
            .and_then(|format| self.source.formats.check(format).map(|()| format))
            .map_err(|failure| untouched(&stream.url, failure))?;
        if format == Format::Qcow2 {
            let (plan, placed) = self.write_qcow2(&stream, pipeline, first)?;
            return Ok((stream, plan, placed));
        }
        let promise = Promise {
            exact: (stream.packing == Packing::Raw)
                .then_some(stream.total)
                .flatten(),
            at_least: stream.promised,
        };
        let plan = self.plan(&stream, first, promise)?;
        let placed = self.place(&stream, pipeline, &plan)?;
        Ok((stream, plan, placed))
    }

    /// Whatever fails from here on leaves a disk that does not boot.
    fn wipe(&self) -> Result<()> {
        self.touched.set(true);
        self.ends.borrow_mut().clear(self.target)
    }

    /// The first unit of the image; an empty one if the image is empty.
    fn first_unit(&self, pipeline: Pipeline) -> Result<(Stream, Pipeline, (AlignedBuffer, usize))> {
        let mut begun = None;
        let mut progress = Progress::new("fetching the image", None);
        loop {
            if let Some(line) = progress.at(pipeline.downloaded()) {
                tracing::info!("{line}");
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

    /// Judges the image by its first unit. Touches nothing.
    fn plan(
        &self,
        stream: &Stream,
        (mut head, head_len): (AlignedBuffer, usize),
        promise: Promise,
    ) -> Result<Plan> {
        // A unit is given back full of other bytes.
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
                    Failure::new(Class::InvalidImage, format!("the image's GPT: {reason}"))
                })?;
                if let Some(kept) = kept {
                    let numbers = kept
                        .merge_into(table)
                        .map_err(|reason| untouched(&stream.url, cannot_keep(reason)))?;
                    kept_numbers.extend(numbers.into_iter().map(|(_, new)| new));
                }
                table.backup().0
            }
            (None, Some(_)) => {
                let reason = "the image has no GPT that they could be entered into".to_owned();
                return Err(untouched(&stream.url, cannot_keep(reason)));
            }
            (None, None) => self.disk.size,
        };
        Ok(Plan {
            image,
            head,
            head_len,
            kept: kept_numbers,
            data_end,
        })
    }

    /// Says what begins now.
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
        // The backup GPT's place gets our backup GPT and nothing before.
        let data_end = plan.data_end;
        let mut writer =
            SparseWriter::new(self.target, HEAD_LEN as u64..plan.image.end.min(data_end));
        let mut progress = Progress::new("writing the image", stream.total);
        let mut image_bytes = plan.head_len as u64;
        loop {
            if let Some(line) = progress.at(pipeline.downloaded()) {
                tracing::info!("{line}");
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
                    // Less than a unit: fits any usize.
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
            qcow2: false,
            written,
        })
    }

    /// What of a piece must not be on the disk, nor is of use there.
    fn stale_backup(&self, piece: &[u8], offset: u64) -> Option<Range<usize>> {
        let header = image_head::stale_backup(piece, offset, self.disk)?;
        tracing::warn!(
            "the image has an MBR, and in the disk's last sector the backup of a GPT that it has no more: that sector is left empty"
        );
        Some(header)
    }

    /// Does nothing unless it was asked for. `end`: of what was written.
    fn read_back(&self, end: u64) -> Result<()> {
        let end = end.next_multiple_of(u64::from(self.disk.sector));
        self.target
            .read_back(HEAD_LEN as u64..end.max(HEAD_LEN as u64))
    }

    fn check_complete(&self, stream: &Stream, plan: &Plan, image_bytes: u64) -> Result<()> {
        let partitions_end = plan.image.partitions_end;
        if partitions_end <= image_bytes {
            return Ok(());
        }
        Err(Failure::new(
            Class::InvalidImage,
            format!(
                "{}: the image is truncated: its partitions end at byte {partitions_end}, it ends at byte {image_bytes}",
                stream.url
            ),
        ))
    }

    /// The better explanation of two: when the whole download has the wrong
    /// checksum, then that is why it could not be unpacked.
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

fn cannot_keep(reason: String) -> Failure {
    Failure::new(
        Class::DeploymentError,
        format!("partitions cannot be kept: {reason}"),
    )
}

fn no_head(found: &str) -> Failure {
    Failure::new(
        Class::ImageWriteError,
        format!("the image stream began with {found}"),
    )
}

mod check;
mod piece_reader;
mod qcow2;
#[cfg(test)]
mod tests;
