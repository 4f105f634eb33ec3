//! Runs the sub-command `landfall-image pxe`.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use landfall_initramfs::build;
use landfall_initramfs::output_file::OutputFile;
use serde::Serialize;

use crate::areas::IGNITION_PATH;
use crate::cli::PxeArguments;
use crate::coreos_image;
use crate::coreos_layout::{self, empty_ramdisk};
use crate::pxe_tree;
use crate::ramdisk_command::{build_ramdisk, find_ingredients, ramdisk_lines};
use crate::report::{Report, megabytes};

#[derive(Serialize)]
struct PxeSummary {
    path: PathBuf,
    files: Vec<FileSummary>,
    kernel_args: String,
    /// The first file of a UEFI HTTP boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    http_boot_url: Option<String>,
    warnings: Vec<String>,
    ramdisk: build::Summary,
}

#[derive(Serialize)]
struct FileSummary {
    name: String,
    bytes: u64,
}

pub(crate) fn run(arguments: &PxeArguments) -> Result<()> {
    let report = Report::new(arguments.output.json);
    let arch = arguments.ramdisk.arch;
    let loaders = arguments.loaders.of(arch);
    let kernel_args =
        coreos_image::kernel_args(&arguments.kernel_args.karg, arch, None, &arguments.coreos)?;
    let (files, warnings) = pxe_tree::files(&kernel_args, arguments.base_url.as_ref(), &loaders)?;
    let directory = &arguments.output.output;
    let force = arguments.output.force;
    if force {
        report.warnings(&replaced_config(directory));
    }
    // Creates all outputs before any work is done, so that the run fails at once if a
    // file exists and --force is missing. Other files in the directory stay unchanged: it
    // may be a TFTP root that serves other things too.
    let create = |name: &str| -> Result<OutputFile> {
        let path = directory.join(name);
        Ok(OutputFile::create_with_directories(&path, force)?)
    };
    let mut kernel_output = create(pxe_tree::KERNEL)?;
    let mut ramdisk_output = create(pxe_tree::RAMDISK)?;
    let mut kernel_link = create(coreos_layout::KERNEL)?;
    let mut ramdisk_link = create(coreos_layout::RAMDISK)?;
    let mut outputs: Vec<OutputFile> = files
        .iter()
        .map(|file| create(file.name))
        .collect::<Result<_>>()?;

    let ingredients = find_ingredients(&arguments.ramdisk, &report)?;
    report.warnings(&kernel_args.warnings(&ingredients.hosts.hosts));
    let kernel = &ingredients.kernel;
    let image = fs::read(&kernel.image)
        .with_context(|| format!("cannot read {}", kernel.image.display()))?;
    write(&mut kernel_output, &image)?;
    for (file, output) in files.iter().zip(&mut outputs) {
        write(output, &file.bytes)?;
    }
    let ramdisk = build_ramdisk(
        &arguments.ramdisk,
        &ingredients,
        &mut ramdisk_output,
        &report,
    )?;
    kernel_link.same_as(&kernel_output)?;
    ramdisk_link.same_as(&ramdisk_output)?;
    // The files get their final names only after the build, so a host that boots during
    // the build gets the old tree. The menus come last, after the files that they name.
    let all = [kernel_output, ramdisk_output, kernel_link, ramdisk_link];
    let all = all.into_iter().chain(outputs);
    OutputFile::finish_all(all.collect())?;
    let image_bytes = image.len() as u64;
    let mut summaries: Vec<FileSummary> = [
        (pxe_tree::KERNEL, image_bytes),
        (pxe_tree::RAMDISK, ramdisk.bytes),
        (coreos_layout::KERNEL, image_bytes),
        (coreos_layout::RAMDISK, ramdisk.bytes),
    ]
    .map(|(name, bytes)| FileSummary {
        name: name.to_owned(),
        bytes,
    })
    .into();
    summaries.extend(files.iter().map(|file| FileSummary {
        name: file.name.to_owned(),
        bytes: file.bytes.len() as u64,
    }));
    report.warnings(&ramdisk.warnings);
    report.warnings(&warnings);
    let kernel_args = kernel_args.to_string();
    let summary = PxeSummary {
        path: directory.clone(),
        files: summaries,
        kernel_args,
        http_boot_url: pxe_tree::http_boot_url(&files, arguments.base_url.as_ref(), &loaders),
        warnings,
        ramdisk,
    };
    report.done(&summary, &text(&summary, directory))
}

/// Returns a warning if the tree has an Ignition config, which this build replaces.
fn replaced_config(directory: &Path) -> Vec<String> {
    let path = directory.join(IGNITION_PATH);
    let is_empty = fs::read(&path).is_ok_and(|bytes| bytes == empty_ramdisk());
    if is_empty || !path.exists() {
        return Vec::new();
    }
    let path = path.display();
    vec![format!(
        "{path}: its Ignition config will be replaced by an empty one -- write it again: coreos-installer pxe ignition wrap -o {path}"
    )]
}

fn write(output: &mut OutputFile, bytes: &[u8]) -> Result<()> {
    let path = output.path().to_owned();
    output
        .file()
        .write_all(bytes)
        .with_context(|| format!("cannot write {}", path.display()))
}

fn text(summary: &PxeSummary, directory: &Path) -> String {
    let files: Vec<String> = summary
        .files
        .iter()
        .map(|file| format!("{} ({})", file.name, megabytes(file.bytes)))
        .collect();
    // The summary mentions Secure Boot, because the HTTP loader has no signature, and the
    // firmware's error message does not say so.
    let http_boot = match &summary.http_boot_url {
        Some(url) => {
            format!("\n  http     {url} (Secure Boot refuses it: use an ISO or a signed UKI there)")
        }
        None => String::new(),
    };
    format!(
        "{}: {}\n{}\n  kargs    {}{http_boot}",
        directory.display(),
        files.join(", "),
        ramdisk_lines(&summary.ramdisk),
        summary.kernel_args
    )
}
