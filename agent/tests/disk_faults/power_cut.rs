//! Power fails while the program writes an image: after any disk request, with any
//! subset of the unflushed requests done, in whole or in part, in any order. The
//! test records one write and derives the possible disk contents from the record.

use landfall_disk::fixtures::{Answer, Change, FaultyDisk};
use landfall_http_client::fixtures::Server;
use landfall_sys::loop_device::loop_device;
use landfall_sys::skip::skip;

use crate::firmware_view::Found;
use crate::program;
use crate::system_image::{full_system_image, system_image};

const MIB: usize = 1 << 20;
const IMAGE: usize = 4 * MIB;
const SECTOR: usize = 512;
/// The number of random subsets of the unflushed changes that are tried after
/// each request.
const CHOICES: u64 = 16;

/// The disk during the write. A power cut cannot change `medium`, but any change in
/// `unflushed` may be lost.
struct Cache {
    medium: Vec<u8>,
    unflushed: Vec<Change>,
}

/// One possible content of the disk after a power cut.
struct Cut {
    content: Vec<u8>,
    when: String,
}

/// A xorshift generator, which makes the same choices in each run.
fn dice(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

impl Cache {
    /// Returns the medium with some of the unflushed changes applied, in random
    /// order, some of them torn. A single sector is never torn: disks guarantee
    /// that.
    fn lose_some(&self, seed: &mut u64) -> Vec<u8> {
        let mut content = self.medium.clone();
        let mut kept: Vec<&Change> = self.unflushed.iter().collect();
        for place in (1..kept.len()).rev() {
            kept.swap(place, dice(seed) as usize % (place + 1));
        }
        kept.truncate(dice(seed) as usize % (kept.len() + 1));
        for change in kept {
            match change {
                Change::Write(offset, bytes) if dice(seed).is_multiple_of(2) => {
                    for (index, sector) in bytes.chunks(SECTOR).enumerate() {
                        if dice(seed).is_multiple_of(2) {
                            let at = *offset as usize + index * SECTOR;
                            content[at..at + sector.len()].copy_from_slice(sector);
                        }
                    }
                }
                change => change.apply(&mut content),
            }
        }
        content
    }
}

/// Passes `CHOICES` possible disk contents after each request to `judge`.
fn cuts(before: &[u8], changes: Vec<Change>, mut judge: impl FnMut(Cut)) {
    let mut cache = Cache {
        medium: before.to_vec(),
        unflushed: Vec::new(),
    };
    let mut seed = 0x9e37_79b9_7f4a_7c15;
    for (index, change) in changes.into_iter().enumerate() {
        if matches!(change, Change::Flush) {
            for change in cache.unflushed.drain(..) {
                change.apply(&mut cache.medium);
            }
        } else {
            cache.unflushed.push(change);
        }
        for choice in 0..CHOICES {
            judge(Cut {
                content: cache.lose_some(&mut seed),
                when: format!("request {index}, choice {choice}"),
            });
        }
    }
}

fn assert_safe(cut: &Cut, before: &[u8], after: &[u8]) {
    let found = Found::in_memory(&cut.content);
    if found == Found::NOTHING {
        return;
    }
    // The ends of the disk are written at other times than the body. If a table is
    // visible, the system that it describes must be complete.
    let body = MIB..before.len() - MIB;
    let old = cut.content[body.clone()] == before[body.clone()];
    let new = cut.content[body.clone()] == after[body.clone()];
    assert!(
        old || new,
        "{}: {found:?}, and neither the old nor the new system is whole",
        cut.when
    );
    // Firmware ignores the primary table if the first sector is empty. If the first
    // sector is not empty, the whole new system must be there.
    if new && found.first_sector {
        assert!(
            cut.content == after,
            "{}: a part of the new system",
            cut.when
        );
    }
}

#[test]
fn power_cut_at_any_request() {
    // The image ends in the middle of the disk, within its last MiB, or exactly at
    // its end.
    for size in [6 * MIB, IMAGE + MIB / 2, IMAGE] {
        let before = full_system_image(size, 0x10);
        let disk = match FaultyDisk::start(before.clone(), |_| Answer::Do) {
            Ok(disk) => disk,
            Err(why) => return skip(format_args!("FUSE: {why}")),
        };
        let Some(device) = loop_device(disk.path(), 512) else {
            return;
        };
        let server = Server::of(&system_image(IMAGE, 0x20));
        let (well, text) = program::write(&server.url, device.path(), &[]);
        assert!(well, "{text}");
        let after = disk.content();
        assert_eq!(Found::in_memory(&after), Found::ALL);
        let changes = disk.changes();
        let flushes = changes
            .iter()
            .filter(|c| matches!(c, Change::Flush))
            .count();
        assert!(flushes >= 3, "only {flushes} flushes: {text}");
        let mut judged = 0;
        cuts(&before, changes, |cut| {
            assert_safe(&cut, &before, &after);
            judged += 1;
        });
        assert!(judged > 200, "only {judged} cuts");
    }
}
