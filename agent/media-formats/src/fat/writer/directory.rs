//! The directories of a new file system.

use std::collections::BTreeMap;

use super::super::{ENTRY, FILE, SUB_DIRECTORY, VOLUME_LABEL, long_name};
use super::clusters::Clusters;
use super::{Layout, Names, WriteError};

/// The date of every entry: 1 January 1980, the first date that FAT can store.
/// The date has no meaning here.
const NO_DATE: [u8; 2] = [0x21, 0];

#[derive(Debug, Default)]
pub(super) struct Directory<'a>(BTreeMap<&'a str, Node<'a>>);

#[derive(Debug)]
enum Node<'a> {
    File(&'a [u8]),
    Directory(Directory<'a>),
}

impl<'a> Directory<'a> {
    pub(super) fn insert(&mut self, path: &'a str, content: &'a [u8]) -> Result<(), WriteError> {
        let Some((name, rest)) = path.split_once('/') else {
            let before = self.0.insert(path, Node::File(content));
            return before.map_or(Ok(()), |_| Err(WriteError::Twice(path.to_owned())));
        };
        let place = self.0.entry(name);
        match place.or_insert_with(|| Node::Directory(Self::default())) {
            Node::Directory(directory) => {
                let inserted = directory.insert(rest, content);
                inserted.map_err(|error| error.below(name))
            }
            Node::File(_) => Err(WriteError::FileAndDirectory(name.to_owned())),
        }
    }

    /// Writes the files into clusters. Returns the entries of the root directory.
    pub(super) fn entries(
        &self,
        clusters: &mut Clusters,
        layout: &Layout<'_>,
    ) -> Result<Vec<[u8; ENTRY]>, WriteError> {
        let mut entries = vec![entry(&padded(layout.label), VOLUME_LABEL, 0, 0)];
        // If the parent is the root directory, FAT requires the cluster number 0 in the
        // entry `..`.
        entries.extend(self.write(clusters, 0, layout.names)?);
        Ok(entries)
    }

    /// Writes the content of the directory into clusters. Returns its entries, which the
    /// caller stores. `own` is the directory's first cluster, or 0 for the root
    /// directory.
    fn write(
        &self,
        clusters: &mut Clusters,
        own: u16,
        names: Names,
    ) -> Result<Vec<[u8; ENTRY]>, WriteError> {
        let mut entries = Vec::new();
        for (index, (name, node)) in self.0.iter().enumerate() {
            let short = match names {
                Names::Short => short_name(name)?,
                Names::Long => {
                    // An alias has room for six digits, which suffice for a million
                    // files.
                    let alias = padded(&format!("FILE~{index:03}"));
                    let long = long_name::entries(name, &alias);
                    entries.extend(long.ok_or_else(|| WriteError::LongName((*name).to_owned()))?);
                    alias
                }
            };
            let (attribute, first, size) = match node {
                Node::File(content) => {
                    let first = clusters.reserve(content.len())?;
                    clusters.fill(first, content);
                    (FILE, first, content.len())
                }
                Node::Directory(directory) => {
                    let first = clusters.reserve(directory.len(names) * ENTRY)?;
                    let mut content = vec![
                        entry(&padded("."), SUB_DIRECTORY, first, 0),
                        entry(&padded(".."), SUB_DIRECTORY, own, 0),
                    ];
                    let written = directory.write(clusters, first, names);
                    content.extend(written.map_err(|error| error.below(name))?);
                    clusters.fill(first, &content.concat());
                    (SUB_DIRECTORY, first, 0)
                }
            };
            let size = u32::try_from(size).map_err(|_| WriteError::TooLarge)?;
            entries.push(entry(&short, attribute, first, size));
        }
        Ok(entries)
    }

    /// The number of entries, including `.` and `..`.
    fn len(&self, names: Names) -> usize {
        let long = match names {
            Names::Short => 0,
            Names::Long => self.0.keys().map(|name| long_name::count(name)).sum(),
        };
        2 + self.0.len() + long
    }
}

fn entry(name: &[u8; 11], attribute: u8, first: u16, size: u32) -> [u8; ENTRY] {
    let mut entry = [0; ENTRY];
    entry[..11].copy_from_slice(name);
    entry[11] = attribute;
    for date in [16, 18, 24] {
        entry[date..date + 2].copy_from_slice(&NO_DATE);
    }
    entry[26..28].copy_from_slice(&first.to_le_bytes());
    entry[28..32].copy_from_slice(&size.to_le_bytes());
    entry
}

/// The name as it is stored: padded with spaces to 11 bytes.
pub(super) fn padded(name: &str) -> [u8; 11] {
    let mut padded = [b' '; 11];
    for (place, byte) in padded.iter_mut().zip(name.bytes()) {
        *place = byte;
    }
    padded
}

/// Converts a file name to an 8.3 name: `grubx64.efi` becomes `GRUBX64 EFI`.
fn short_name(file: &str) -> Result<[u8; 11], WriteError> {
    let (name, ending) = file.split_once('.').unwrap_or((file, ""));
    let plain = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let fits = (1..=8).contains(&name.len()) && ending.len() <= 3 && plain(name) && plain(ending);
    if !fits {
        return Err(WriteError::ShortName(file.to_owned()));
    }
    let mut short = padded(&name.to_ascii_uppercase());
    short[8..8 + ending.len()].copy_from_slice(ending.to_ascii_uppercase().as_bytes());
    Ok(short)
}
