//! Makes the EFI system partition of the medium: a small FAT image. It needs
//! neither root nor a mount.
//!
//! The builder has a FAT writer of its own because a small one is enough: each file
//! is written once, in one piece, under an 8.3 name. (The `fatfs` crate, 0.3.6,
//! puts long-name records before `.` and `..`, which fsck.fat reports as damage.)
//! The layout is that of Microsoft's "FAT: General Overview of On-Disk Format". The
//! same files give the same bytes.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};

const SECTOR: usize = 512;
const SECTORS_PER_CLUSTER: usize = 4;
const CLUSTER: usize = SECTOR * SECTORS_PER_CLUSTER;
const ENTRY: usize = 32;
const ROOT_ENTRIES: usize = 64;
const RESERVED_SECTORS: usize = 1;
const FATS: usize = 2;
/// The numbers 0 and 1 have other meanings.
const FIRST_CLUSTER: usize = 2;
/// With this many clusters or more, the file system is FAT16. Drivers decide by the
/// number of clusters alone.
const FAT16_CLUSTERS: usize = 4085;
const MAX_CLUSTERS: usize = 65_000;
/// 1 January 1980, the first date that FAT can store. Times mean nothing on this
/// partition.
const NO_DATE: [u8; 2] = [0x21, 0];

const ATTRIBUTE_LABEL: u8 = 0x08;
const ATTRIBUTE_DIRECTORY: u8 = 0x10;
const ATTRIBUTE_FILE: u8 = 0x20;
const LABEL: &[u8; 11] = b"LANDFALL   ";

/// Builds the smallest FAT image that holds these files. A path is written like
/// `EFI/BOOT/BOOTX64.EFI`.
pub(crate) fn build(files: &[(&str, Vec<u8>)], serial: u32) -> Result<Vec<u8>> {
    let directories: BTreeSet<&str> = files.iter().flat_map(|(path, _)| parents(path)).collect();
    let mut volume = Volume::default();
    // Directories first, so that their clusters are known when their entries are
    // written.
    let first_cluster = |volume: &Volume| volume.chains.len() + FIRST_CLUSTER;
    let mut places: Vec<(&str, usize)> = vec![("", 0)];
    for path in &directories {
        places.push((path, first_cluster(&volume)));
        volume.append(&[0; CLUSTER]);
    }
    let place = |path: &str| {
        places
            .iter()
            .find(|(other, _)| *other == path)
            .map_or(0, |(_, cluster)| *cluster)
    };
    let mut tables: Vec<Vec<u8>> = places.iter().map(|_| Vec::new()).collect();
    for (number, (path, cluster)) in places.iter().enumerate() {
        if number == 0 {
            tables[0].extend(entry(LABEL, ATTRIBUTE_LABEL, 0, 0)?);
        } else {
            tables[number].extend(entry(b".          ", ATTRIBUTE_DIRECTORY, *cluster, 0)?);
            tables[number].extend(entry(
                b"..         ",
                ATTRIBUTE_DIRECTORY,
                place(parent(path)),
                0,
            )?);
        }
        for child in directories.iter().filter(|child| parent(child) == *path) {
            tables[number].extend(entry(
                &short_name(child)?,
                ATTRIBUTE_DIRECTORY,
                place(child),
                0,
            )?);
        }
        for (child, bytes) in files.iter().filter(|(child, _)| parent(child) == *path) {
            // An empty file has no cluster.
            let cluster = if bytes.is_empty() {
                0
            } else {
                first_cluster(&volume)
            };
            volume.append(bytes);
            tables[number].extend(entry(
                &short_name(child)?,
                ATTRIBUTE_FILE,
                cluster,
                bytes.len(),
            )?);
        }
        let room = if number == 0 {
            ROOT_ENTRIES * ENTRY
        } else {
            CLUSTER
        };
        ensure!(
            tables[number].len() <= room,
            "EFI system partition: too many files in directory `{path}`"
        );
    }
    for (table, (_, cluster)) in tables.iter().zip(&places).skip(1) {
        volume.data[(cluster - FIRST_CLUSTER) * CLUSTER..][..table.len()].copy_from_slice(table);
    }
    volume.image(&tables[0], serial)
}

#[derive(Default)]
struct Volume {
    /// For each cluster the number of the file's next cluster; 0 for the last one.
    chains: Vec<usize>,
    data: Vec<u8>,
}

