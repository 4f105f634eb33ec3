//! Writes and verifies SHA256SUMS, the list on an ISO with the digest of every
//! file. `sha256sum -c SHA256SUMS` can read the list too.
//!
//! A comment line in the list holds the digest of the whole image. It covers what
//! is outside the files: boot sectors, partition table, directories. Both kinds of
//! digest leave out the areas that are overwritten for one host, and the list
//! itself.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use anyhow::{Context as _, Result, anyhow, ensure};
use landfall_initramfs::digest_writer::DigestWriter;
use landfall_media_formats::iso9660::{Extent, Iso, IsoError};

use crate::areas;

/// The path of the list on the medium.
pub(crate) const PATH: &str = "SHA256SUMS";
/// The size of the list in bytes: enough for some forty files, each with 65
/// bytes and a path.
pub(crate) const SIZE: usize = 4096;
/// The maximum size in bytes of a list that the builder reads.
const LIMIT: u32 = 1 << 20;
/// The files that the digests leave out: the areas, which may change, and the list
/// itself. Two of the paths are for kernel arguments; an ISO has only one of these two.
const LEFT_OUT: [&str; 5] = [
    areas::EMBED_PATH,
    areas::IGNITION_PATH,
    areas::KARGS_PATH,
    areas::OLD_KARGS_PATH,
    PATH,
];
const TITLE: &str = "# Check the files of this medium with: sha256sum -c SHA256SUMS\n";
const WHOLE: &str = "# the whole medium without its areas for hosts: ";

/// Writes the list into the finished ISO, which must already have a file of [`SIZE`]
/// bytes for it.
pub(crate) fn write(image: &Path) -> Result<()> {
    let writing = || format!("cannot write {PATH} into {}", image.display());
    let open = || File::options().read(true).write(true).open(image);
    let file = open().with_context(writing)?;
    let mut iso = Iso::open(open().with_context(writing)?)?;
    let mut lines = String::new();
    let mut digests = Digests::of(&file);
    for (path, extent) in iso.all_files()? {
        if !LEFT_OUT.contains(&path.as_str()) {
            lines += &format!("{}  {path}\n", digests.get(extent)?);
        }
    }
    let size = file.metadata().with_context(writing)?.len();
    let whole = digest(&file, &covered(&mut iso, size)?)?;
    let head = format!("{TITLE}{WHOLE}{size} bytes, sha256 {whole}\n");
    let place = iso.find(PATH)?;
    let padding = SIZE
        .checked_sub(head.len() + lines.len() + 2)
        .with_context(|| format!("{PATH}: expected at most {SIZE} bytes, found more"))?;
    ensure!(
        place.size == SIZE as u64,
        "{PATH}: expected {SIZE} bytes, found {}",
        place.size
    );
    let text = format!("{head}#{:#<padding$}\n{lines}", "");
    file.write_all_at(text.as_bytes(), place.offset)
        .and_then(|()| file.sync_all())
        .with_context(writing)
}

/// The result of comparing an ISO with its list.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// Number of files that have the listed digest; `None` if there is no list.
    pub(crate) good_files: Option<usize>,
    /// Size of the medium in bytes, according to the list; `None` if the list does not
    /// contain it. A USB stick to which the medium was copied is larger.
    pub(crate) size: Option<u64>,
    pub(crate) faults: Vec<String>,
}

pub(crate) fn verify(image: &Path, iso: &mut Iso<File>) -> Result<Verdict> {
    let file = File::open(image).with_context(|| format!("cannot open {}", image.display()))?;
    let size = file_size(image, &file)?;
    let mut faults = Vec::new();
    let text = match iso.read(PATH, LIMIT) {
        Ok(text) => text,
        // An older builder wrote no list. The size of the volume still shows whether
        // the ISO is cut off.
        Err(IsoError::NotFound(_)) => {
            if size < iso.size {
                faults.push(cut_off(iso.size, size));
            }
            return Ok(Verdict {
                faults,
                ..Verdict::default()
            });
        }
        Err(error) => {
            faults.push(error.to_string());
            return Ok(Verdict {
                good_files: Some(0),
                faults,
                ..Verdict::default()
            });
        }
    };
    let text = String::from_utf8_lossy(&text);
    let whole = Whole::parse(&text);
    let whole_size = whole.as_ref().ok().map(|whole| whole.size);
    if let Ok(whole) = &whole
        && size < whole.size
    {
        faults.push(cut_off(whole.size, size));
    }
    let good_files = check_files(&file, iso, &text, size, &mut faults)?;
    match whole {
        Err(error) => faults.push(error.to_string()),
        // Report only the damaged files: the digest of the whole image would add
        // nothing.
        Ok(_) if !faults.is_empty() => {}
        Ok(whole) => {
            if digest(&file, &covered(iso, whole.size)?)? != whole.sha256 {
                faults.push(
                    "damaged or changed outside of its files: boot sectors, partition table or directories"
                        .to_owned(),
                );
            }
        }
    }
    Ok(Verdict {
        good_files: Some(good_files),
        size: whole_size,
        faults,
    })
}

