//! Builds a VFAT file system with given files, for a config drive on a disk where
//! an ISO 9660 image cannot be mounted. It is FAT16 with clusters of 4 KiB and long
//! names ("FAT: General Overview of On-Disk Format", 2000). No I/O.
//!
//! The builder has another FAT writer for its boot medium, with 8.3 names and as
//! small as possible. The two have only the format in common.

use std::collections::BTreeMap;

use crate::disk::iso9660::File;

const CLUSTER: usize = 4096;
const ENTRY: usize = 32;
const ROOT_ENTRIES: usize = 512;
/// The permitted numbers of clusters. Drivers recognise FAT16 by this number alone.
const CLUSTERS: std::ops::Range<usize> = 4085..65525;
/// The number of the first cluster.
const FIRST: usize = 2;
const END_OF_CHAIN: u16 = 0xffff;
const DIRECTORY: u8 = 0x10;
const FILE: u8 = 0x20;
const LABEL: u8 = 0x08;
const LONG_NAME: u8 = 0x0f;
/// 1 January 1980.
const DATE: [u8; 2] = [0x21, 0];

/// Builds a file system of `len` bytes. Returns its first part; all bytes after it
/// are zeros.
///
/// # Errors
/// If the files do not fit, if FAT does not permit a name, or if FAT16 does not
/// permit the length.
pub fn build(files: &[File<'_>], label: &str, sector: usize, len: u64) -> Result<Vec<u8>, String> {
    let root_len = ROOT_ENTRIES * ENTRY;
    let count = usize::try_from(len / CLUSTER as u64).unwrap_or(usize::MAX);
    // `count` includes the space of the tables, so they get a little too long. That
    // does no harm.
    let fat_len = (count.min(CLUSTERS.end) * 2).next_multiple_of(CLUSTER);
    // The boot sector gets a whole cluster, so that everything after it is aligned
    // to 4 KiB.
    let data = CLUSTER + 2 * fat_len + root_len;
    let clusters = count.saturating_sub(data / CLUSTER);
    if !CLUSTERS.contains(&clusters) {
        return Err(format!("{len} bytes are no size for FAT16"));
    }
    let mut volume = Volume {
        fat: vec![0xfff8, END_OF_CHAIN],
        data: Vec::new(),
    };
    let tree = Directory::of(files)?;
    let mut root = vec![entry(&short_text(label), LABEL, 0, 0)];
    root.extend(tree.write(&mut volume, 0)?);
    if root.len() > ROOT_ENTRIES || volume.fat.len() - FIRST > clusters {
        return Err(format!("its files do not fit into {len} bytes"));
    }
    let mut image = boot_sector(sector, len, fat_len, label);
    image.resize(CLUSTER, 0);
    for _ in 0..2 {
        let start = image.len();
        image.extend(volume.fat.iter().flat_map(|next| next.to_le_bytes()));
        image.resize(start + fat_len, 0);
    }
    image.extend(root.concat());
    image.resize(data, 0);
    image.extend(volume.data);
    Ok(image)
}

struct Volume {
    fat: Vec<u16>,
    data: Vec<u8>,
}

impl Volume {
    /// Reserves clusters for `len` bytes. Returns the first one, or 0 if `len` is
    /// 0.
    fn reserve(&mut self, len: usize) -> Result<u16, String> {
        let first = self.fat.len();
        let count = len.div_ceil(CLUSTER);
        if first + count > CLUSTERS.end {
            return Err("its files do not fit".to_owned());
        }
        // The casts are lossless: the check above limits the numbers to 16 bits.
        self.fat.extend((1..count).map(|n| (first + n) as u16));
        self.fat.extend((count > 0).then_some(END_OF_CHAIN));
        self.data.resize(self.data.len() + count * CLUSTER, 0);
        Ok(if count == 0 { 0 } else { first as u16 })
    }

    fn fill(&mut self, first: u16, content: &[u8]) {
        let start = (usize::from(first).saturating_sub(FIRST)) * CLUSTER;
        self.data[start..start + content.len()].copy_from_slice(content);
    }
}

#[derive(Default)]
struct Directory<'a>(BTreeMap<&'a str, Node<'a>>);

enum Node<'a> {
    File(&'a [u8]),
    Directory(Directory<'a>),
}

impl<'a> Directory<'a> {
    fn of(files: &'a [File<'_>]) -> Result<Self, String> {
        let mut root = Self::default();
        for (path, content) in files {
            root.insert(path, content)?;
        }
        Ok(root)
    }

    fn insert(&mut self, path: &'a str, content: &'a [u8]) -> Result<(), String> {
        let (name, rest) = match path.split_once('/') {
            Some((name, rest)) => (name, Some(rest)),
            None => (path, None),
        };
        let Some(rest) = rest else {
            let before = self.0.insert(name, Node::File(content));
            return before.map_or(Ok(()), |_| Err(format!("{name} is there twice")));
        };
        let place = self.0.entry(name);
        match place.or_insert_with(|| Node::Directory(Self::default())) {
            Node::Directory(directory) => directory.insert(rest, content),
            Node::File(_) => Err(format!("{name} is a file and a directory")),
        }
    }

    /// Writes the content of the directory to the volume. Returns the directory's
    /// entries, which the caller stores. `own` is the first cluster of the
    /// directory.
    fn write(&self, volume: &mut Volume, own: u16) -> Result<Vec<[u8; ENTRY]>, String> {
        let mut entries = Vec::new();
        for (index, (name, node)) in self.0.iter().enumerate() {
            // Eight characters are enough for a thousand files in a directory. Long
            // names in a directory must not differ in case alone.
            let alias = short_text(&format!("FILE~{index:03}"));
            entries.extend(long_name(name, &alias)?);
            let (attribute, first, size) = match node {
                Node::File(content) => {
                    let first = volume.reserve(content.len())?;
                    volume.fill(first, content);
                    (FILE, first, content.len())
                }
                Node::Directory(directory) => {
                    let first = volume.reserve(directory.len() * ENTRY)?;
                    let mut content = vec![
                        entry(&short_text("."), DIRECTORY, first, 0),
                        entry(&short_text(".."), DIRECTORY, own, 0),
                    ];
                    content.extend(directory.write(volume, first)?);
                    volume.fill(first, &content.concat());
                    (DIRECTORY, first, 0)
                }
            };
            // The cast is lossless: a config drive is at most 64 MiB.
            entries.push(entry(&alias, attribute, first, size as u32));
        }
        Ok(entries)
    }

    /// The number of entries, including those of the directory itself and of its
    /// parent.
    fn len(&self) -> usize {
        let names = self.0.keys();
        2 + names.map(|name| long_name_parts(name) + 1).sum::<usize>()
    }
}

/// The name as in a directory entry: filled with spaces up to 11 bytes.
fn short_text(name: &str) -> [u8; 11] {
    let mut short = [b' '; 11];
    for (place, byte) in short.iter_mut().zip(name.bytes()) {
        *place = byte;
    }
    short
}

fn entry(name: &[u8; 11], attribute: u8, first: u16, size: u32) -> [u8; ENTRY] {
    let mut entry = [0; ENTRY];
    entry[..11].copy_from_slice(name);
    entry[11] = attribute;
    entry[16..18].copy_from_slice(&DATE);
    entry[18..20].copy_from_slice(&DATE);
    entry[24..26].copy_from_slice(&DATE);
    entry[26..28].copy_from_slice(&first.to_le_bytes());
    entry[28..32].copy_from_slice(&size.to_le_bytes());
    entry
}

/// The number of UTF-16 units in each record of a long name.
const PART: usize = 13;

fn long_name_parts(name: &str) -> usize {
    name.encode_utf16().count().div_ceil(PART)
}

/// The records of a long name, the last part first.
fn long_name(name: &str, alias: &[u8; 11]) -> Result<Vec<[u8; ENTRY]>, String> {
    let mut units: Vec<u16> = name.encode_utf16().collect();
    if units.len() > 255 || name.contains(['"', '*', ':', '<', '>', '?', '|', '\\']) {
        return Err(format!("{name:?} is no name for a file on FAT"));
    }
    let parts = units.len().div_ceil(PART);
    if !units.len().is_multiple_of(PART) {
        units.push(0);
    }
    units.resize(parts * PART, 0xffff);
    let checksum = alias
        .iter()
        .fold(0u8, |sum, byte| sum.rotate_right(1).wrapping_add(*byte));
    let mut records: Vec<[u8; ENTRY]> = (1u8..)
        .zip(units.chunks_exact(PART))
        .map(|(number, part)| {
            let mut record = [0; ENTRY];
            record[0] = number;
            record[11] = LONG_NAME;
            record[13] = checksum;
            let places = (1..11).chain(14..26).chain(28..32);
            let bytes = part.iter().flat_map(|unit| unit.to_le_bytes());
            for (place, byte) in places.zip(bytes) {
                record[place] = byte;
            }
            record
        })
        .collect();
    if let Some(last) = records.last_mut() {
        last[0] |= 0x40;
    }
    records.reverse();
    Ok(records)
}

fn boot_sector(sector: usize, len: u64, fat_len: usize, label: &str) -> Vec<u8> {
    // All casts are lossless: a sector has 512 or 4096 bytes, and a FAT16 volume at
    // most 256 MiB here.
    let short = |value: usize| (value as u16).to_le_bytes();
    let sectors = len / sector as u64;
    let mut boot = vec![0; sector];
    boot[..3].copy_from_slice(&[0xeb, 0x3c, 0x90]);
    boot[3..11].copy_from_slice(b"LANDFALL");
    boot[11..13].copy_from_slice(&short(sector));
    boot[13] = (CLUSTER / sector) as u8;
    boot[14..16].copy_from_slice(&short(CLUSTER / sector));
    boot[16] = 2;
    boot[17..19].copy_from_slice(&short(ROOT_ENTRIES));
    match u16::try_from(sectors) {
        Ok(count) => boot[19..21].copy_from_slice(&count.to_le_bytes()),
        Err(_) => boot[32..36].copy_from_slice(&(sectors as u32).to_le_bytes()),
    }
    boot[21] = 0xf8;
    boot[22..24].copy_from_slice(&short(fat_len / sector));
    boot[24..28].copy_from_slice(&[63, 0, 255, 0]);
    boot[36] = 0x80;
    boot[38] = 0x29;
    boot[39..43].copy_from_slice(b"CFG2");
    boot[43..54].copy_from_slice(&short_text(label));
    boot[54..62].copy_from_slice(b"FAT16   ");
    boot[510..512].copy_from_slice(&[0x55, 0xaa]);
    boot
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::disk::iso9660::tests::DRIVE;
    use crate::skip::skip;

    fn run(program: &str, arguments: &[&str]) -> Option<Vec<u8>> {
        let output = Command::new(program)
            .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
            .env("MTOOLS_SKIP_CHECK", "1")
            .args(arguments)
            .output();
        match output {
            Ok(output) => {
                assert!(
                    output.status.success(),
                    "{program} {arguments:?}: {output:?}"
                );
                Some(output.stdout)
            }
            Err(error) => {
                skip(format_args!("{program}: {error}"));
                None
            }
        }
    }

    fn files() -> Vec<File<'static>> {
        let mut files: Vec<File> = DRIVE
            .iter()
            .map(|(path, content)| ((*path).to_owned(), *content))
            .collect();
        // These make a directory that is longer than a cluster.
        files.extend((0..100).map(|n| (format!("many/a file of 26 letters.{n:03}"), &b"x"[..])));
        files
    }

    #[test]
    fn other_tools_find_the_files_and_no_fault() {
        for sector in [512, 4096] {
            let len = 64 << 20;
            let mut image = build(&files(), "CONFIG-2", sector, len).unwrap();
            assert!(image.len() < 2 << 20, "only what is not zeros");
            image.resize(len as usize, 0);
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), &image).unwrap();
            let path = file.path().to_str().unwrap();
            if run("fsck.fat", &["-n", path]).is_none() {
                return;
            }
            for (name, content) in files() {
                let Some(found) = run("mtype", &["-i", path, &format!("::/{name}")]) else {
                    return;
                };
                assert!(found == content, "{name}");
            }
            let found = crate::disk::file_system::identify(&image[..36 << 10]).unwrap();
            assert_eq!((found.kind, found.label.as_str()), ("vfat", "CONFIG-2"));
        }
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        let large = vec![0; 65 << 20];
        let files = [("a".to_owned(), &large[..])];
        for (files, len) in [
            (&files[..], 64 << 20),
            (&[], 1 << 20),
            (&[], 1 << 40),
            (
                &[("a".to_owned(), &b""[..]), ("a/b".to_owned(), &b""[..])],
                64 << 20,
            ),
            (&[("a:".to_owned(), &b""[..])], 64 << 20),
        ] {
            assert!(build(files, "CONFIG-2", 4096, len).is_err());
        }
    }
}
