//! Detects cluster file systems on disks that other machines may share: cleaning
//! one machine would destroy the data of all others.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use landfall_report::failure::{Class, Failure, Result};
use landfall_sys::block_ioctl;

use crate::tables::gpt::{self, Table};
use crate::tables::mbr;

const GPFS: &str = "37affc90-ef7d-4e96-91c3-2d7ae055b174";
const VMFS: &str = "aa31e02a-400f-11db-9590-000c2911d1b8";
/// The partition type of VMFS in an MBR.
const VMFS_MBR: u8 = 0xfb;
/// Extended partitions, which contain a chain of further tables.
const EXTENDED: [u8; 3] = [0x05, 0x0f, 0x85];
/// The maximum number of logical partitions to read, as in libblkid. There is a limit
/// because the links of a damaged chain may form a loop.
const LONGEST_CHAIN: usize = 100;
/// In bytes: enough for a table of 128 partitions with sectors of 4096 bytes.
const HEAD: u64 = 64 << 10;

/// Fails if the disk or one of its partitions holds a cluster file system.
///
/// # Errors
/// If a cluster file system is found, or if the disk cannot be read.
pub fn refuse_shared(disk: &Path, partitions: &[impl AsRef<Path>]) -> Result<()> {
    let check = || -> io::Result<Option<&'static str>> {
        let device = File::open(disk)?;
        let size = block_ioctl::size_bytes(&device)?;
        let sector = block_ioctl::logical_sector_size(&device)?;
        if let Some(found) = in_tables(&device, size, sector)? {
            return Ok(Some(found));
        }
        if is_gfs2(&device, size)? {
            return Ok(Some(GFS2));
        }
        for partition in partitions {
            let device = File::open(partition)?;
            if is_gfs2(&device, block_ioctl::size_bytes(&device)?)? {
                return Ok(Some(GFS2));
            }
        }
        Ok(None)
    };
    let what = check().map_err(|e| {
        Failure::erasure(format!(
            "{}: cannot look for shared file systems: {e}",
            disk.display()
        ))
    })?;
    what.map_or(Ok(()), |what| Err(protected(disk, what)))
}

const GFS2: &str = "Red Hat Global File System 2";

fn protected(disk: &Path, what: &str) -> Failure {
    Failure::new(
        Class::ProtectedDeviceError,
        format!(
            "{}: holds a {what}, which other machines may be using; the disk was not erased",
            disk.display()
        ),
    )
    .hint("detach the volume from this machine, or allow the agent to erase it with ipa-guard-special-filesystems=0 or wipe_special_filesystems=false in driver_internal_info")
}

/// Looks for cluster file systems by the partition types in the tables.
fn in_tables(device: &File, size: u64, sector: u32) -> io::Result<Option<&'static str>> {
    if let Some(table) = gpt_of(device, size, sector)? {
        let found = table.partitions().iter().find_map(|partition| {
            match partition.kind.to_string().as_str() {
                GPFS => Some("IBM GPFS partition"),
                VMFS => Some("VMware VMFS partition"),
                _ => None,
            }
        });
        if found.is_some() {
            return Ok(found);
        }
    }
    let read_sector = |number: u64| {
        let mut bytes = vec![0; 512];
        let offset = number.saturating_mul(sector.into());
        if offset.saturating_add(512) > size {
            return Ok(bytes);
        }
        device.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    };
    Ok(has_vmfs_type(read_sector)?.then_some("VMware VMFS partition"))
}

/// The disk's GPT. If the primary table is missing or damaged, the backup counts as
/// well, because the other machines may still use it. The backup is ignored if the MBR
/// in the first sector has ordinary partitions: in that case another system was written
/// to the disk later, and the backup is out of date.
fn gpt_of(device: &File, size: u64, sector: u32) -> io::Result<Option<Table>> {
    let mut bytes = vec![0; HEAD.min(size) as usize];
    device.read_exact_at(&mut bytes, 0)?;
    if gpt::has_signature(&bytes, sector)
        && let Ok(table) = Table::parse(&bytes, sector)
    {
        return Ok(Some(table));
    }
    let has_kind = |wanted: fn(u8) -> bool| {
        { mbr::entries(&bytes) }.is_some_and(|entries| entries.iter().any(|e| wanted(e.kind)))
    };
    if has_kind(|kind| kind != 0) && !has_kind(|kind| kind == mbr::PROTECTIVE) {
        return Ok(None);
    }
    let tail = size - bytes.len() as u64;
    // A disk whose end cannot be read has no backup that anybody could use.
    if device.read_exact_at(&mut bytes, tail).is_err() {
        return Ok(None);
    }
    Ok(Table::parse_backup(&bytes, size, sector).ok())
}

