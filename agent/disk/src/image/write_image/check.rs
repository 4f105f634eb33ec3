//! Runs the checks of an installation without writing: reads the whole image.

use landfall_report::Progress;
use landfall_report::failure::Result;

use super::Work;
use crate::device::aligned_buffer::AlignedBuffer;
use crate::image::format_policy::Format;
use crate::image::image_head;
use crate::image::pipeline::{Pipeline, Step, Stream};

impl Work<'_> {
    /// Reads the image to its end and checks its first MiB, its length and its
    /// digest.
    pub(super) fn check(&self, pipeline: Pipeline) -> Result<()> {
        let (stream, pipeline, first) = self.first_unit(pipeline)?;
        match self.permitted_format(&stream, &first)? {
            Format::Qcow2 => self.check_qcow2(&stream, pipeline, first),
            Format::Raw => self.check_raw(&stream, pipeline, first),
        }
    }

    fn check_raw(
        &self,
        stream: &Stream,
        pipeline: Pipeline,
        first: (AlignedBuffer, usize),
    ) -> Result<()> {
        let mut bytes = first.1 as u64;
        let plan = self.plan_of_raw(stream, first)?;
        let mut progress = Progress::new("checking the image", stream.total);
        loop {
            if let Some(line) = progress.at(pipeline.downloaded()) {
                tracing::info!(done = line.done, total = line.total, "{line}");
            }
            match pipeline.next() {
                Ok(Step::Begin(_) | Step::Wait) => {}
                Ok(Step::Unit(buffer, len)) => {
                    bytes += len as u64;
                    if bytes > self.disk.size {
                        return Err(image_head::too_large(bytes, self.disk.size));
                    }
                    pipeline.give_back(buffer);
                }
                Ok(Step::End) => break,
                Err(broken) => return Err(self.diagnose(Some(stream), broken, pipeline)),
            }
        }
        let digest = pipeline.digest()?;
        self.source.proof.judge(&stream.url, &digest)?;
        self.ends.borrow().refuse_collision(bytes)?;
        self.check_complete(stream, &plan, bytes)
    }
}
