//! Disk images, loop devices and a disk that fails, for tests.

#[allow(dead_code, reason = "the tests of the program use more of it")]
mod faulty_disk;

use std::io::Cursor;
use std::process::Command;
use std::sync::{Arc, Mutex};

use landfall_sys::skip::skip;
use tempfile::NamedTempFile;
use uuid::Uuid;

use crate::tables::gpt::{Entry, Partition, Table};

pub use faulty_disk::{Answer, Change, FaultyDisk, Request as DiskRequest};
pub use landfall_sys::loop_device::{LoopDevice, exchange, loop_device};

/// A file of zeros, for a loop device.
pub fn empty_file(bytes: u64) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    file.as_file().set_len(bytes).unwrap();
    file
}

/// Runs a program that must succeed. `None`, with a printed reason, if the program
/// is missing.
pub fn run(program: &str, arguments: &[&str]) -> Option<()> {
    match Command::new(program).args(arguments).output() {
        Ok(output) => {
            assert!(
                output.status.success(),
                "{program} {arguments:?}: {output:?}"
            );
            Some(())
        }
        Err(error) => {
            skip(format_args!("{program}: {error}"));
            None
        }
    }
}

/// The disk GUID of a CoreOS image that was never booted.
pub const SENTINEL: &str = "00000000-0000-4000-a000-000000000001";

/// A disk image with boot code, a GPT with the sentinel GUID, and two partitions. Each
/// partition contains data, then zeros, then data.
pub fn gpt_image(size: u64, sector: u32) -> Vec<u8> {
    let mut device = Cursor::new(vec![0u8; size as usize]);
    let last = u32::try_from(size / u64::from(sector) - 1).unwrap();
    gpt::mbr::ProtectiveMBR::with_lb_size(last)
        .overwrite_lba0(&mut device)
        .unwrap();
    let mut disk = gpt::GptConfig::new()
        .writable(true)
        .logical_block_size(u64::from(sector).try_into().unwrap())
        .create_from_device(device, Some(SENTINEL.parse().unwrap()))
        .unwrap();
    for (name, kind) in [
        ("EFI-SYSTEM", gpt::partition_types::EFI),
        ("boot", gpt::partition_types::LINUX_FS),
    ] {
        disk.add_partition(name, size / 4, kind, 0, Some(64))
            .unwrap();
    }
    let spans: Vec<(u64, u64)> = disk
        .partitions()
        .values()
        .map(|p| {
            (
                p.first_lba * u64::from(sector),
                p.last_lba * u64::from(sector),
            )
        })
        .collect();
    let mut image = disk.write().unwrap().into_inner();
    for (byte, place) in image.iter_mut().take(440).zip(0u8..=255) {
        *byte = place ^ 0x5a;
    }
    for (start, end) in spans {
        let third = (end - start) / 3;
        for place in (start..start + third).chain(end - third..end) {
            image[place as usize] = (place % 251) as u8 ^ (place >> 12) as u8;
        }
    }
    image
}

/// Writes an MBR over a disk image: type, first sector and length of each partition.
pub fn put_mbr(image: &mut [u8], partitions: &[(u8, u32, u32)]) {
    for (entry, (kind, start, len)) in image[446..510].chunks_mut(16).zip(partitions) {
        entry[4] = *kind;
        entry[8..12].copy_from_slice(&start.to_le_bytes());
        entry[12..16].copy_from_slice(&len.to_le_bytes());
    }
    image[510..512].copy_from_slice(&[0x55, 0xaa]);
}

/// A disk full of old data with these partitions: number, name, type, first MiB and
/// length in MiB.
pub fn used_disk(size: u64, sector: u32, partitions: &[(u32, &str, Uuid, u64, u64)]) -> Vec<u8> {
    let mut table = Table::empty(sector, size, Uuid::new_v4(), 128).unwrap();
    for (number, name, kind, first, len) in partitions {
        let partition = Partition {
            number: *number,
            kind: *kind,
            guid: Uuid::new_v4(),
            offset: first << 20,
            len: len << 20,
            name: (*name).to_owned(),
        };
        let entry = Entry::of(&partition, sector.into());
        table.put(partition, &entry).unwrap();
    }
    let mut disk: Vec<u8> = (0..size).map(|at| (at % 249) as u8 | 1).collect();
    table.write_primary_alone(&mut disk[..1 << 20]);
    disk[..440].fill(0xb0);
    let (offset, backup) = table.backup();
    disk[offset as usize..].copy_from_slice(&backup);
    disk
}

/// Corrects the checksums of a primary GPT after its entries have been changed. For
/// sectors of 512 bytes.
pub fn sealed(mut disk: Vec<u8>) -> Vec<u8> {
    let crc = |bytes: &[u8]| {
        let mut crc = flate2::Crc::new();
        crc.update(bytes);
        crc.sum().to_le_bytes()
    };
    let entries = crc(&disk[1024..1024 + 128 * 128]);
    disk[512 + 88..][..4].copy_from_slice(&entries);
    disk[512 + 16..][..4].fill(0);
    let header = crc(&disk[512..512 + 92]);
    disk[512 + 16..][..4].copy_from_slice(&header);
    disk
}

/// An operation on a disk.
#[derive(Debug, Clone)]
pub enum Done {
    Write(u64, Vec<u8>),
    Zero(u64, u64),
    Flush,
}

/// The operations on a disk in order. Clones share one list.
#[derive(Debug, Clone, Default)]
pub struct Journal(Arc<Mutex<Vec<Done>>>);

impl Journal {
    pub fn write(&self, offset: u64, bytes: &[u8]) {
        self.note(Done::Write(offset, bytes.to_vec()));
    }

    pub fn zero(&self, offset: u64, len: u64) {
        self.note(Done::Zero(offset, len));
    }

    pub fn flush(&self) {
        self.note(Done::Flush);
    }

    pub fn all(&self) -> Vec<Done> {
        self.0.lock().unwrap().clone()
    }

    fn note(&self, done: Done) {
        self.0.lock().unwrap().push(done);
    }
}
