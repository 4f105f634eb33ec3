//! Finds another path on which to continue when a path fails.
//!
//! A storage array with asymmetric access (ALUA, SPC-4, 5.15.2) may answer reads and
//! writes only on the ports of one controller. If this controller fails, the array itself
//! activates the ports of the other controller, which takes seconds. Until then each
//! request on those ports fails. The agent does not send the command for this change
//! (SET TARGET PORT GROUPS).

use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use landfall_sys::block_ioctl;

use super::content::Shown;
use super::{OpenPath, OpenPaths};

/// How long the agent waits for paths that cannot be read. The kernel's
/// `ALUA_FAILOVER_TIMEOUT` (drivers/scsi/device_handler/scsi_dh_alua.c) has the same
/// value.
pub(super) const WAIT_LIMIT: Duration = Duration::from_secs(60);
/// How many times the agent reads the paths in this time.
const TRIES: u32 = 60;

/// The result of checking a path.
enum Verdict {
    SameDisk,
    /// The path must not be used, for this reason.
    Unproven(&'static str),
    /// The path may become readable.
    Unreadable(io::Error),
}

impl OpenPaths {
    /// Returns the first untried path that leads to the disk. Removes this path from
    /// the list, together with the earlier paths that must not be used. Waits up to
    /// `wait_limit` for paths that cannot be read; after one whole wait in vain it never
    /// waits again.
    pub(super) fn next(
        &self,
        untried: &mut Vec<usize>,
        failed: &OpenPath,
        error: &io::Error,
    ) -> Option<usize> {
        let not_used = |path: &OpenPath, reason: &str| {
            tracing::warn!(
                "{}: not used instead of {}, which failed ({error}): {reason}",
                path.path.display(),
                failed.path.display()
            );
        };
        let mut began = None;
        loop {
            let mut unreadable = Vec::new();
            while !untried.is_empty() {
                let index = untried.remove(0);
                let path = self.path(index);
                match self.judge(path) {
                    Verdict::SameDisk => {
                        untried.splice(0..0, unreadable.into_iter().map(|(index, _)| index));
                        return Some(index);
                    }
                    Verdict::Unproven(reason) => not_used(path, reason),
                    Verdict::Unreadable(reason) => unreadable.push((index, reason)),
                }
            }
            let (first, _) = unreadable.first()?;
            if began.is_none() && !self.has_waited.load(Ordering::Relaxed) {
                tracing::warn!(
                    "{}: this path to the disk failed ({error}), waiting up to {} s until {} can be read",
                    failed.path.display(),
                    self.wait_limit.as_secs(),
                    self.path(*first).path.display()
                );
            }
            let waited = began.get_or_insert_with(Instant::now).elapsed();
            if waited >= self.wait_limit || self.has_waited.load(Ordering::Relaxed) {
                self.has_waited.store(true, Ordering::Relaxed);
                for (index, reason) in unreadable {
                    not_used(self.path(index), &format!("it cannot be read ({reason})"));
                }
                return None;
            }
            thread::sleep(self.wait_limit / TRIES);
            for (index, _) in unreadable {
                ask_for_state(&self.path(index).path);
                untried.push(index);
            }
        }
    }

    fn judge(&self, path: &OpenPath) -> Verdict {
        // The kernel sets the size of a removed disk to 0. This open file cannot be used
        // again, even if the disk returns.
        if matches!(block_ioctl::size_bytes(&path.file), Ok(0)) {
            return Verdict::Unproven("it went away");
        }
        if !self.is_changed.load(Ordering::Relaxed) {
            return match path.is_compared && !self.needs_proof {
                true => Verdict::SameDisk,
                false => Verdict::Unproven("nothing proves that it leads to the same disk"),
            };
        }
        let shows_mark = path.shows_mark.get();
        if shows_mark == Some(&false) {
            return Verdict::Unproven("it leads to another disk");
        }
        match self.written.shown_on(&path.file) {
            Ok(Shown::Proof) => Verdict::SameDisk,
            Ok(Shown::Nothing) if shows_mark == Some(&true) => Verdict::SameDisk,
            Ok(Shown::Nothing) => {
                Verdict::Unproven("nothing proves that it leads to the same disk")
            }
            Ok(Shown::OtherContent) => Verdict::Unproven("it does not show what was written"),
            Err(error) => Verdict::Unreadable(error),
        }
    }
}

/// Makes the kernel query the state of a SCSI path again. Nothing else does so, and
/// `alua_prep_fn` of scsi_dh_alua.c rejects each read of a path that was on standby.
fn ask_for_state(path: &Path) {
    if let Some(name) = path.file_name() {
        let block = Path::new("/sys/class/block").join(name);
        // The directory of a partition is in the directory of its disk.
        let rescan = match block.join("partition").exists() {
            true => "../device/rescan",
            false => "device/rescan",
        };
        // Disks that are not SCSI have no file `rescan`. The next read shows whether the
        // path works.
        let _ = fs::write(block.join(rescan), "1");
    }
}
