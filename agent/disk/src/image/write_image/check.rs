//! Runs the checks of an installation without writing: reads the whole image.

use landfall_report::Progress;
use landfall_report::failure::Result;

use super::{Work, untouched};
use crate::device::aligned_buffer::AlignedBuffer;
use crate::image::decode::Packing;
use crate::image::format_policy::Format;
use crate::image::image_head::{self, Promise};
use crate::image::pipeline::{Pipeline, Step, Stream, UNIT};
use crate::image::qcow2::assembly::Assembly;
use crate::image::qcow2::window::Piece;
use crate::tables::gpt::HEAD_LEN;

/// The disk inside a qcow2 file. Needed until its first MiB is assembled and
/// checked.
struct Inside {
    assembly: Assembly,
    size: u64,
}

impl Work<'_> {
    /// Reads the image to its end and checks its first MiB, its length and its
    /// digest.
    pub(super) fn check(&self, pipeline: Pipeline) -> Result<()> {
        let (stream, pipeline, first) = self.first_unit(pipeline)?;
        let format = Format::of(&first.0[..first.1])
            .and_then(|format| self.source.formats.check(format).map(|()| format))
            .map_err(|failure| untouched(&stream.url, failure))?;
        let mut bytes = first.1 as u64;
        let (mut inside, mut plan) = (None, None);
        match format {
            Format::Qcow2 => {
                let (assembly, size) = self.open_qcow2(&stream, &first.0[..first.1])?;
                let mut disk = Inside { assembly, size };
                let done = self.look_inside(&stream, &mut disk, Piece::new(0, first.0, first.1))?;
                pipeline.give_back(done.buffer);
                inside = (!done.is_judged).then_some(disk);
            }
            Format::Raw => {
                let promise = Promise {
                    exact: (stream.packing == Packing::Raw)
                        .then_some(stream.total)
                        .flatten(),
                    at_least: stream.promised,
                };
                plan = Some(self.plan(&stream, first, promise)?);
            }
        }
        let mut progress = Progress::new("checking the image", stream.total);
        loop {
            if let Some(line) = progress.at(pipeline.downloaded()) {
                tracing::info!(done = line.done, total = line.total, "{line}");
            }
            match pipeline.next() {
                Ok(Step::Begin(_) | Step::Wait) => {}
                Ok(Step::Unit(buffer, len)) => {
                    let offset = bytes;
                    bytes += len as u64;
                    if format == Format::Raw && bytes > self.disk.size {
                        return Err(image_head::too_large(bytes, self.disk.size));
                    }
                    let buffer = match &mut inside {
                        Some(disk) => {
                            let piece = Piece::new(offset, buffer, len);
                            let done = self.look_inside(&stream, disk, piece)?;
                            if done.is_judged {
                                inside = None;
                            }
                            done.buffer
                        }
                        None => buffer,
                    };
                    pipeline.give_back(buffer);
                }
                Ok(Step::End) => break,
                Err(broken) => return Err(self.diagnose(Some(&stream), broken, pipeline)),
            }
        }
        let digest = pipeline.digest()?;
        self.source.proof.judge(&stream.url, &digest)?;
        match &plan {
            Some(plan) => {
                self.ends.borrow().refuse_collision(bytes)?;
                self.check_complete(&stream, plan, bytes)
            }
            None => Ok(()),
        }
    }

    fn look_inside(&self, stream: &Stream, disk: &mut Inside, piece: Piece) -> Result<Looked> {
        let done = disk.assembly.take(piece)?;
        let buffer = done.unwrap_or_else(|| AlignedBuffer::zeroed(UNIT));
        let Some((head, len)) = disk.assembly.head() else {
            return Ok(Looked {
                buffer,
                is_judged: false,
            });
        };
        let promise = Promise {
            exact: Some(disk.size),
            at_least: None,
        };
        let head = AlignedBuffer::padded(head, HEAD_LEN);
        let plan = self.plan(stream, (head, len), promise)?;
        self.check_complete(stream, &plan, disk.size)?;
        Ok(Looked {
            buffer,
            is_judged: true,
        })
    }
}

struct Looked {
    /// A buffer that the pipeline can reuse.
    buffer: AlignedBuffer,
    /// Whether the first MiB of the disk inside the image is complete and has passed
    /// the checks.
    is_judged: bool,
}