/// Compares the files of the ISO with the list `text`, and adds the differences to
/// `faults`. `size` is the size of the image in bytes. Returns the number of files that
/// have the listed digest.
fn check_files(
    image: &File,
    iso: &mut Iso<File>,
    text: &str,
    size: u64,
    faults: &mut Vec<String>,
) -> Result<usize> {
    let mut digests = Digests::of(image);
    let mut listed: Vec<&str> = Vec::new();
    let mut good_files = 0;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((expected, path)) = line.split_once("  ") else {
            faults.push(format!("{PATH}: expected DIGEST  PATH, found {line:?}"));
            continue;
        };
        listed.push(path);
        match iso.find(path) {
            Err(error) => faults.push(error.to_string()),
            Ok(extent) if extent.offset + extent.size > size => {
                faults.push(format!("{path}: cut off"));
            }
            Ok(extent) => match digests.get(extent)? {
                found if found == expected => good_files += 1,
                found => faults.push(format!(
                    "{path}: damaged or changed, expected sha256 {expected}, found {found}"
                )),
            },
        }
    }
    for (path, _) in iso.all_files()? {
        if !LEFT_OUT.contains(&path.as_str()) && !listed.contains(&path.as_str()) {
            faults.push(format!("{path}: not in {PATH}, added after the build"));
        }
    }
    Ok(good_files)
}

/// The size of a regular file, or of a disk to which the ISO was copied.
fn file_size(image: &Path, file: &File) -> Result<u64> {
    let mut file = file;
    file.seek(SeekFrom::End(0))
        .with_context(|| format!("cannot get the size of {}", image.display()))
}

fn cut_off(expected: u64, found: u64) -> String {
    format!("cut off: expected {expected} bytes, found {found}")
}

/// The parsed comment line about the whole image.
struct Whole {
    size: u64,
    sha256: String,
}

impl Whole {
    fn parse(text: &str) -> Result<Self> {
        let line = text.lines().find_map(|line| line.strip_prefix(WHOLE));
        let line = line
            .ok_or_else(|| anyhow!("{PATH}: expected a line about the whole medium, found none"))?;
        let fields = line.split_once(" bytes, sha256 ");
        let whole = fields.and_then(|(size, sha256)| {
            let size = size.parse().ok()?;
            let sha256 = sha256.to_owned();
            Some(Self { size, sha256 })
        });
        whole.ok_or_else(|| anyhow!("{PATH}: the line about the whole medium is damaged"))
    }
}

fn range(extent: Extent) -> Range<u64> {
    extent.offset..extent.offset + extent.size
}

/// The ranges of the image that the digest of the whole image covers.
fn covered(iso: &mut Iso<File>, size: u64) -> Result<Vec<Range<u64>>> {
    let mut gaps = Vec::new();
    for path in LEFT_OUT {
        match iso.find(path) {
            Ok(extent) => gaps.push(range(extent)),
            Err(IsoError::NotFound(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    gaps.sort_by_key(|gap| gap.start);
    let mut ranges = Vec::new();
    let mut start = 0;
    for gap in gaps {
        ranges.push(start..gap.start.max(start));
        start = gap.end.max(start);
    }
    ranges.push(start..size.max(start));
    Ok(ranges)
}

/// The digests of files. Kernel and ramdisk have two paths each, and are read once.
struct Digests<'a> {
    image: &'a File,
    /// By offset and size.
    known: BTreeMap<(u64, u64), String>,
}

impl<'a> Digests<'a> {
    fn of(image: &'a File) -> Self {
        Self {
            image,
            known: BTreeMap::new(),
        }
    }

    fn get(&mut self, extent: Extent) -> Result<String> {
        let key = (extent.offset, extent.size);
        if let Some(digest) = self.known.get(&key) {
            return Ok(digest.clone());
        }
        let digest = digest(self.image, &[range(extent)])?;
        self.known.insert(key, digest.clone());
        Ok(digest)
    }
}

fn digest(file: &File, ranges: &[Range<u64>]) -> Result<String> {
    let mut writer = DigestWriter::new(io::sink());
    let mut file = file;
    for range in ranges {
        file.seek(SeekFrom::Start(range.start))?;
        let mut part = file.take(range.end - range.start);
        io::copy(&mut part, &mut writer).context("cannot read the ISO")?;
    }
    writer.flush()?;
    Ok(writer.finish().1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_line_about_the_medium_is_not_a_damaged_one() {
        for (text, expected) in [
            (
                TITLE.to_owned(),
                "SHA256SUMS: expected a line about the whole medium, found none",
            ),
            (
                format!("{TITLE}{WHOLE}many bytes, sha256 0\n"),
                "SHA256SUMS: the line about the whole medium is damaged",
            ),
        ] {
            let fault = Whole::parse(&text).err().map(|fault| fault.to_string());
            assert_eq!(fault.as_deref(), Some(expected));
        }
    }
}
