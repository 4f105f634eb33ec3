//! Runs the sub-command `landfall-image release`.

mod bill_of_materials;
mod builder_package;
mod containers;
mod dpkg;
mod esp_image;
mod outputs;
mod programs;
mod ramdisk_content;
mod service_files;
mod stages;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use landfall_initramfs::arch::Arch;
use landfall_initramfs::build;
use landfall_initramfs::output_file::OutputFile;
use landfall_initramfs::temporary::TemporaryPath;
use landfall_release::crate_list::CrateList;
use landfall_release::debian_package::DebianPackage;
use landfall_release::flavor_branch::FlavorBranch;
use landfall_release::oci::Blob;
use landfall_release::tar_tree::Content;
use serde::Serialize;

use crate::boot_parts::Loaders;
use crate::cli::{CoreosImageArguments, ReleaseArguments};
use crate::iso_command::{self, digest};
use crate::iso_image;
use crate::ramdisk_command::{Ingredients, build_ramdisk, find_ingredients, ramdisk_lines};
use crate::report::{Report, megabytes};
use crate::{coreos_image, epoch};
use outputs::{Made, Outputs};
use programs::Programs;
use ramdisk_content::RamdiskContent;
use stages::Release;

/// The crates of the workspace, as the build script recorded them.
const CRATES: &str = include_str!(concat!(env!("OUT_DIR"), "/crates.json"));
const BILL_OF_MATERIALS: &str = "sbom.cdx.json";

#[derive(Serialize)]
struct ReleaseSummary {
    path: PathBuf,
    files: Vec<Made>,
    /// What is not in the release, and why.
    left_out: Vec<String>,
    kernel_args: String,
    ramdisk: build::Summary,
}

/// Kernel and ramdisk, which most files of the release hold.
struct Built {
    kernel: Blob,
    ramdisk: Blob,
    epoch: u32,
}

pub(crate) fn run(arguments: &ReleaseArguments) -> Result<()> {
    let report = Report::new(arguments.output.json);
    // Reject wrong input before the work begins.
    let kernel_args = coreos_image::kernel_args(
        &arguments.kernel_args.karg,
        arguments.ramdisk.arch,
        None,
        &CoreosImageArguments::default(),
    )?;
    report.warnings(&kernel_args.warnings(&[]));
    let names = names(arguments)?;
    let arch = arguments.ramdisk.arch;
    // The Debian package and the containers of a release are for amd64 only.
    ensure!(
        arch == Arch::X86_64,
        "--arch {arch}: expected x86_64 for a release -- build media for {arch} with landfall-image iso or pxe"
    );
    let loaders = Loaders::new(arch, None);
    loaders.require(&iso_image::required_parts(&loaders, true), "")?;
    let crates = CrateList::parse(CRATES)?;
    ensure!(
        !crates.is_empty(),
        "this landfall-image was built without the list of its crates, so it cannot write an SBOM: build it with `cargo build` in a checkout, where `cargo metadata --locked` works"
    );
    let programs = Programs::check(arguments)?;
    let packages = DebianPackage::read_all(&arguments.builder_packages)?;
    let output = &arguments.output;
    let mut outputs = Outputs::new(&output.output, output.force, &report)?;
    let work =
        TemporaryPath::directory("landfall-release-").context("cannot make a work directory")?;
    let ingredients = find_ingredients(&arguments.ramdisk, &report)?;

    let (built, summary) = build(arguments, &ingredients, work.path(), &report)?;
    let release = Release {
        loaders: &loaders,
        names: &names,
        programs: &programs,
        crates: &crates,
        packages: &packages,
        ingredients: &ingredients,
        kernel_args: &kernel_args,
        built: &built,
        work: work.path(),
    };
    release.ramdisk_files(&mut outputs)?;
    release.boot_media(&mut outputs)?;
    let own = release.programs(&mut outputs)?;
    release.containers(&own, &mut outputs)?;
    release.manifests(&mut outputs)?;
    report.stage("listing what the release is made of");
    let source = arguments.ramdisk.kernel()?;
    // The first directory is enough: only unpacked packages have a second one, and dpkg
    // does not know the files of unpacked packages.
    let firmware = ingredients.firmware.directories().first();
    let firmware = firmware.map(PathBuf::as_path);
    let bill = release.bill_of_materials(&source, firmware, outputs.made())?;
    outputs.copy(BILL_OF_MATERIALS, &Content::Bytes(bill))?;
    let files = outputs.finish()?;

    let left_out = left_out(arguments, &programs);
    report.warnings(&left_out);
    let summary = ReleaseSummary {
        path: output.output.clone(),
        files,
        left_out,
        kernel_args: kernel_args.to_string(),
        ramdisk: summary,
    };
    report.done(&summary, &text(&summary))
}

/// Returns the sorted names for the ramdisk files; fails if the user gave a name twice.
fn names(arguments: &ReleaseArguments) -> Result<Vec<FlavorBranch>> {
    let mut names = arguments.names.clone();
    names.sort();
    for pair in names.windows(2) {
        ensure!(
            pair[0] != pair[1],
            "--name {}: expected each name once, found it twice",
            pair[0]
        );
    }
    Ok(names)
}

fn left_out(arguments: &ReleaseArguments, programs: &Programs) -> Vec<String> {
    let mut left_out = Vec::new();
    if !programs.has_controller {
        left_out.push(
            "oci/landfall-image-service.tar and kubernetes.tar.gz are left out: they need a landfall-image with the feature controller"
                .to_owned(),
        );
    }
    if arguments.live_agent.is_none() {
        left_out.push(
            "oci/landfall-agent.tar is left out: it needs the agent for live systems (--live-agent)"
                .to_owned(),
        );
    }
    if arguments.builder_packages.is_empty() {
        left_out.push(
            "oci/landfall-image.tar is left out: it needs Debian packages (--builder-packages)"
                .to_owned(),
        );
    }
    left_out
}

/// Builds the ramdisk that most files of the release contain.
fn build(
    arguments: &ReleaseArguments,
    ingredients: &Ingredients,
    work: &Path,
    report: &Report,
) -> Result<(Built, build::Summary)> {
    let path = work.join("initrd.img");
    let mut output = OutputFile::create(&path, false)?;
    let mut summary = build_ramdisk(&arguments.ramdisk, ingredients, &mut output, report)?;
    output.finish()?;
    summary.path = "initrd.img".into();
    let kernel = &ingredients.kernel.image;
    summary
        .warnings
        .extend(iso_command::kernel_warning(kernel, true)?);
    report.warnings(&summary.warnings);
    let blob = |path: &Path| -> Result<Blob> {
        let (_, sha256) = digest(path, None)?;
        let content = Content::on_disk(path)?;
        Ok(Blob { content, sha256 })
    };
    let built = Built {
        kernel: blob(kernel)?,
        ramdisk: blob(&path)?,
        epoch: epoch::from_environment()?,
    };
    Ok((built, summary))
}

fn text(summary: &ReleaseSummary) -> String {
    let mut text = format!("{}:\n", summary.path.display());
    for made in &summary.files {
        if made.name.ends_with(".sha256") {
            continue;
        }
        text += &format!("  {} ({})\n", made.name, megabytes(made.bytes));
        for image in &made.images {
            text += &format!("    {} {}\n", image.name, image.digest);
        }
    }
    text + &ramdisk_lines(&summary.ramdisk)
}
