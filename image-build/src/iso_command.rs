//! Runs the sub-command `landfall-image iso`.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use anyhow::{Context as _, Result};
use landfall_initramfs::build;
use landfall_initramfs::digest_writer::DigestWriter;
use landfall_initramfs::free_space;
use landfall_initramfs::kernel_image::KernelImage;
use landfall_initramfs::output_file::OutputFile;
use landfall_initramfs::temporary::TemporaryPath;
use landfall_media_formats::coreos_image::CoreosImage;
use landfall_media_formats::layout;
use serde::Serialize;

use crate::boot_parts::Loaders;
use crate::cli::IsoArguments;
use crate::coreos_image::{self, PlacedImage};
use crate::epoch;
use crate::iso_image::{self, Medium};
use crate::kernel_args::KernelArgs;
use crate::medium_identity::MediumIdentity;
use crate::ramdisk_command::{Ingredients, build_ramdisk, find_ingredients, ramdisk_lines};
use crate::report::{Report, megabytes};

/// In bytes, for the estimate of the free space: the boot loaders and the directories.
/// With Secure Boot, shim and GRUB take some 5 MB.
const MOST_FOR_LOADERS: u64 = 8 << 20;

#[derive(Serialize)]
struct IsoSummary {
    path: std::path::PathBuf,
    bytes: u64,
    sha256: String,
    volume_uuid: String,
    secure_boot: bool,
    kernel_args: String,
    kernel_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    coreos_image: Option<CoreosImage>,
    ramdisk: build::Summary,
}

pub(crate) fn run(arguments: &IsoArguments) -> Result<()> {
    let report = Report::new(arguments.output.json);
    // Reject wrong input before the work begins.
    let kernel_args = coreos_image::kernel_args(
        &arguments.kernel_args.karg,
        arguments.ramdisk.arch,
        arguments.coreos_image.as_deref(),
        &arguments.coreos,
    )?;
    let loaders = arguments.loaders.of(arguments.ramdisk.arch);
    require_boot_parts(arguments, &loaders)?;
    if let Some(image) = &arguments.coreos_image {
        coreos_image::check(image)?;
    }
    let output = OutputFile::create(&arguments.output.output, arguments.output.force)?;

    let ingredients = find_ingredients(&arguments.ramdisk, &report)?;
    report.warnings(&kernel_args.warnings(&ingredients.hosts.hosts));
    let kernel = &ingredients.kernel.image;
    require_space(arguments, kernel, &output)?;
    let work = TemporaryPath::directory("landfall-iso-").context("cannot make a work directory")?;
    let coreos_image = match &arguments.coreos_image {
        Some(file) => {
            report.stage(&format!("copying {}", file.display()));
            let digest = arguments.coreos.coreos_image_digest.as_ref();
            Some(PlacedImage::copy(file, digest, work.path())?)
        }
        None => None,
    };
    let ramdisk_path = work.path().join("initrd.img");
    let ramdisk = ramdisk(arguments, &ingredients, &ramdisk_path, &report)?;

    report.stage("writing the ISO");
    let (kernel_bytes, kernel_sha256) = digest(kernel, None)?;
    let secure_boot = !arguments.no_secure_boot;
    let embed_size = arguments.embed_kib as usize * 1024;
    let image_sha256 = coreos_image
        .as_ref()
        .map(|placed| placed.image.sha256.hex());
    let identity = identity(
        [&kernel_sha256, &ramdisk.sha256],
        &kernel_args,
        secure_boot,
        embed_size,
        image_sha256.as_deref(),
    );
    let medium = Medium {
        loaders: &loaders,
        kernel,
        ramdisk: &ramdisk_path,
        kernel_args: &kernel_args,
        identity: &identity,
        secure_boot,
        embed_size,
        epoch: epoch::from_environment()?,
        coreos_image: coreos_image.as_ref(),
    };
    let image_bytes = coreos_image.as_ref().map_or(0, |placed| placed.image.size);
    let files =
        kernel_bytes + ramdisk.bytes + area_bytes(arguments) + image_bytes + MOST_FOR_LOADERS;
    free_space::require(directory_of(&output), files, "the ISO")?;
    iso_image::write(&medium, work.path(), output.temporary_path())?;
    let (bytes, sha256) = digest(output.temporary_path(), None)?;
    let summary = IsoSummary {
        path: output.path().to_owned(),
        bytes,
        sha256,
        volume_uuid: identity.volume_uuid.clone(),
        secure_boot: medium.secure_boot,
        kernel_args: kernel_args.to_string(),
        kernel_bytes,
        coreos_image: coreos_image.map(|placed| placed.image),
        ramdisk,
    };
    output.finish()?;
    report.done(&summary, &text(&summary))
}

