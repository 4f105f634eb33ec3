//! Runs the sub-command `landfall-image kargs`.

use std::fs::{self, File, Metadata};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use landfall_boot_params::cmdline::MAX_KERNEL_ARGS;
use landfall_disk::image::decode::Packing;
use landfall_handover::install_coreos::CoreosChanges;
use landfall_initramfs::output_file::OutputFile;
use landfall_initramfs::temporary::TemporaryPath;
use serde::Serialize;

use crate::boot_image::{self, BootImage, BootSettings};
use crate::cli::KargsArguments;
use crate::lock;
use crate::repack::{self, Measured};
use crate::report::{Report, megabytes};

/// In bytes: how much of a keyfile is read. The crate landfall-handover has a smaller
/// limit and rejects larger keyfiles, so also one that was cut here.
const MOST_KEYFILE: u64 = 1 << 20;
/// The name of an unpacked copy begins with this.
const SCRATCH: &str = ".landfall-kargs-";

#[derive(Serialize)]
struct Settings {
    kernel_args: String,
    network_keyfiles: Vec<String>,
}

impl From<BootSettings> for Settings {
    fn from(found: BootSettings) -> Self {
        Self {
            kernel_args: found.kernel_args,
            network_keyfiles: found.network_keyfiles,
        }
    }
}

#[derive(Serialize)]
struct FileDigest {
    bytes: u64,
    sha256: String,
}

impl From<Measured> for FileDigest {
    fn from((bytes, sha256): Measured) -> Self {
        Self { bytes, sha256 }
    }
}

#[derive(Serialize)]
struct Summary {
    path: PathBuf,
    /// `raw` or `qcow2`.
    format: &'static str,
    /// `none`, `gzip`, `xz` or `zstd`.
    packing: String,
    #[serde(flatten)]
    file: FileDigest,
    /// The same as the file itself, if it is not packed.
    unpacked: FileDigest,
    #[serde(flatten)]
    settings: Settings,
}

pub(crate) fn run(arguments: &KargsArguments) -> Result<()> {
    let report = Report::new(arguments.result.json);
    let changes = changes(arguments)?;
    let image = &arguments.image;
    if changes.is_empty() {
        ensure!(
            arguments.result.output.is_none() && !arguments.result.in_place,
            "expected a change, such as --append, found none -- give a change, or leave out -o and --in-place to see the settings of the image"
        );
        return show(image, &report);
    }
    changes.check()?;
    let target = match (&arguments.result.output, arguments.result.in_place) {
        (Some(path), false) => path.clone(),
        // The link stays, and the file behind it is replaced.
        (None, true) => {
            fs::canonicalize(image).with_context(|| format!("cannot read {}", image.display()))?
        }
        _ => bail!("expected -o FILE for the changed image, or --in-place to replace IMAGE"),
    };
    is_file(image)?;
    // Without the lock, two runs that replace the image at the same time would lose the
    // changes of the run that ends first.
    let file = match arguments.result.in_place {
        true => lock::to_write(&target)?,
        false => lock::to_read(image)?,
    };
    let packing = repack::packing_of(image, &file)?;
    let mut output =
        OutputFile::create(&target, arguments.result.force || arguments.result.in_place)?;
    // A private image stays private: a keyfile may hold a password.
    let metadata = file.metadata();
    let metadata = metadata.with_context(|| format!("cannot read {}", image.display()))?;
    output.set_mode(metadata.permissions().mode() & 0o777);
    if arguments.result.in_place {
        keep_owner(&metadata, &mut output, &report)?;
    }
    let summary = if packing == Packing::Raw {
        change_plain(image, &file, &mut output, &changes, &report)?
    } else {
        change_packed(image, &file, packing, &mut output, &changes, &report)?
    };
    let len = summary.settings.kernel_args.len();
    if len > MAX_KERNEL_ARGS {
        report.warnings(&[format!(
            "the kernel arguments have {len} bytes: on x86_64 the kernel ignores everything after byte {MAX_KERNEL_ARGS}"
        )]);
    }
    if arguments.result.in_place {
        lock::still_there(&file, &target)?;
    }
    output.finish()?;
    report.done(&summary, &summary.text())
}

fn changes(arguments: &KargsArguments) -> Result<CoreosChanges> {
    let keyfiles = arguments.network_keyfile.iter();
    Ok(CoreosChanges {
        append_kargs: arguments.append.clone(),
        delete_kargs: arguments.delete.clone(),
        platform: arguments.platform.clone(),
        consoles: arguments.console.clone(),
        firstboot_args: arguments.firstboot_args.clone(),
        network_keyfiles: keyfiles.map(|path| keyfile(path)).collect::<Result<_>>()?,
        ignition: None,
    })
}

/// The name and the content of a keyfile.
fn keyfile(path: &Path) -> Result<(String, Vec<u8>)> {
    let reading = || format!("cannot read {}", path.display());
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.with_context(|| format!("{}: expected a file name", path.display()))?;
    let mut content = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MOST_KEYFILE).read_to_end(&mut content))
        .with_context(reading)?;
    Ok((name.to_owned(), content))
}

