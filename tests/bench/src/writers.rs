//! Runs the compared programs: defines how each writes an image from a URL to a
//! disk.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use landfall_tests::artifacts;

use super::file_server::FileServer;
use super::image::{Form, Images};
use super::measured::{self, Before, Usage};
use super::ram_disk::RamDisk;

/// A program or a chain of programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Writer {
    /// The agent.
    Landfall,
    /// coreos-installer, as its published crate.
    CoreosInstaller,
    /// ironic-python-agent: raw images are streamed,
    /// others are downloaded into memory and passed to `qemu-img convert`.
    IronicAgent,
    /// `curl | zstd -dc | dd`.
    ZstdDd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// A loop device over a file in memory.
    Disk,
    /// A file in memory.
    File,
}

impl Target {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::File => "file",
        }
    }
}

impl Writer {
    pub(super) fn name(self, form: Form) -> &'static str {
        match self {
            Self::Landfall => "landfall",
            Self::CoreosInstaller => "coreos-installer",
            Self::IronicAgent if form.is_qcow2() => "Ironic's agent: download, qemu-img",
            Self::IronicAgent => "Ironic's agent: streaming loop",
            Self::ZstdDd => "curl, zstd, dd",
        }
    }
}

pub(super) struct Bench {
    pub(super) images: Images,
    pub(super) server: FileServer,
    pub(super) disk: RamDisk,
}

impl Bench {
    pub(super) fn run(&self, writer: Writer, form: Form, target: Target) -> Result<Usage> {
        self.disk.empty()?;
        let output = match target {
            Target::Disk => self.disk.device(),
            Target::File => self.disk.file(),
        };
        let url = self.server.url(form.file_name());
        match writer {
            Writer::Landfall => measured::run(&mut self.landfall(&url, form, output)?),
            Writer::CoreosInstaller => {
                let installer = artifacts::coreos_installer()?;
                let mut command = Command::new(installer);
                command.args(["install", "--insecure", "--image-url", &url]);
                measured::run(quiet(command.arg(output), &self.stderr_path())?)
            }
            Writer::ZstdDd => self.zstd_dd(&url, output),
            Writer::IronicAgent if form.is_qcow2() => {
                self.ironic_agent_staged(&url, form, target, output)
            }
            Writer::IronicAgent => self.ironic_agent_loop(&url, form, output),
        }
        .with_context(|| {
            let stderr = fs::read_to_string(self.stderr_path()).unwrap_or_default();
            format!("{} with {}: {stderr}", writer.name(form), form.name())
        })
    }

    /// The file for the standard error of the running program.
    fn stderr_path(&self) -> PathBuf {
        self.disk.folder().join("said")
    }

    /// The command `landfall-agent write-image`.
    pub(super) fn landfall(&self, url: &str, form: Form, output: &Path) -> Result<Command> {
        let mut command = Command::new(artifacts::agent()?);
        command.args(["write-image", "--allow-this-machine", "--image-digest"]);
        command.arg(format!("sha256:{}", self.images.sha256(form)));
        quiet(command.arg(url).arg(output), &self.stderr_path())?;
        Ok(command)
    }

    fn ironic_agent_loop(&self, url: &str, form: Form, output: &Path) -> Result<Usage> {
        let script = self.disk.folder().join("ironic_agent_loop.py");
        fs::write(&script, include_str!("ironic_agent_loop.py"))?;
        let before = self.disk.folder().join("cpu_before");
        let mut command = Command::new("python3");
        command.arg(script).arg(url).arg(output);
        command.arg(self.images.sha256(form)).arg(&before);
        let mut usage = measured::run(&mut command)?;
        let started: f64 = fs::read_to_string(before)?.parse()?;
        usage.cpu = usage.cpu.saturating_sub(Duration::from_secs_f64(started));
        Ok(usage)
    }

    fn ironic_agent_staged(
        &self,
        url: &str,
        form: Form,
        target: Target,
        output: &Path,
    ) -> Result<Usage> {
        let staged = self.disk.folder().join("staged");
        let download = self.ironic_agent_loop(url, form, &staged)?;
        let staged_bytes = staged.metadata()?.len();
        // disk_utils.populate_image uses these options for a whole disk.
        // qemu_img.convert_image sets this environment variable.
        let mut command = Command::new("qemu-img");
        let kind = match target {
            Target::Disk => "host_device",
            Target::File => "raw",
        };
        command.env("MALLOC_ARENA_MAX", "3");
        command.args(["convert", "-O", kind, "-t", "directsync", "-S", "0"]);
        command.args(["-f", "qcow2", "-W"]).arg(&staged).arg(output);
        let mut usage = download.then(measured::run(&mut command)?);
        usage.memory += staged_bytes;
        fs::remove_file(staged)?;
        Ok(usage)
    }

    fn zstd_dd(&self, url: &str, output: &Path) -> Result<Usage> {
        let before = Before::now()?;
        let mut curl = Command::new("curl");
        let mut curl = curl.args(["-sf", url]).stdout(Stdio::piped()).spawn()?;
        let mut zstd = Command::new("zstd");
        zstd.arg("-dcq").stdout(Stdio::piped());
        zstd.stdin(curl.stdout.take().context("curl without output")?);
        let mut zstd = zstd.spawn()?;
        let mut dd = Command::new("dd");
        dd.args(["bs=1M", "iflag=fullblock", "oflag=direct", "conv=notrunc"]);
        dd.arg(format!("of={}", output.display()));
        dd.stdin(zstd.stdout.take().context("zstd without output")?);
        let dd = quiet(&mut dd, &self.stderr_path())?.spawn()?;
        measured::wait(vec![curl, zstd, dd], &before)
    }
}

/// Discards standard output and keeps standard error for a failure: programs print
/// their progress for people.
fn quiet<'a>(command: &'a mut Command, stderr: &Path) -> Result<&'a mut Command> {
    Ok(command.stdout(Stdio::null()).stderr(File::create(stderr)?))
}