impl Volume {
    /// Adds a file in one piece.
    fn append(&mut self, bytes: &[u8]) {
        let count = bytes.len().div_ceil(CLUSTER);
        let first = self.chains.len() + FIRST_CLUSTER;
        self.chains
            .extend((1..=count).map(|n| if n == count { 0 } else { first + n }));
        self.data.extend_from_slice(bytes);
        self.data.resize(self.chains.len() * CLUSTER, 0);
    }

    fn image(mut self, root: &[u8], serial: u32) -> Result<Vec<u8>> {
        // Microsoft warns of drivers that are wrong by a few clusters near this
        // limit, so the count keeps away from it.
        let clusters = match self.chains.len() {
            near if near.abs_diff(FAT16_CLUSTERS) < 16 => FAT16_CLUSTERS + 16,
            count => count,
        };
        ensure!(
            clusters <= MAX_CLUSTERS,
            "EFI system partition: {} bytes do not fit",
            self.data.len()
        );
        self.data.resize(clusters * CLUSTER, 0);
        let wide = clusters >= FAT16_CLUSTERS;
        let table = self.table(wide, clusters);
        let root_sectors = ROOT_ENTRIES * ENTRY / SECTOR;
        let fat_sectors = table.len() / SECTOR;
        let sectors =
            RESERVED_SECTORS + FATS * fat_sectors + root_sectors + clusters * SECTORS_PER_CLUSTER;

        let mut image = boot_sector(sectors, fat_sectors, wide, serial)?;
        image.extend_from_slice(&table);
        image.extend_from_slice(&table);
        image.extend_from_slice(root);
        image.resize(
            (RESERVED_SECTORS + FATS * fat_sectors + root_sectors) * SECTOR,
            0,
        );
        image.extend_from_slice(&self.data);
        Ok(image)
    }

    /// The file allocation table, padded to whole sectors.
    fn table(&self, wide: bool, clusters: usize) -> Vec<u8> {
        let mut table = Vec::new();
        // The first number repeats the media type, the second one is an end mark.
        let numbers = [0xfff8, 0xffff].into_iter().chain(
            self.chains
                .iter()
                .map(|&next| if next == 0 { 0xffff } else { next }),
        );
        let mut numbers: Vec<usize> = numbers.collect();
        numbers.resize(clusters + FIRST_CLUSTER, 0);
        if wide {
            table.extend(
                numbers
                    .iter()
                    .flat_map(|n| [(n & 0xff) as u8, (n >> 8) as u8]),
            );
        } else {
            // Two numbers of 12 bits in three bytes.
            for pair in numbers.chunks(2) {
                let (a, b) = (pair[0] & 0xfff, pair.get(1).unwrap_or(&0) & 0xfff);
                table.extend([
                    (a & 0xff) as u8,
                    (a >> 8 | (b & 0xf) << 4) as u8,
                    (b >> 4) as u8,
                ]);
            }
        }
        table.resize(table.len().next_multiple_of(SECTOR), 0);
        table
    }
}

fn boot_sector(sectors: usize, fat_sectors: usize, wide: bool, serial: u32) -> Result<Vec<u8>> {
    let mut sector = vec![0; SECTOR];
    let mut put = |at: usize, bytes: &[u8]| sector[at..at + bytes.len()].copy_from_slice(bytes);
    let short = |number: usize| {
        u16::try_from(number).context("EFI system partition: a number is out of range")
    };
    put(0, &[0xeb, 0x3c, 0x90]);
    put(3, b"LANDFALL");
    put(11, &short(SECTOR)?.to_le_bytes());
    put(13, &[SECTORS_PER_CLUSTER as u8]);
    put(14, &short(RESERVED_SECTORS)?.to_le_bytes());
    put(16, &[FATS as u8]);
    put(17, &short(ROOT_ENTRIES)?.to_le_bytes());
    match u16::try_from(sectors) {
        Ok(sectors) => put(19, &sectors.to_le_bytes()),
        Err(_) => put(32, &u32::try_from(sectors)?.to_le_bytes()),
    }
    put(21, &[0xf8]);
    put(22, &short(fat_sectors)?.to_le_bytes());
    // Sectors per track and heads. No current reader uses them, but some reject
    // zeros.
    put(24, &[32, 0, 64, 0]);
    put(36, &[0x80, 0, 0x29]);
    put(39, &serial.to_le_bytes());
    put(43, LABEL);
    put(54, if wide { b"FAT16   " } else { b"FAT12   " });
    put(510, &[0x55, 0xaa]);
    Ok(sector)
}

