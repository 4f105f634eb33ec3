//! Writes a qcow2 image: the first pass reads the whole file and computes its
//! digest, later passes fetch the parts that the first pass could not use yet.

use std::num::NonZero;
use std::thread;

use landfall_download::digest::Computed;
use landfall_download::fetch::{Download, shown};
use landfall_report::failure::{Failure, Result};
use landfall_report::{Progress, mib};

use super::piece_reader::PieceReader;
use super::{Placed, Plan, Work, untouched};
use crate::device::aligned_buffer::AlignedBuffer;
use crate::image::decode::Packing;
use crate::image::format_policy::Format;
use crate::image::image_head::{self, Promise};
use crate::image::pipeline::{Pipeline, Step, Stream, UNIT};
use crate::image::qcow2::assembly::{Assembly, Next, Sink};
use crate::image::qcow2::header::Header;
use crate::image::qcow2::window::{Piece, fingerprint};
use crate::image::sparse_write::SparseWriter;
use crate::tables::gpt::HEAD_LEN;

/// A qcow2 file of unknown length may be at most this many times as long as the target
/// disk. It may be longer than that disk, because it may have snapshots. The limit stops
/// a stream that has no end.
const MOST_STATES: u64 = 32;

impl Work<'_> {
    /// Writes the disk inside a qcow2 file to the target, except for its first MiB.
    /// `first` is the first unit of the file.
    pub(super) fn write_qcow2(
        &self,
        stream: &Stream,
        pipeline: Pipeline,
        first: (AlignedBuffer, usize),
    ) -> Result<(Plan, Placed)> {
        let mut inner = Inner::open(self, stream, &first.0[..first.1], Purpose::Write)?;
        let digest = self.all_passes(stream, pipeline, &mut inner, first)?;
        let (plan, mut disk) = inner.begun.ok_or_else(|| no_first_mib(stream))?;
        disk.writer.finish(disk.end)?;
        self.target.sync()?;
        self.read_back(disk.end)?;
        let mut written = disk.writer.written();
        written.data += HEAD_LEN as u64;
        let placed = Placed {
            digest,
            image_bytes: inner.size,
            format: Format::Qcow2,
            written,
        };
        Ok((plan, placed))
    }

    /// Does everything except writing: reads the file to its end. If the first MiB of the
    /// disk inside is not known then, reads parts of the file again until it is.
    pub(super) fn check_qcow2(
        &self,
        stream: &Stream,
        pipeline: Pipeline,
        first: (AlignedBuffer, usize),
    ) -> Result<()> {
        let mut inner = Inner::open(self, stream, &first.0[..first.1], Purpose::Check)?;
        self.all_passes(stream, pipeline, &mut inner, first)?;
        if inner.is_checked {
            Ok(())
        } else {
            Err(no_first_mib(stream))
        }
    }

    /// Reads the file until `inner` needs no more data. Returns the digest of the file.
    /// Fails if the file does not have the expected digest.
    fn all_passes(
        &self,
        stream: &Stream,
        pipeline: Pipeline,
        inner: &mut Inner<'_>,
        first: (AlignedBuffer, usize),
    ) -> Result<Computed> {
        let digest = self.whole_file(stream, pipeline, inner, Some(first))?;
        self.source.proof.judge(&stream.url, &digest)?;
        while !inner.is_done() && inner.assembly.begin_pass()? {
            if stream.packing != Packing::Raw || !self.ranges(stream, inner)? {
                self.file_again(stream, inner, &digest)?;
            }
        }
        Ok(digest)
    }

    /// Parses the header. Returns the assembly of the clusters and the size of the
    /// disk inside. Does not touch the target.
    fn open_qcow2(&self, stream: &Stream, start: &[u8]) -> Result<(Assembly, u64)> {
        let invalid = |reason: String| {
            let failure = Failure::invalid_image(format!("the qcow2 image: {reason}"));
            untouched(&stream.url, failure)
        };
        let header = Header::parse(start).map_err(|reason| {
            invalid(reason.to_string())
                .hint("convert it to an ordinary qcow2 image: qemu-img convert -O qcow2 IMAGE image.qcow2")
        })?;
        if header.size > self.disk.size {
            return Err(image_head::too_large(header.size, self.disk.size));
        }
        if header.allocation_unit() < u64::from(self.disk.sector) {
            return Err(invalid(format!(
                "its allocation units of {} bytes are smaller than the disk's sectors of {} bytes",
                header.allocation_unit(),
                self.disk.sector
            ))
            .hint("convert it to larger clusters: qemu-img convert -O qcow2 IMAGE image.qcow2"));
        }
        if let Some(suspicion) = header.suspicion {
            tracing::warn!("{}: the qcow2 image {suspicion}", stream.url);
        }
        let file_len = stream.total.filter(|_| stream.packing == Packing::Raw);
        let threads = thread::available_parallelism().map_or(1, NonZero::get);
        let size = header.size;
        Ok((Assembly::new(header, file_len, threads)?, size))
    }

    /// Reads the file to its end and passes every piece to `inner`. `unit` is the
    /// first unit if the caller has already taken it from the pipeline.
    fn whole_file(
        &self,
        stream: &Stream,
        pipeline: Pipeline,
        inner: &mut Inner<'_>,
        mut unit: Option<(AlignedBuffer, usize)>,
    ) -> Result<Computed> {
        let mut progress = Progress::new(inner.purpose.words(), stream.total);
        let mut offset = 0;
        loop {
            if let Some(line) = progress.at(pipeline.downloaded()) {
                tracing::info!(done = line.done, total = line.total, "{line}");
            }
            if let Some((buffer, len)) = unit.take() {
                self.refuse_endless(stream, offset + len as u64)?;
                let done = inner.take(Piece::new(offset, buffer, len))?;
                offset += len as u64;
                // If the assembly keeps a buffer, the pipeline gets a new one in its
                // place.
                pipeline.give_back(done.unwrap_or_else(|| AlignedBuffer::zeroed(UNIT)));
            }
            match pipeline.next() {
                Ok(Step::Begin(_) | Step::Wait) => {}
                Ok(Step::Unit(buffer, len)) => unit = Some((buffer, len)),
                Ok(Step::End) => break,
                Err(broken) => return Err(self.diagnose(Some(stream), broken, pipeline)),
            }
        }
        inner.file_ends()?;
        pipeline.digest()
    }

    /// Fails if a file of unknown length has too many bytes.
    fn refuse_endless(&self, stream: &Stream, bytes: u64) -> Result<()> {
        let knows_length = stream.packing == Packing::Raw && stream.total.is_some();
        let most = self.disk.size.saturating_mul(MOST_STATES);
        if knows_length || bytes <= most {
            return Ok(());
        }
        Err(Failure::invalid_image(format!(
            "the qcow2 image: expected at most {most} bytes, {MOST_STATES} times the size of the disk, found more"
        ))
        .hint("remove its snapshots: qemu-img convert -O qcow2 IMAGE image.qcow2"))
    }

    /// Reads the whole file again, because it is packed or because a piece has no
    /// fingerprint. Fails if the digest differs from that of the first pass.
    fn file_again(&self, stream: &Stream, inner: &mut Inner<'_>, first: &Computed) -> Result<()> {
        tracing::info!("{}: reading the image once more", stream.url);
        let (request, client) = (self.source.request.clone(), self.client.clone());
        let download = Download::again(request, client, stream.place.clone(), 0)?;
        let pipeline = Pipeline::start(download, self.source.proof.hashing(), self.disk.size)?;
        let digest = self.whole_file(stream, pipeline, inner, None)?;
        if digest == *first {
            Ok(())
        } else {
            Err(changed(&stream.url, 0))
        }
    }

    /// Fetches the pieces that one pass needs. Returns `false` as soon as it needs a
    /// piece that has no fingerprint.
    fn ranges(&self, stream: &Stream, inner: &mut Inner<'_>) -> Result<bool> {
        let mut reader = PieceReader::new(self, stream);
        let mut spare = None;
        let complete = loop {
            if inner.is_done() {
                break true;
            }
            let (offset, expected) = match inner.assembly.next(inner.begun.is_some()) {
                Next::Nothing => break true,
                Next::WholeFile => break false,
                Next::Piece(offset, expected) => (offset, expected),
            };
            let buffer = spare.take().unwrap_or_else(|| AlignedBuffer::zeroed(UNIT));
            let piece = reader.piece(offset, buffer)?;
            if fingerprint(piece.bytes()) != expected {
                return Err(changed(&stream.url, offset));
            }
            spare = inner.take(piece)?;
        };
        tracing::info!("{}: fetched {} again", stream.url, mib(reader.received));
        Ok(complete)
    }
}