fn is_file(image: &Path) -> Result<()> {
    let metadata = fs::metadata(image);
    ensure!(
        metadata
            .with_context(|| format!("cannot read {}", image.display()))?
            .is_file(),
        "{}: expected a regular file, found something else",
        image.display()
    );
    Ok(())
}

/// Gives the new file to the owner of the image: the service that uses it may not be
/// able to read a private file of somebody else.
fn keep_owner(image: &Metadata, output: &mut OutputFile, report: &Report) -> Result<()> {
    let path = output.path().display().to_string();
    let made = output.file().metadata();
    let made = made.with_context(|| format!("cannot get the owner of {path}"))?;
    let (uid, gid) = (image.uid(), image.gid());
    if (uid, gid) == (made.uid(), made.gid()) {
        return Ok(());
    }
    if let Err(error) = fchown(output.file(), Some(uid), Some(gid)) {
        report.warnings(&[format!(
            "{path}: cannot keep its owner (uid {uid}, gid {gid}): {error} -- change it with chown"
        )]);
    }
    Ok(())
}

fn show(image: &Path, report: &Report) -> Result<()> {
    is_file(image)?;
    let file = lock::to_read(image)?;
    let packing = repack::packing_of(image, &file)?;
    if packing == Packing::Raw {
        return show_disk(file, image, report);
    }
    // Unpack in the image's directory if it is writable: TMPDIR is often in memory.
    let directory = directory_of(image);
    let elsewhere = std::env::temp_dir();
    let (first, second) = (directory.display(), elsewhere.display());
    let scratch = TemporaryPath::file(directory, SCRATCH);
    let (mut unpacked, _scratch) = scratch
        .or_else(|_| TemporaryPath::file(&elsewhere, SCRATCH))
        .with_context(|| format!("cannot make a file in {first}, nor in {second}"))?;
    repack::unpack(image, &file, &mut unpacked, boot_image::most_bytes, report)?;
    show_disk(unpacked, image, report)
}

fn show_disk(disk: File, image: &Path, report: &Report) -> Result<()> {
    let settings = Settings::from(BootImage::open(disk, image)?.settings()?);
    report.done(&settings, &settings.text())
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Copies the plain image to the output file, and changes the copy.
fn change_plain(
    image: &Path,
    file: &File,
    output: &mut OutputFile,
    changes: &CoreosChanges,
    report: &Report,
) -> Result<Summary> {
    let path = output.path().to_owned();
    report.stage("copying the image");
    repack::unpack(image, file, output.file(), boot_image::most_bytes, report)?;
    let (format, settings) = change(output.file(), image, changes, report)?;
    let measured = repack::measure(output.file(), report)
        .with_context(|| format!("cannot read {}", path.display()))?;
    Ok(Summary {
        path,
        format,
        packing: "none".to_owned(),
        unpacked: measured.clone().into(),
        file: measured.into(),
        settings,
    })
}

/// Unpacks the image into a temporary file next to the output, changes this copy, and
/// packs it into the output.
fn change_packed(
    image: &Path,
    file: &File,
    packing: Packing,
    output: &mut OutputFile,
    changes: &CoreosChanges,
    report: &Report,
) -> Result<Summary> {
    let path = output.path().to_owned();
    let directory = directory_of(output.temporary_path());
    let (mut unpacked, _scratch) = TemporaryPath::file(directory, SCRATCH)
        .with_context(|| format!("cannot make a file in {}", directory.display()))?;
    report.stage("unpacking the image");
    repack::unpack(image, file, &mut unpacked, boot_image::most_bytes, report)?;
    let (format, settings) = change(&unpacked, image, changes, report)?;
    report.stage("packing the image");
    let (unpacked, packed) = repack::pack(&mut unpacked, packing, output.file(), report)
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(Summary {
        path,
        format,
        packing: packing.to_string(),
        file: packed.into(),
        unpacked: unpacked.into(),
        settings,
    })
}

fn change(
    disk: &File,
    image: &Path,
    changes: &CoreosChanges,
    report: &Report,
) -> Result<(&'static str, Settings)> {
    report.stage("changing the boot partition");
    let disk = disk.try_clone();
    let disk = disk.with_context(|| format!("cannot open the copy of {}", image.display()))?;
    let mut opened = BootImage::open(disk, image)?;
    let settings = opened
        .change(changes)
        .with_context(|| format!("cannot change {}", image.display()))?;
    Ok((opened.format(), settings.into()))
}

impl Settings {
    fn text(&self) -> String {
        let keyfiles = match self.network_keyfiles.as_slice() {
            [] => "none".to_owned(),
            names => names.join(", "),
        };
        format!("  kargs    {}\n  keyfiles {keyfiles}", self.kernel_args)
    }
}

impl Summary {
    fn text(&self) -> String {
        let packing = match self.packing.as_str() {
            "none" => String::new(),
            packing => format!(" in {packing}"),
        };
        let unpacked = if packing.is_empty() {
            String::new()
        } else {
            let FileDigest { bytes, sha256 } = &self.unpacked;
            format!("\n  unpacked {}, sha256 {sha256}", megabytes(*bytes))
        };
        format!(
            "{}: {} ({}{packing})\n{}\n  sha256   {}{unpacked}",
            self.path.display(),
            megabytes(self.file.bytes),
            self.format,
            self.settings.text(),
            self.file.sha256,
        )
    }
}