fn entry(name: &[u8; 11], attribute: u8, cluster: usize, size: usize) -> Result<[u8; ENTRY]> {
    let mut entry = [0; ENTRY];
    entry[..11].copy_from_slice(name);
    entry[11] = attribute;
    for date in [16, 18, 24] {
        entry[date..date + 2].copy_from_slice(&NO_DATE);
    }
    let cluster = u16::try_from(cluster).context("EFI system partition: a file does not fit")?;
    entry[26..28].copy_from_slice(&cluster.to_le_bytes());
    entry[28..].copy_from_slice(&u32::try_from(size)?.to_le_bytes());
    Ok(entry)
}

/// `grubx64.efi` becomes `GRUBX64 EFI`. FAT ignores case, and no file here needs a
/// longer name.
fn short_name(path: &str) -> Result<[u8; 11]> {
    let file = path.rsplit('/').next().unwrap_or(path);
    let (name, ending) = file.split_once('.').unwrap_or((file, ""));
    let plain = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let fits = (1..=8).contains(&name.len()) && ending.len() <= 3 && plain(name) && plain(ending);
    ensure!(
        fits,
        "EFI system partition: expected a name of 8 and 3 letters, found `{file}`"
    );
    let mut short = [b' '; 11];
    short[..name.len()].copy_from_slice(name.to_ascii_uppercase().as_bytes());
    short[8..8 + ending.len()].copy_from_slice(ending.to_ascii_uppercase().as_bytes());
    Ok(short)
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

fn parents(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(end, _)| &path[..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn other_tools_find_the_files_and_no_fault() {
        // Around the limit of FAT12 (4085 clusters are 8.4 MB) and on both sides of
        // 65536 sectors.
        for big in [
            0, 1, 10_000, 4_900_000, 8_355_000, 8_400_000, 9_000_000, 40_000_000,
        ] {
            let content: Vec<u8> = (0..big).map(|n: u32| (n >> 8) as u8).collect();
            let files = [
                ("EFI/BOOT/BOOTX64.EFI", content.clone()),
                ("EFI/BOOT/grubx64.efi", b"second".to_vec()),
                ("boot/grub/grub.cfg", b"search\n".to_vec()),
            ];
            let image = build(&files, 0x1234_5678).unwrap();
            assert!(
                image.len() < content.len() + 120_000 + content.len() / 400,
                "{} for {big}",
                image.len()
            );
            assert_eq!(
                image,
                build(&files, 0x1234_5678).unwrap(),
                "same input, same bytes"
            );

            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("esp.img");
            std::fs::write(&path, &image).unwrap();
            let check = Command::new("fsck.fat")
                .arg("-nv")
                .arg(&path)
                .output()
                .unwrap();
            assert!(
                check.status.success(),
                "{big}: {}",
                String::from_utf8_lossy(&check.stdout)
            );
            for (name, expected) in &files {
                let read = Command::new("mtype")
                    .arg("-i")
                    .arg(&path)
                    .arg(format!("::/{name}"))
                    .output()
                    .unwrap();
                assert!(read.stdout == *expected, "{name} at {big}");
            }
            let label = Command::new("mlabel")
                .arg("-s")
                .arg("-i")
                .arg(&path)
                .arg("::")
                .output()
                .unwrap();
            assert!(String::from_utf8_lossy(&label.stdout).contains("LANDFALL"));
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for name in [
            "toolongname.efi",
            "a.html",
            "a b.efi",
            ".efi",
            "a.b.c",
            "dir-x/a.efi",
        ] {
            assert!(build(&[(name, Vec::new())], 0).is_err(), "{name}");
        }
        let many: Vec<String> = (0..ROOT_ENTRIES).map(|n| format!("f{n}.txt")).collect();
        let files: Vec<(&str, Vec<u8>)> = many
            .iter()
            .map(|name| (name.as_str(), Vec::new()))
            .collect();
        assert!(build(&files, 0).is_err());
        assert!(build(&files[1..], 0).is_ok());
    }
}