/// Whether a partition in the MBR or in its chain of extended partitions has the
/// type of VMFS.
fn has_vmfs_type(read_sector: impl Fn(u64) -> io::Result<Vec<u8>>) -> io::Result<bool> {
    let entries = |sector: &[u8]| -> Vec<(u8, u64)> {
        let entries = mbr::entries(sector).into_iter().flatten();
        entries.map(|entry| (entry.kind, entry.first)).collect()
    };
    let primary = entries(&read_sector(0)?);
    if primary.iter().any(|(kind, _)| *kind == VMFS_MBR) {
        return Ok(true);
    }
    let is_extended = |entry: &&(u8, u64)| EXTENDED.contains(&entry.0) && entry.1 > 0;
    let Some((_, start)) = primary.iter().find(is_extended).copied() else {
        return Ok(false);
    };
    let mut place = start;
    for _ in 0..LONGEST_CHAIN {
        let link = entries(&read_sector(place)?);
        if link.iter().any(|(kind, _)| *kind == VMFS_MBR) {
            return Ok(true);
        }
        match link.iter().find(is_extended) {
            Some((_, next)) => place = start + next,
            None => break,
        }
    }
    Ok(false)
}

/// Whether the superblock of GFS2 is on the device (`struct gfs2_sb` in
/// linux/gfs2_ondisk.h): at 64 KiB, big-endian. The older GFS has the same magic, but
/// another format number.
fn is_gfs2(device: &File, size: u64) -> io::Result<bool> {
    const PLACE: u64 = 64 << 10;
    if size < PLACE + 32 {
        return Ok(false);
    }
    let mut bytes = [0; 32];
    device.read_exact_at(&mut bytes, PLACE)?;
    let word =
        |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    Ok(word(0) == 0x0116_1970 && word(4) == 1 && (1801..1900).contains(&word(24)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sector that holds a table with these types and start sectors.
    fn sector(entries: &[(u8, u32)]) -> Vec<u8> {
        let mut bytes = vec![0; 512];
        for (index, (kind, start)) in entries.iter().enumerate() {
            bytes[446 + index * 16 + 4] = *kind;
            bytes[446 + index * 16 + 8..][..4].copy_from_slice(&start.to_le_bytes());
        }
        bytes[510..].copy_from_slice(&[0x55, 0xaa]);
        bytes
    }

    #[test]
    fn vmfs_is_found_in_a_chain_and_a_ring_ends() {
        let disk = |last: u8| {
            move |number: u64| {
                Ok(match number {
                    0 => sector(&[(0x83, 8), (0x05, 100)]),
                    100 => sector(&[(0x83, 2), (0x05, 50)]),
                    150 => sector(&[(last, 2), (0x05, 50)]),
                    _ => vec![0; 512],
                })
            }
        };
        assert!(has_vmfs_type(disk(VMFS_MBR)).unwrap());
        assert!(!has_vmfs_type(disk(0x83)).unwrap(), "150 leads to itself");
        assert!(!has_vmfs_type(|_| Ok(vec![0; 512])).unwrap());
        let mut unsigned = sector(&[(VMFS_MBR, 8)]);
        unsigned[510] = 0;
        assert!(!has_vmfs_type(|_| Ok(unsigned.clone())).unwrap());
    }

    #[test]
    fn types_in_a_gpt() {
        for (kind, expected) in [
            (GPFS, Some("IBM GPFS partition")),
            (VMFS, Some("VMware VMFS partition")),
            ("0fc63daf-8483-4772-8e79-3d69d8477de4", None),
        ] {
            let file = tempfile::NamedTempFile::new().unwrap();
            let size = 16 << 20;
            file.as_file().set_len(size).unwrap();
            let made = std::process::Command::new("/sbin/sgdisk")
                .args(["-n", "1:0:+1M", "-n", "2:0:+1M", "-t", &format!("2:{kind}")])
                .arg(file.path())
                .output();
            let Ok(made) = made else {
                return landfall_sys::skip::skip("sgdisk is not installed");
            };
            assert!(made.status.success(), "{made:?}");
            let found = || in_tables(file.as_file(), size, 512).unwrap();
            assert_eq!(found(), expected);
            // A damaged primary table, then none: the backup is still valid.
            for damage in [&[9; 8][..], &[0; 512]] {
                let place = 512 + 512 - damage.len() as u64;
                file.as_file().write_all_at(damage, place).unwrap();
                assert_eq!(found(), expected, "by the backup");
            }
            let other = sector(&[(0x83, 2048)]);
            file.as_file().write_all_at(&other, 0).unwrap();
            assert_eq!(found(), None, "the backup is older than the MBR");
        }
    }

    #[test]
    fn gfs2_and_not_its_elder_brother() {
        let file = tempfile::tempfile().unwrap();
        let size = 1 << 20;
        file.set_len(size).unwrap();
        assert!(!is_gfs2(&file, size).unwrap());
        for (format, expected) in [(1801u32, true), (1802, true), (1309, false)] {
            let mut superblock = [0; 32];
            superblock[..4].copy_from_slice(&0x0116_1970u32.to_be_bytes());
            superblock[7] = 1;
            superblock[24..28].copy_from_slice(&format.to_be_bytes());
            file.write_all_at(&superblock, 64 << 10).unwrap();
            assert_eq!(is_gfs2(&file, size).unwrap(), expected, "{format}");
        }
    }
}
