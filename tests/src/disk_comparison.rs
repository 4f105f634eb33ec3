//! Compares two disks that should contain the same installation, on the build machine:
//! the partition table entry by entry, the boot partition file by file, and everything
//! else byte by byte.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::data_partition::DataPartition;
use crate::program;

const SECTOR: u64 = 512;
const MIB: u64 = 1 << 20;
/// The byte range of the GPT's 128 entries of 128 bytes each, after the MBR and the
/// header.
const ENTRIES: std::ops::Range<usize> = 1024..1024 + 128 * 128;
/// Byte ranges in the protective MBR that depend on the size of the disk: the last
/// sector in cylinders, heads and sectors, and the number of sectors.
const MBR_SIZE: [std::ops::Range<usize>; 2] = [451..454, 458..462];

/// An entry of the partition table.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    /// The offset and the end in bytes.
    place: std::ops::Range<u64>,
    /// The type, GUID, attributes and name as raw bytes.
    rest: Vec<u8>,
}

/// For each path in the boot partition: the mode with the file type, the user, the
/// group, and the content or link target.
type Tree = BTreeMap<String, (u32, u32, u32, Vec<u8>)>;

/// The parts of a disk that are compared.
pub struct InstalledDisk {
    file: File,
    head: Vec<u8>,
    entries: BTreeMap<usize, Entry>,
    boot: Tree,
}

impl InstalledDisk {
    /// Reads a disk with a GPT. Partition number `boot` must contain a clean ext4
    /// file system. `scratch` is a folder that does not exist yet.
    pub async fn read(disk: &Path, boot: usize, scratch: &Path) -> Result<Self> {
        let file = File::open(disk).with_context(|| format!("opening {}", disk.display()))?;
        let mut head = vec![0; MIB as usize];
        file.read_exact_at(&mut head, 0)?;
        ensure!(&head[512..520] == b"EFI PART", "{}: no GPT", disk.display());
        let entries: BTreeMap<usize, Entry> = head[ENTRIES]
            .chunks(128)
            .enumerate()
            .filter(|(_, entry)| entry[..16] != [0; 16])
            .map(|(index, entry)| (index + 1, Entry::new(entry)))
            .collect();
        let place = entries
            .get(&boot)
            .with_context(|| format!("{}: no partition {boot}", disk.display()))?
            .place
            .clone();
        fs::create_dir(scratch)?;
        let image = scratch.join("boot.img");
        copy_range(&file, place, &image)?;
        let boot = read_tree(&image, &scratch.join("boot")).await?;
        Ok(Self {
            file,
            head,
            entries,
            boot,
        })
    }

    /// The paths at which this disk's boot partition differs from the boot partition of
    /// `image`.
    #[must_use]
    pub fn boot_changes(&self, image: &Self) -> BTreeSet<String> {
        let all = self.boot.keys().chain(image.boot.keys());
        all.filter(|path| self.boot.get(*path) != image.boot.get(*path))
            .cloned()
            .collect()
    }

    /// Lists faults of the partitions that were on the disk before the
    /// installation.
    pub fn faults_of(&self, before: &[DataPartition]) -> Result<Vec<String>> {
        let mut faults = Vec::new();
        for partition in before {
            let name = partition.name;
            let now = self.entries.iter().find(|(_, entry)| entry.name() == name);
            let number = now.map(|(number, _)| *number);
            if number != partition.after {
                faults.push(format!(
                    "{name}: expected number {:?}, found {number:?}",
                    partition.after
                ));
            }
            let Some((_, entry)) = now else {
                continue;
            };
            let all = partition.all_mib();
            if entry.place != (all.start * MIB..all.end * MIB) {
                faults.push(format!("{name}: found at bytes {:?}", entry.place));
            }
            let mut found = vec![0; MIB as usize];
            for mib in all {
                self.file.read_exact_at(&mut found, mib * MIB)?;
                if found != partition.content(mib) {
                    faults.push(format!("{name}: other data in the disk's MiB {mib}"));
                }
            }
        }
        Ok(faults)
    }