fn require_boot_parts(arguments: &IsoArguments, loaders: &Loaders) -> Result<()> {
    let secure_boot = !arguments.no_secure_boot;
    let needed_anyway = iso_image::required_parts(loaders, false);
    let remedy = if secure_boot && loaders.missing(&needed_anyway).is_empty() {
        ", or build without Secure Boot: --no-secure-boot"
    } else {
        ""
    };
    loaders.require(&iso_image::required_parts(loaders, secure_boot), remedy)
}

/// Builds the ramdisk, and reports its warnings and that of [`kernel_warning`].
fn ramdisk(
    arguments: &IsoArguments,
    ingredients: &Ingredients,
    path: &Path,
    report: &Report,
) -> Result<build::Summary> {
    let mut output = OutputFile::create(path, false)?;
    let mut ramdisk = build_ramdisk(&arguments.ramdisk, ingredients, &mut output, report)?;
    output.finish()?;
    ramdisk.path = layout::RAMDISK.into();
    let secure_boot = !arguments.no_secure_boot;
    ramdisk
        .warnings
        .extend(kernel_warning(&ingredients.kernel.image, secure_boot)?);
    report.warnings(&ramdisk.warnings);
    Ok(ramdisk)
}

/// Returns a warning that says which UEFI hosts cannot start the kernel; `None` if all
/// can. With `secure_boot`, the kernel must be signed.
pub(crate) fn kernel_warning(kernel: &Path, secure_boot: bool) -> Result<Option<String>> {
    let image = KernelImage::read(kernel)?;
    let release = &image.release;
    Ok(if !image.has_efi_stub {
        Some(format!(
            "kernel {release} has no EFI stub: UEFI hosts cannot start it"
        ))
    } else if secure_boot && !image.is_signed {
        Some(format!(
            "kernel {release} is not signed: hosts with Secure Boot refuse it"
        ))
    } else {
        None
    })
}

/// The identity of the medium, derived from the parameters. `digests` are those of kernel
/// and ramdisk, `embed_size` is in bytes, `coreos_image` is the digest of the CoreOS
/// image.
pub(crate) fn identity(
    digests: [&str; 2],
    kernel_args: &KernelArgs,
    secure_boot: bool,
    embed_size: usize,
    coreos_image: Option<&str>,
) -> MediumIdentity {
    let [kernel, ramdisk] = digests;
    MediumIdentity::of(&[
        kernel,
        ramdisk,
        kernel_args.as_str(),
        &format!("layout 2, secure boot {secure_boot}, embed {embed_size}"),
        coreos_image.unwrap_or_default(),
    ])
}

/// Checks the free space for the files that are known before the ramdisk is built.
fn require_space(arguments: &IsoArguments, kernel: &Path, output: &OutputFile) -> Result<()> {
    let size = |file: &Path| -> Result<u64> {
        let metadata = file.metadata();
        let metadata = metadata.with_context(|| format!("cannot read {}", file.display()))?;
        Ok(metadata.len())
    };
    let image = arguments.coreos_image.as_deref().map(size);
    let image = image.transpose()?.unwrap_or_default();
    let files = size(kernel)? + image;
    let areas = area_bytes(arguments);
    // Each file is copied into the work directory, and from there into the ISO.
    free_space::require(&std::env::temp_dir(), files + areas, "the files of the ISO")?;
    Ok(free_space::require(
        directory_of(output),
        files + areas + MOST_FOR_LOADERS,
        "the ISO",
    )?)
}

/// In bytes: the size of the embed area and the Ignition area together.
fn area_bytes(arguments: &IsoArguments) -> u64 {
    2 * u64::from(arguments.embed_kib) * 1024
}

fn directory_of(output: &OutputFile) -> &Path {
    let file = output.temporary_path();
    file.parent().unwrap_or(file)
}

/// Returns the length in bytes and the SHA-256 in hexadecimal of a file, or of its first
/// `limit` bytes.
pub(crate) fn digest(path: &Path, limit: Option<u64>) -> Result<(u64, String)> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let mut file = file.take(limit.unwrap_or(u64::MAX));
    let mut writer = DigestWriter::new(io::sink());
    io::copy(&mut file, &mut writer).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(writer.finish())
}

fn text(summary: &IsoSummary) -> String {
    let image = summary
        .coreos_image
        .as_ref()
        .map_or_else(String::new, coreos_image::line);
    format!(
        "{}: {} (kernel {}, ramdisk {}, {})\n{}\n{image}  kargs    {}\n  sha256   {}",
        summary.path.display(),
        megabytes(summary.bytes),
        megabytes(summary.kernel_bytes),
        megabytes(summary.ramdisk.bytes),
        match (summary.ramdisk.arch.has_bios(), summary.secure_boot) {
            (true, true) => "BIOS, UEFI, Secure Boot",
            (true, false) => "BIOS, UEFI without Secure Boot",
            (false, true) => "UEFI, Secure Boot",
            (false, false) => "UEFI without Secure Boot",
        },
        ramdisk_lines(&summary.ramdisk),
        summary.kernel_args,
        summary.sha256,
    )
}
