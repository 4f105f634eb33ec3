//! Writes what an ISO or a ramdisk holds into a directory.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use landfall_host_media::{BaseIso, HostFile, HostVersion, files_in, put_file};
use landfall_initramfs::output_file::{CompleteFile, OutputFile};

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
            put_file(&mut ramdisk, added);
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
    let is_configuration = |path: &str| path.starts_with(CONFIGURATION);
    Ok(files_in(&bytes, MAX_UNPACKED_BYTES, is_configuration)?)
}

struct Outputs<'a> {
    directory: &'a Path,
    files: Vec<CompleteFile>,
}

impl Outputs<'_> {
    fn configuration(&mut self, files: &[HostFile]) -> Result<()> {
        // The files may hold passwords, and the ramdisk has them as 0600.
        files.iter().try_for_each(|file| {
            let name = format!("{FILES}/{}", file.path);
            self.write(&name, &mut &*file.bytes, 0o600)
        })
    }

    fn put(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        self.copy(name, &mut &*bytes)
    }

    fn copy(&mut self, name: &str, from: &mut impl io::Read) -> Result<()> {
        self.write(name, from, 0o644)
    }

    fn write(&mut self, name: &str, from: &mut impl io::Read, mode: u32) -> Result<()> {
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
        output.set_mode(mode);
        // Closes the file: an archive may have more files than a process may open.
        self.files.push(output.complete()?);
        Ok(())
    }

    fn finish(self) -> Result<Vec<PathBuf>> {
        let paths = self.files.iter().map(|file| file.path().to_owned());
        let mut paths: Vec<PathBuf> = paths.collect();
        paths.sort();
        CompleteFile::finish_all(self.files)?;
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

    #[test]
    fn configuration_is_private_and_its_files_are_closed() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let mut outputs = Outputs {
            directory: directory.path(),
            files: Vec::new(),
        };
        let file = |name: &str| HostFile {
            path: name.to_owned(),
            bytes: "x".into(),
        };
        outputs.put("public", b"x").unwrap();
        outputs.configuration(&[file("a"), file("b")]).unwrap();
        let open = std::fs::read_dir("/proc/self/fd").unwrap();
        let mut open = open.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
        assert_eq!(open.find(|path| path.starts_with(directory.path())), None);
        for path in outputs.finish().unwrap() {
            let mode = path.metadata().unwrap().permissions().mode() & 0o777;
            let expected = if path.ends_with("public") {
                0o644
            } else {
                0o600
            };
            assert_eq!(mode, expected, "{}", path.display());
        }
    }
}
