//! Looks into the drives of a host that may present virtual media.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use landfall_sys::sysfs;

use super::Places;
use super::media_wait::MediaWait;
use super::side_by_side::{Progress, SideBySide};
use super::volumes::{self, Opened, Volume};

/// In bytes. BMCs present small images as USB disks. A USB disk of this size or more
/// counts as an ordinary disk.
const USB_DISK_LIMIT: u64 = 4 << 30;

/// SCSI's peripheral device type of CD and DVD drives (SPC-4, table 138).
const CD_TYPE: &str = "5";

/// If a drive delivers nothing for this long, the agent uses the other drives without it.
/// The kernel waits 30 s for one command (`SD_TIMEOUT` of Linux' drivers/scsi/sd.h,
/// `SR_TIMEOUT` of sr.c) before it retries, so 10 s remain for the retry.
pub(super) const SILENCE: Duration = Duration::from_secs(40);

/// The drives of a search, which looks into them repeatedly.
#[derive(Debug)]
pub(super) struct Drives<'a> {
    places: &'a Places,
    /// In bytes: a USB disk of this size or more is ignored.
    limit: u64,
    media_wait: MediaWait,
    readers: SideBySide<Opened>,
}

/// What the drives contain.
#[derive(Debug, Default)]
pub(super) struct Look {
    /// Every medium with a file system, in the order of the drives' names. Earlier media
    /// take precedence.
    pub(super) volumes: Vec<Volume>,
    /// A line for each medium whose parser has failed.
    pub(super) faults: Vec<String>,
    /// The drives that do not answer.
    pub(super) silent: BTreeSet<PathBuf>,
}

impl Look {
    /// All faults, including those of the drives that do not answer.
    pub(super) fn all_faults(&self) -> Vec<String> {
        let mut faults = self.faults.clone();
        for node in &self.silent {
            push_silent(&mut faults, node);
        }
        faults
    }
}

/// Adds the fault of a drive that does not answer.
pub(super) fn push_silent(faults: &mut Vec<String>, node: &Path) {
    faults.push(format!(
        "{}: the drive does not answer; its medium is ignored -- eject the medium, or insert it again, and reset this machine",
        node.display()
    ));
}

impl<'a> Drives<'a> {
    /// The drives whose media Ironic or an operator inserts.
    pub(super) fn new(places: &'a Places, media_wait: &MediaWait) -> Self {
        Self::up_to(USB_DISK_LIMIT, places, media_wait)
    }

    /// The drives of [`Self::new`], and USB disks of any size, because an ISO may have
    /// been written to a USB stick.
    pub(super) fn and_sticks(places: &'a Places, media_wait: &MediaWait) -> Self {
        Self::up_to(u64::MAX, places, media_wait)
    }

    fn up_to(limit: u64, places: &'a Places, media_wait: &MediaWait) -> Self {
        let what = "looking for virtual media";
        Self {
            places,
            limit,
            media_wait: media_wait.clone(),
            readers: SideBySide::new(media_wait, places.silence, what),
        }
    }

    /// Looks into all drives at the same time. Waits for every drive until it is ready or
    /// silent for too long: otherwise the speed of the drives would decide which medium
    /// takes precedence.
    pub(super) fn look(&mut self) -> Look {
        let mut look = Look::default();
        for name in self.names() {
            let drive = self.places.sys.join("block").join(&name);
            let node = self.places.dev.join(&name);
            let progress = Progress::new(&self.media_wait);
            let (of_drive, at) = (progress.clone(), node.clone());
            let work = move || volumes::open(&drive, &at, of_drive);
            if !self.readers.start(node.clone(), progress, work) {
                look.silent.insert(node);
            }
        }
        for (node, opened) in self.readers.wait() {
            match opened {
                Ok(volume) => look.volumes.extend(volume),
                Err(fault) => {
                    let node = node.display();
                    look.faults
                        .push(format!("{node}: {fault}; the medium is ignored"));
                }
            }
        }
        look.silent.extend(self.readers.pending().cloned());
        look
    }

    /// The names of the drives, such as `sr0`.
    fn names(&self) -> Vec<String> {
        let block = self.places.sys.join("block");
        let Ok(entries) = fs::read_dir(&block) else {
            return Vec::new();
        };
        entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| may_show_media(&block.join(name), self.limit))
            .collect()
    }
}

/// Whether this is a CD drive, or a USB disk smaller than `limit` bytes.
fn may_show_media(drive: &Path, limit: u64) -> bool {
    if volumes::attribute(drive, "device/type") == CD_TYPE {
        return true;
    }
    let on_usb = fs::canonicalize(drive).is_ok_and(|path| sysfs::is_on_usb(&path));
    // The unit is 512 bytes, whatever the sector size.
    let sectors: u64 = volumes::attribute(drive, "size").parse().unwrap_or(0);
    on_usb && sectors > 0 && sectors < limit / 512
}
