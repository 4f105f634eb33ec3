//! The files of a release. They get their final names only after all of them are
//! complete.

use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use landfall_initramfs::digest_writer::DigestWriter;
use landfall_initramfs::output_file::OutputFile;
use landfall_release::checksum_file;
use landfall_release::tar_tree::Content;
use serde::Serialize;

use crate::report::Report;

/// The file that lists the digests of all other files of the release.
const CHECKSUMS: &str = "SHA256SUMS";

/// A finished file.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Made {
    /// The path in the release's directory.
    pub(super) name: String,
    pub(super) bytes: u64,
    pub(super) sha256: String,
    /// The images and artefacts in an OCI archive.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) images: Vec<Image>,
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct Image {
    /// The name in the archive, as skopeo and podman take it.
    pub(super) name: String,
    /// The digest of the manifest: `sha256:HEX`.
    pub(super) digest: String,
}

pub(super) struct Outputs<'a> {
    directory: PathBuf,
    force: bool,
    report: &'a Report,
    files: Vec<OutputFile>,
    made: Vec<Made>,
}

impl<'a> Outputs<'a> {
    /// Fails if the directory is not empty and `force` is false, so that the files of two
    /// releases do not get mixed.
    pub(super) fn new(directory: &Path, force: bool, report: &'a Report) -> Result<Self> {
        let is_empty = match directory.read_dir() {
            Ok(mut entries) => entries.next().is_none(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
            Err(error) => {
                let cannot = format!("cannot list {}", directory.display());
                return Err(error).context(cannot);
            }
        };
        ensure!(
            is_empty || force,
            "{}: expected no directory or an empty one, found files -- name another directory, or replace the files with --force",
            directory.display()
        );
        Ok(Self {
            directory: directory.to_owned(),
            force,
            report,
            files: Vec::new(),
            made: Vec::new(),
        })
    }

    /// Adds a file that a function writes.
    pub(super) fn write(
        &mut self,
        name: &str,
        content: impl FnOnce(&mut dyn std::io::Write) -> Result<()>,
    ) -> Result<()> {
        let mut output = self.create(name)?;
        let path = output.path().to_owned();
        let writing = || format!("cannot write {}", path.display());
        let mut writer = DigestWriter::new(BufWriter::new(output.file()));
        content(&mut writer).with_context(writing)?;
        writer.flush().with_context(writing)?;
        let (bytes, sha256) = writer.finish();
        self.keep(name, output, bytes, sha256);
        Ok(())
    }

    /// Adds a file with this content.
    pub(super) fn copy(&mut self, name: &str, content: &Content) -> Result<()> {
        self.write(name, |out| {
            std::io::copy(&mut content.open()?, out)?;
            Ok(())
        })
    }

    /// Makes the file that was added last a program.
    pub(super) fn make_last_executable(&mut self) {
        if let Some(output) = self.files.last_mut() {
            output.set_mode(0o755);
        }
    }

    /// Records which images are in the archive that was added last.
    pub(super) fn name_images(&mut self, images: Vec<Image>) {
        if let Some(made) = self.made.last_mut() {
            made.images = images;
        }
    }

    /// Adds a file `NAME.sha256` for the file NAME that was added last.
    pub(super) fn checksum_of_last(&mut self) -> Result<()> {
        let Some(made) = self.made.last() else {
            return Ok(());
        };
        let file = made.name.rsplit('/').next().unwrap_or_default();
        let line = checksum_file::line(&made.sha256, file);
        let name = format!("{}.sha256", made.name);
        self.copy(&name, &Content::Bytes(line.into_bytes()))
    }

    pub(super) fn made(&self) -> &[Made] {
        &self.made
    }

    /// Adds the list of all files, and moves everything to its final path.
    pub(super) fn finish(mut self) -> Result<Vec<Made>> {
        let digests = self.made.iter().map(|made| (&*made.name, &*made.sha256));
        let list = checksum_file::list(digests);
        self.copy(CHECKSUMS, &Content::Bytes(list.into_bytes()))?;
        OutputFile::finish_all(self.files)?;
        Ok(self.made)
    }

    fn create(&self, name: &str) -> Result<OutputFile> {
        self.report.stage(name);
        let path = self.directory.join(name);
        Ok(OutputFile::create_with_directories(&path, self.force)?)
    }

    fn keep(&mut self, name: &str, output: OutputFile, bytes: u64, sha256: String) {
        self.files.push(output);
        self.made.push(Made {
            name: name.to_owned(),
            bytes,
            sha256,
            images: Vec::new(),
        });
    }
}
