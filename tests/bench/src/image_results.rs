//! The results of writing images: the runs of every case, and the values computed from
//! them.

use super::image::Form;
use super::measured::Usage;
use super::median;
use super::writers::{Target, Writer};

/// How many connections break in the run that counts bytes fetched again.
pub(super) const BREAKS: u64 = 20;

/// One case: the program, the form of the image, and the target.
pub(super) type Case = (Writer, Form, Target);

#[derive(Debug)]
pub(super) struct Measured {
    pub(super) case: Case,
    pub(super) runs: Vec<Usage>,
}

impl Measured {
    pub(super) fn of(&self, value: impl Fn(&Usage) -> f64) -> Vec<f64> {
        self.runs.iter().map(value).collect()
    }

    /// Processor time in seconds.
    pub(super) fn cpu(&self) -> f64 {
        median(&self.of(|run| run.cpu.as_secs_f64()))
    }

    /// Processor time in seconds, including the kernel's threads.
    pub(super) fn cpu_with_kernel(&self) -> f64 {
        median(&self.of(|run| (run.cpu + run.kernel).as_secs_f64()))
    }

    /// Wall time in seconds.
    pub(super) fn wall(&self) -> f64 {
        median(&self.of(|run| run.wall.as_secs_f64()))
    }

    /// Peak memory in MiB.
    pub(super) fn memory(&self) -> f64 {
        median(&self.of(memory_mib))
    }

    /// Bytes sent to block devices.
    pub(super) fn written(&self) -> f64 {
        median(&self.of(|run| run.written as f64))
    }

    /// Processor time of the busiest thread in seconds. The whole run cannot take less
    /// time than this thread.
    pub(super) fn slowest_stage(&self) -> f64 {
        median(&self.of(|run| {
            let slowest = run.slowest_thread();
            slowest.map_or(0.0, |thread| thread.1.as_secs_f64())
        }))
    }

    /// The shortest possible wall time in seconds for these stages on this number
    /// of processors.
    pub(super) fn bound(&self, processors: f64) -> f64 {
        self.slowest_stage().max(self.cpu() / processors)
    }
}

pub(super) fn memory_mib(run: &Usage) -> f64 {
    run.memory as f64 / f64::from(1 << 20)
}

pub(super) struct Results {
    pub(super) measured: Vec<Measured>,
    /// Bytes of the image in granules that are not all zero.
    pub(super) data_bytes: f64,
    /// Bytes fetched again for each broken connection, on average.
    pub(super) again: f64,
    pub(super) processors: f64,
    /// Seconds that the digest of the raw image takes by itself.
    pub(super) digest_alone: Option<f64>,
}

impl Results {
    /// The runs in which `writer` wrote this form to the disk. `None` if this case was
    /// not run.
    pub(super) fn of(&self, writer: Writer, form: Form) -> Option<&Measured> {
        let case = (writer, form, Target::Disk);
        self.measured.iter().find(|measured| measured.case == case)
    }
}
