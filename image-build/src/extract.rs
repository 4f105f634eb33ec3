//! Writes what an ISO or a ramdisk holds into a directory.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use landfall_host_media::{BaseIso, HostFile, HostVersion};
use landfall_initramfs::compress::unpack_segments;
use landfall_initramfs::newc;
use landfall_initramfs::output_file::OutputFile;

use crate::inspect::{MAX_FILE_BYTES, MAX_UNPACKED_BYTES, is_iso};
use crate::pxe_tree;

const ARGUMENTS: &str = "kernel-arguments.txt";
/// The directory of the files from the ramdisk.
const FILES: &str = "files";
/// The configuration of the site and of its hosts.
const CONFIGURATION: &str = "etc/";

/// Writes all files, or none. Returns their paths, sorted.
pub(crate) fn extract(path: &Path, directory: &Path) -> Result<Vec<PathBuf>> {
    let mut file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let mut outputs = Outputs {
        directory,
        files: Vec::new(),
    };
    if is_iso(&mut file) {
        let iso = BaseIso::open(&file)?;
        let arguments = iso.kernel_args(&HostVersion::default())?;
        outputs.put(ARGUMENTS, format!("{arguments}\n").as_bytes())?;
        for (name, place) in [
            (pxe_tree::KERNEL, iso.kernel()),
            (pxe_tree::RAMDISK, iso.ramdisk()),
        ] {
            file.seek(SeekFrom::Start(place.start))?;
            outputs.copy(name, &mut (&file).take(place.end - place.start))?;
        }
        let place = iso.ramdisk();
        file.seek(SeekFrom::Start(place.start))?;
        let mut ramdisk = configuration(&mut (&file).take(place.end - place.start))?;
        for added in iso.files(&HostVersion::default()) {
            ramdisk.retain(|file| file.path != added.path);
            ramdisk.push(added);
        }
        outputs.configuration(&ramdisk)?;
    } else {
        file.rewind()?;
        let files = configuration(&mut file)?;
        outputs.configuration(&files)?;
    }
    outputs.finish()
}

/// The configuration in a ramdisk. A later file replaces an earlier one.
fn configuration(ramdisk: &mut impl io::Read) -> Result<Vec<HostFile>> {
    let mut bytes = Vec::new();
    ramdisk
        .take(u64::from(MAX_FILE_BYTES) + 1)
        .read_to_end(&mut bytes)
        .context("cannot read the ramdisk")?;
    if bytes.len() as u64 > u64::from(MAX_FILE_BYTES) {
        bail!("ramdisk: expected at most {MAX_FILE_BYTES} bytes, found more");
    }
    let mut files: Vec<HostFile> = Vec::new();
    for segment in unpack_segments(&bytes, MAX_UNPACKED_BYTES)? {
        for entry in newc::Reader::new(&segment.archive) {
            let entry = entry?;
            if entry.is_file() && entry.name.starts_with(CONFIGURATION) {
                files.retain(|file| file.path != entry.name);
                files.push(HostFile {
                    path: entry.name.to_owned(),
                    bytes: entry.data.to_vec().into(),
                });
            }
        }
    }
    Ok(files)
}

struct Outputs<'a> {
    directory: &'a Path,
    files: Vec<OutputFile>,
}

impl Outputs<'_> {
    fn configuration(&mut self, files: &[HostFile]) -> Result<()> {
        files
            .iter()
            .try_for_each(|file| self.put(&format!("{FILES}/{}", file.path), &file.bytes))
    }

    fn put(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        self.copy(name, &mut &*bytes)
    }

    fn copy(&mut self, name: &str, from: &mut impl io::Read) -> Result<()> {
        // An archive is input from outside: its names must not lead out of the
        // directory.
        let is_bad = |part: &str| matches!(part, "" | "." | "..") || part.contains('\0');
        if name.split('/').any(is_bad) {
            bail!("{name:?}: expected a relative path without empty, `.` or `..` parts");
        }
        let path = self.directory.join(name);
        let mut output = OutputFile::create_with_directories(&path, false)?;
        let writing = || format!("cannot write {}", path.display());
        io::copy(from, output.file()).with_context(writing)?;
        output.file().flush().with_context(writing)?;
        self.files.push(output);
        Ok(())
    }

    fn finish(self) -> Result<Vec<PathBuf>> {
        let paths = self.files.iter().map(|file| file.path().to_owned());
        let mut paths: Vec<PathBuf> = paths.collect();
        paths.sort();
        OutputFile::finish_all(self.files)?;
        Ok(paths)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_out_of_the_directory_are_errors() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("target");
        for name in ["../x", "/etc/x", "a/../../x", "a//x", "", "a/.", "a\0"] {
            let mut outputs = Outputs {
                directory: &target,
                files: Vec::new(),
            };
            assert!(outputs.put(name, b"x").is_err(), "{name:?}");
        }
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
