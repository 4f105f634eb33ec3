//! Checks what a power cut at any moment leaves on the disk. The test replays the
//! writes of a whole installation up to each point. Any write that was not flushed
//! may be lost, whole or sector by sector.

use proptest::prelude::*;

use super::*;
use crate::fixtures::{Done, Journal, used_disk};
use crate::tables::gpt::{EFI_SYSTEM, Partition};
use crate::tables::saved_partitions::PartitionFilter;

const SIZE: u64 = 16 * MIB;
const DATA: uuid::Uuid = uuid::Uuid::from_u128(0x0fc6_3daf_8483_4772_8e79_3d69_d847_7de4);
/// Number, name, type, start in MiB, length in MiB.
const OLD: &[(u32, &str, uuid::Uuid, u64, u64)] = &[
    (1, "ESP", EFI_SYSTEM, 1, 2),
    (2, "root", DATA, 3, 3),
    (3, "var", DATA, 10, 2),
    (7, "esp-of-another", EFI_SYSTEM, 13, 1),
    (8, "tail", DATA, 14, 1),
];

/// An installation: the disk before it, the image, and the journal of its writes.
struct Case {
    before: Vec<u8>,
    sector: u32,
    image: Vec<u8>,
    kept: Vec<Partition>,
    done: Vec<Done>,
}

/// Runs an installation and records its journal.
fn run(before: Vec<u8>, sector: u32, image: &[u8], saved: &str, good: bool) -> Case {
    let disk = NamedTempFile::new().unwrap();
    std::fs::write(disk.path(), &before).unwrap();
    let journal = Journal::default();
    let mut target = open(disk.path(), sector);
    target.keep_journal(journal.clone());
    let server = Server::of(image);
    let digest = if good {
        sha256(image)
    } else {
        sha256(b"other")
    };
    let options = WriteOptions {
        saved: match saved {
            "" => Vec::new(),
            filters => PartitionFilter::parse_labels(filters).unwrap(),
        },
        ..WriteOptions::default()
    };
    let source = source(&server, Some(digest));
    let proven = write_image_with(&source, &options, target, &http_client());
    match proven.and_then(ProvenImage::commit) {
        Ok(_) => assert!(good),
        Err(failure) => assert_eq!((good, failure.class), (false, Class::ImageChecksumError)),
    }
    let kept = match visible(&before, sector) {
        Some(table) => {
            let mut kept = table.partitions().to_vec();
            kept.retain(|partition| options.saved.iter().any(|f| f.matches(partition)));
            kept
        }
        None => Vec::new(),
    };
    Case {
        before,
        sector,
        image: image.to_vec(),
        kept,
        done: journal.all(),
    }
}

/// The table that firmware uses (UEFI 2.10, 5.3.2).
fn visible(disk: &[u8], sector: u32) -> Option<Table> {
    let tail = &disk[disk.len() - MIB as usize..];
    Table::parse(&disk[..MIB as usize], sector)
        .or_else(|_| Table::parse_backup(tail, disk.len() as u64, sector))
        .ok()
}

impl Case {
    fn assert_safe(&self, disk: &[u8], moment: &str) {
        let table = visible(disk, self.sector);
        let partitions = table.as_ref().map_or(&[][..], Table::partitions);
        for kept in &self.kept {
            let range = kept.offset as usize..(kept.offset + kept.len) as usize;
            assert!(
                disk[range.clone()] == self.before[range],
                "{moment}: content"
            );
            let found = partitions.iter().find(|found| found.guid == kept.guid);
            let found = found.unwrap_or_else(|| panic!("{moment}: {kept:?} is lost"));
            assert_eq!(
                (found.offset, found.len, &found.name),
                (kept.offset, kept.len, &kept.name),
                "{moment}"
            );
        }
        let data = MIB as usize..self.image.len() - MIB as usize;
        if disk[data.clone()] == self.before[data.clone()] || disk[data.clone()] == self.image[data]
        {
            // Either the old data is untouched, or the data of the image is completely
            // written. In both cases a system may boot.
            return;
        }
        assert!(disk[..440].iter().all(|&b| b == 0), "{moment}: boot code");
        for partition in partitions {
            let kept = self.kept.iter().any(|kept| kept.guid == partition.guid);
            assert!(kept, "{moment}: {partition:?} can be found");
            assert_ne!(
                partition.kind, EFI_SYSTEM,
                "{moment}: firmware boots from it"
            );
        }
    }

    /// Checks the disk after prefixes of the journal, with random subsets of the
    /// writes since the last flush.
    fn cut_everywhere(&self, mut random: impl FnMut() -> u32) {
        let mut durable = self.before.clone();
        let mut flying: Vec<&Done> = Vec::new();
        for (index, done) in self.done.iter().enumerate() {
            if matches!(done, Done::Flush) {
                for (part, lost) in [
                    ("none", 0),
                    ("some", 1),
                    ("some", 1),
                    ("torn", 2),
                    ("torn", 2),
                ] {
                    let mut disk = durable.clone();
                    for done in &flying {
                        if lost == 0 || random().is_multiple_of(2) {
                            apply(&mut disk, done, |_| true);
                        } else if lost == 2 {
                            apply(&mut disk, done, |_| random().is_multiple_of(2));
                        }
                    }
                    self.assert_safe(&disk, &format!("before flush {index}, {part} lost"));
                }
                for done in flying.drain(..) {
                    apply(&mut durable, done, |_| true);
                }
            } else {
                flying.push(done);
            }
            // Every write up to here has reached the medium.
            if index.is_multiple_of(7) || flying.len() < 3 {
                let mut disk = durable.clone();
                for done in &flying {
                    apply(&mut disk, done, |_| true);
                }
                self.assert_safe(&disk, &format!("after write {index}"));
            }
        }
        assert!(flying.is_empty(), "all was flushed");
    }
}

/// Applies the change to the sectors for which `arrives` returns true.
fn apply(disk: &mut [u8], done: &Done, mut arrives: impl FnMut(u64) -> bool) {
    let (offset, bytes) = match done {
        Done::Write(offset, bytes) => (*offset, bytes.clone()),
        Done::Zero(offset, len) => (*offset, vec![0; *len as usize]),
        Done::Flush => return,
    };
    for (sector, place) in bytes.chunks(512).zip((offset..).step_by(512)) {
        if arrives(place) {
            disk[place as usize..][..sector.len()].copy_from_slice(sector);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10))]

    #[test]
    fn a_power_cut_leaves_kept_partitions_and_nothing_that_boots(
        large: bool,
        saved in prop_oneof![Just(""), Just("var"), Just("var,esp-*"), Just("tail,var,esp-*")],
        broken in prop_oneof![3 => Just(None), 1 => Just(Some(0)), 1 => Just(Some(SIZE as usize - 4096))],
        good in prop_oneof![2 => Just(true), 1 => Just(false)],
        mib in 4u64..9,
        seed: u64,
    ) {
        let sector = if large { 4096 } else { 512 };
        let mut before = used_disk(SIZE, sector, OLD);
        if let Some(place) = broken {
            // Damages the header of one of the two copies.
            let header = if place == 0 { sector as usize } else { SIZE as usize - sector as usize };
            before[header + 60] ^= 1;
        }
        let case = run(before, sector, &gpt_image(mib * MIB, sector), saved, good);
        prop_assert_eq!(case.kept.is_empty(), saved.is_empty());
        let mut state = seed | 1;
        case.cut_everywhere(|| {
            // Knuth's MMIX constants; any generator would do.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u32
        });
    }
}