    /// Lists the differences from another disk, one per line. `boot` is the number of
    /// the boot partition, which is compared file by file. `end` is the end of the
    /// image in bytes. After it, only the partition entries are compared.
    pub fn differences(&self, other: &Self, boot: usize, end: u64) -> Result<Vec<String>> {
        let mut found = Vec::new();
        let mut compare = |what: &str, same: bool| {
            if !same {
                found.push(what.to_owned());
            }
        };
        let part = |disk: &Self, range: std::ops::Range<usize>| disk.head[range].to_vec();
        let same = |range: std::ops::Range<usize>| part(self, range.clone()) == part(other, range);
        compare("MBR: boot code", same(0..440));
        compare("MBR: disk signature", same(440..446));
        let size = |disk: &Self| MBR_SIZE.map(|range| disk.head[range].to_vec());
        let others = |disk: &Self| {
            let mut mbr = disk.head[446..512].to_vec();
            for range in MBR_SIZE {
                mbr[range.start - 446..range.end - 446].fill(0);
            }
            mbr
        };
        compare("MBR: partition", others(self) == others(other));
        compare("MBR: size of the disk", size(self) == size(other));
        // Header fields of UEFI specification, 5.3.2.
        compare("table: disk GUID", same(568..584));
        compare("table: first usable sector", same(552..560));
        compare("table: last usable sector", same(560..568));
        compare("table: place of the backup", same(544..552));
        compare("table: behind the entries", same(ENTRIES.end..MIB as usize));
        let numbers: BTreeSet<_> = self.entries.keys().chain(other.entries.keys()).collect();
        for number in numbers {
            let (own, its) = (self.entries.get(number), other.entries.get(number));
            if own != its {
                found.push(format!("table: partition {number}: {own:x?} and {its:x?}"));
            }
        }
        for path in self.boot_changes(other) {
            found.push(match (self.boot.get(&path), other.boot.get(&path)) {
                (None, _) | (_, None) => format!("boot: {path}: only on one"),
                (Some(own), Some(its)) if own.3 != its.3 => format!(
                    "boot: {path}: {:?} and {:?}",
                    String::from_utf8_lossy(&own.3),
                    String::from_utf8_lossy(&its.3)
                ),
                (Some(own), Some(its)) => format!(
                    "boot: {path}: mode {:o} of {}:{} and {:o} of {}:{}",
                    own.0, own.1, own.2, its.0, its.1, its.2
                ),
            });
        }
        let boot = self.entries.get(&boot).map(|entry| entry.place.clone());
        let (mut own, mut its) = (vec![0; MIB as usize], vec![0; MIB as usize]);
        for offset in (MIB..end).step_by(MIB as usize) {
            if boot.as_ref().is_some_and(|boot| boot.contains(&offset)) {
                continue;
            }
            let len = MIB.min(end - offset) as usize;
            self.file.read_exact_at(&mut own[..len], offset)?;
            other.file.read_exact_at(&mut its[..len], offset)?;
            if own[..len] != its[..len] {
                found.push(format!("data: the MiB at byte {offset}"));
            }
        }
        Ok(found)
    }
}

impl Entry {
    fn new(entry: &[u8]) -> Self {
        let number = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&entry[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        Self {
            place: number(32) * SECTOR..(number(40) + 1) * SECTOR,
            rest: [&entry[..32], &entry[48..]].concat(),
        }
    }

    fn name(&self) -> String {
        // UEFI specification, 5.3.3: 36 UTF-16 units behind the attributes.
        let units = self.rest[40..].as_chunks::<2>().0;
        let units = units.iter().map(|unit| u16::from_le_bytes(*unit));
        char::decode_utf16(units.take_while(|unit| *unit != 0))
            .map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER))
            .collect()
    }
}

fn copy_range(disk: &File, range: std::ops::Range<u64>, to: &Path) -> Result<()> {
    let mut image = File::create(to)?;
    let mut chunk = vec![0; MIB as usize];
    for offset in range.clone().step_by(MIB as usize) {
        let len = MIB.min(range.end - offset) as usize;
        disk.read_exact_at(&mut chunk[..len], offset)?;
        std::io::Write::write_all(&mut image, &chunk[..len])?;
    }
    Ok(())
}

/// Reads all files of an ext4 image without mounting it.
async fn read_tree(image: &Path, folder: &Path) -> Result<Tree> {
    let image = image.display().to_string();
    // The file system was unmounted, so no journal needs to be replayed.
    program::run("e2fsck", &["-fn", &image]).await?;
    fs::create_dir(folder)?;
    let dump = format!("rdump / {}", folder.display());
    program::run("debugfs", &["-R", &dump, &image]).await?;
    let mut tree = Tree::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next)? {
            let path = entry?.path();
            let metadata = fs::symlink_metadata(&path)?;
            let content = if metadata.is_dir() {
                folders.push(path.clone());
                Vec::new()
            } else if metadata.is_symlink() {
                fs::read_link(&path)?.into_os_string().into_encoded_bytes()
            } else {
                fs::read(&path)?
            };
            let name = path.strip_prefix(folder)?.display().to_string();
            let (mode, uid, gid) = (metadata.mode(), metadata.uid(), metadata.gid());
            tree.insert(name, (mode, uid, gid, content));
        }
    }
    ensure!(!tree.is_empty(), "{image}: nothing in it");
    Ok(tree)
}
