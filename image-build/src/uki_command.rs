//! Runs the sub-command `landfall-image uki`.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use landfall_initramfs::kernel_image::KernelImage;
use landfall_initramfs::output_file::OutputFile;
use landfall_initramfs::temporary::TemporaryPath;
use landfall_initramfs::unified_image::{self, MAX_STUB_BYTES, Section};
use landfall_initramfs::{build, digest_writer, path_error};
use serde::Serialize;

use crate::cli::UkiArguments;
use crate::coreos_image;
use crate::ramdisk_command::{build_ramdisk, find_ingredients, ramdisk_lines};
use crate::report::{Report, megabytes};

#[derive(Serialize)]
struct UkiSummary {
    path: PathBuf,
    bytes: u64,
    sha256: String,
    kernel_args: String,
    kernel_bytes: u64,
    ramdisk: build::Summary,
}

pub(crate) fn run(arguments: &UkiArguments) -> Result<()> {
    let report = Report::new(arguments.output.json);
    let arch = arguments.ramdisk.arch;
    // Reject wrong input before the work begins.
    let kernel_args =
        coreos_image::kernel_args(&arguments.kernel_args.karg, arch, None, &arguments.coreos)?;
    let stub_path = stub_path(arguments)?;
    let stub = path_error::read_bounded(&stub_path, MAX_STUB_BYTES)?;
    let stub_fault = || format!("stub {}", stub_path.display());
    let stub_arch = unified_image::arch(&stub).with_context(stub_fault)?;
    ensure!(
        stub_arch == arch,
        "stub {}: expected one for {arch}, found one for {stub_arch} -- use the stub of systemd-boot for {arch}",
        stub_path.display()
    );
    let mut output = OutputFile::create(&arguments.output.output, arguments.output.force)?;

    let ingredients = find_ingredients(&arguments.ramdisk, &report)?;
    report.warnings(&kernel_args.warnings(&ingredients.hosts.hosts));
    let kernel_path = &ingredients.kernel.image;
    let kernel = KernelImage::read(kernel_path)?;
    ensure!(
        kernel.has_efi_stub,
        "kernel {}: expected one with an EFI stub, found none: UEFI hosts cannot start it -- use a kernel with CONFIG_EFI_STUB, as distributions have it",
        kernel.release
    );
    let kernel_bytes =
        fs::read(kernel_path).with_context(|| format!("cannot read {}", kernel_path.display()))?;
    let work = TemporaryPath::directory("landfall-uki-").context("cannot make a work directory")?;
    let ramdisk_path = work.path().join("initrd.img");
    let mut ramdisk_output = OutputFile::create(&ramdisk_path, false)?;
    let mut ramdisk = build_ramdisk(
        &arguments.ramdisk,
        &ingredients,
        &mut ramdisk_output,
        &report,
    )?;
    ramdisk_output.finish()?;
    let ramdisk_bytes = fs::read(&ramdisk_path).context("cannot read the ramdisk")?;
    // The section that holds the ramdisk.
    ramdisk.path = ".initrd".into();

    report.stage("writing the image");
    let sections = [
        (".osrel", OS_RELEASE.as_bytes()),
        (".uname", kernel.release.as_bytes()),
        (".cmdline", kernel_args.as_str().as_bytes()),
        (".linux", &kernel_bytes[..]),
        (".initrd", &ramdisk_bytes[..]),
    ];
    let sections = sections.map(|(name, content)| Section { name, content });
    let image = unified_image::assemble(&stub, &sections).with_context(stub_fault)?;
    output
        .file()
        .write_all(&image)
        .with_context(|| format!("cannot write {}", output.path().display()))?;
    report.warnings(&ramdisk.warnings);
    let summary = UkiSummary {
        path: output.path().to_owned(),
        bytes: image.len() as u64,
        sha256: digest_writer::sha256(&image),
        kernel_args: kernel_args.to_string(),
        kernel_bytes: kernel_bytes.len() as u64,
        ramdisk,
    };
    output.finish()?;
    report.done(&summary, &text(&summary))
}

/// The text that a boot menu shows for the file.
const OS_RELEASE: &str = concat!(
    "ID=landfall\nNAME=Landfall\nVERSION_ID=",
    env!("CARGO_PKG_VERSION"),
    "\nPRETTY_NAME=\"Landfall ",
    env!("CARGO_PKG_VERSION"),
    "\"\n"
);

fn stub_path(arguments: &UkiArguments) -> Result<PathBuf> {
    if let Some(path) = &arguments.stub {
        return Ok(path.clone());
    }
    let loaders = arguments.loaders.of(arguments.ramdisk.arch);
    let stub = loaders.efi().stub;
    loaders.require(&[stub], ", or name the file with --stub")?;
    Ok(loaders.path(stub))
}

fn text(summary: &UkiSummary) -> String {
    format!(
        "{}: {} (kernel {}, ramdisk {})\n{}\n  kargs    {}\n  signed   no: Secure Boot refuses it until you sign it (sbsign)\n  sha256   {}",
        summary.path.display(),
        megabytes(summary.bytes),
        megabytes(summary.kernel_bytes),
        megabytes(summary.ramdisk.bytes),
        ramdisk_lines(&summary.ramdisk),
        summary.kernel_args,
        summary.sha256,
    )
}