fn changed(url: &str, offset: u64) -> Failure {
    Failure::image_download(format!(
        "{}: the file changed on the server: read a second time, it differs from byte {offset} on",
        shown(url)
    ))
    .hint("deploy again: the new file must be read from its start")
}

fn no_first_mib(stream: &Stream) -> Failure {
    Failure::image_write(format!("{}: the first MiB was not found", stream.url))
}

/// The purpose of reading the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Write,
    /// Checks the first MiB and the digest, and leaves the target unchanged.
    Check,
}

impl Purpose {
    /// The text for the progress on the console.
    fn words(self) -> &'static str {
        match self {
            Self::Write => "writing the image",
            Self::Check => "checking the image",
        }
    }
}

struct Inner<'a> {
    work: &'a Work<'a>,
    stream: &'a Stream,
    purpose: Purpose,
    size: u64,
    assembly: Assembly,
    /// Whether the first MiB is known and fits the target.
    is_checked: bool,
    /// Set once the first MiB is checked. Stays `None` for [`Purpose::Check`].
    begun: Option<(Plan, InnerDisk<'a>)>,
}

impl<'a> Inner<'a> {
    /// Parses the header. Does not touch the target.
    fn open(
        work: &'a Work<'a>,
        stream: &'a Stream,
        start: &[u8],
        purpose: Purpose,
    ) -> Result<Self> {
        let (assembly, size) = work.open_qcow2(stream, start)?;
        Ok(Self {
            work,
            stream,
            purpose,
            size,
            assembly,
            is_checked: false,
            begun: None,
        })
    }

    /// Whether the rest of the file matters only for the digest.
    fn is_done(&self) -> bool {
        self.is_checked && self.purpose == Purpose::Check
    }

    fn take(&mut self, piece: Piece) -> Result<Option<AlignedBuffer>> {
        if self.is_done() {
            return Ok(Some(piece.into_buffer()));
        }
        let done = self.assembly.take(piece)?;
        self.write()?;
        Ok(done)
    }

    fn file_ends(&mut self) -> Result<()> {
        if self.is_done() {
            return Ok(());
        }
        self.assembly.file_ends()?;
        self.write()
    }

    fn write(&mut self) -> Result<()> {
        if !self.is_checked {
            self.begin()?;
        }
        match &mut self.begun {
            Some((_, disk)) => self.assembly.write(disk),
            None => Ok(()),
        }
    }

    /// Checks the first MiB as soon as it is known. If the image is to be written,
    /// also wipes both ends of the target.
    fn begin(&mut self) -> Result<()> {
        let Some((head, len)) = self.assembly.head() else {
            return Ok(());
        };
        let promise = Promise {
            exact: Some(self.size),
            at_least: None,
        };
        let head = AlignedBuffer::padded(head, HEAD_LEN);
        let plan = self.work.plan(self.stream, (head, len), promise)?;
        self.work.check_complete(self.stream, &plan, self.size)?;
        self.is_checked = true;
        if self.purpose == Purpose::Check {
            return Ok(());
        }
        self.work.announce(self.stream);
        self.work.wipe()?;
        let sector = u64::from(self.work.disk.sector);
        let end = self.size.next_multiple_of(sector).min(plan.data_end);
        let disk = InnerDisk {
            work: self.work,
            writer: SparseWriter::new(self.work.target, HEAD_LEN as u64..end),
            end,
            sector: sector as usize,
        };
        self.begun = Some((plan, disk));
        Ok(())
    }
}

struct InnerDisk<'a> {
    work: &'a Work<'a>,
    writer: SparseWriter<'a>,
    /// End of the writable range in bytes: nothing is written from this offset on.
    end: u64,
    sector: usize,
}

impl Sink for InnerDisk<'_> {
    fn put(&mut self, guest: u64, bytes: &[u8]) -> Result<()> {
        let room = self.end.saturating_sub(guest);
        // At most `bytes.len()`, so the cast is lossless.
        let bytes = &bytes[..room.min(bytes.len() as u64) as usize];
        if bytes.is_empty() {
            Ok(())
        } else if let Some(header) = self.work.stale_backup(bytes, guest) {
            let mut rest = AlignedBuffer::padded(bytes, self.sector);
            rest[header].fill(0);
            self.writer.write(&rest, guest)
        } else if bytes.len().is_multiple_of(self.sector) {
            self.writer.write(bytes, guest)
        } else {
            // The last bytes of the disk inside, or of a file that ends early.
            let padded = AlignedBuffer::padded(bytes, self.sector);
            self.writer.write(&padded, guest)
        }
    }
}
