//! Runs the sub-command `landfall-image initramfs`.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use landfall_initramfs::agent_binary;
use landfall_initramfs::build::{self, Recipe, Summary};
use landfall_initramfs::firmware::FirmwareFiles;
use landfall_initramfs::kernel_source::{Kernel, KernelSource};
use landfall_initramfs::module_set::ModuleSet;
use landfall_initramfs::output_file::OutputFile;
use landfall_initramfs::rescue_layer::RescueLayer;
use landfall_network_plan::embedded;

use crate::cli::{InitramfsArguments, RamdiskArguments};
use crate::epoch;
use crate::hosts::Hosts;
use crate::report::{Report, counted, megabytes};
use crate::site_configuration::SiteConfiguration;

pub(crate) fn run(arguments: &InitramfsArguments) -> Result<()> {
    let report = Report::new(arguments.output.json);
    let mut output = OutputFile::create(&arguments.output.output, arguments.output.force)?;
    let ingredients = find_ingredients(&arguments.ramdisk, &report)?;
    let summary = build_ramdisk(&arguments.ramdisk, &ingredients, &mut output, &report)?;
    output.finish()?;
    report.warnings(&summary.warnings);
    report.done(&summary, &text(&summary))
}

/// The inputs of a ramdisk that can be missing or wrong. They are read before any other
/// work is done.
pub(crate) struct Ingredients {
    pub(crate) kernel: Kernel,
    module_set: ModuleSet,
    pub(crate) site: SiteConfiguration,
    pub(crate) hosts: Hosts,
    pub(crate) rescue_layer: Option<RescueLayer>,
    pub(crate) firmware: FirmwareFiles,
    cache: Option<PathBuf>,
}

/// Finds the ingredients for any command that builds a ramdisk.
pub(crate) fn find_ingredients(
    arguments: &RamdiskArguments,
    report: &Report,
) -> Result<Ingredients> {
    let site = SiteConfiguration::read_with_bundle(
        arguments.ca_file.as_deref(),
        arguments.ca_bundle.as_ref(),
        &arguments.config_file,
    )?;
    report.warnings(&site.warnings);
    let hosts = Hosts::read(&arguments.hosts)?;
    report.warnings(&hosts.warnings);
    agent_binary::read(&arguments.agent, arguments.arch)?;
    let module_set = arguments.module_set()?;
    let cache = arguments.cache()?;
    let firmware = arguments.firmware.resolve().context("--firmware")?;
    let rescue_layer = match arguments.rescue_layer {
        true => Some(RescueLayer::of_this_machine(arguments.arch)?),
        false => None,
    };
    let source = arguments.kernel()?;
    report.stage(&match &source {
        KernelSource::InstalledPackage(name) => format!("looking for the kernel package {name}"),
        KernelSource::Debs(paths) | KernelSource::Rpms { paths, .. } => {
            let names: Vec<String> = paths
                .iter()
                .map(|path| path.display().to_string())
                .collect();
            format!("unpacking {}", names.join(", "))
        }
        KernelSource::Running => "looking for the running kernel".to_owned(),
        KernelSource::Directory { path, .. } => {
            format!("looking for a kernel in {}", path.display())
        }
    });
    let kernel = source.resolve()?;
    Ok(Ingredients {
        kernel,
        module_set,
        site,
        hosts,
        rescue_layer,
        firmware,
        cache,
    })
}

/// Builds the ramdisk for any command that needs one.
pub(crate) fn build_ramdisk(
    arguments: &RamdiskArguments,
    ingredients: &Ingredients,
    output: &mut OutputFile,
    report: &Report,
) -> Result<Summary> {
    let configuration = [&ingredients.site.files[..], &ingredients.hosts.files()].concat();
    let recipe = Recipe {
        arch: arguments.arch,
        agent: &arguments.agent,
        kernel: &ingredients.kernel,
        module_set: &ingredients.module_set,
        firmware: &ingredients.firmware,
        allow_missing_firmware: arguments.allow_missing_firmware,
        configuration: &configuration,
        rescue_layer: ingredients.rescue_layer.as_ref(),
        compression: arguments.compress,
        cache: ingredients.cache.as_deref(),
        epoch: epoch::from_environment()?,
    };
    Ok(build::build(&recipe, output, &|text| report.stage(text))?)
}

fn text(summary: &Summary) -> String {
    format!(
        "{}: {} ({} unpacked, {})\n{}\n  sha256   {}",
        summary.path.display(),
        megabytes(summary.bytes),
        megabytes(summary.unpacked_bytes),
        summary.compression,
        ramdisk_lines(summary),
        summary.sha256,
    )
}

/// The lines about the ramdisk in any summary.
pub(crate) fn ramdisk_lines(summary: &Summary) -> String {
    let is_host = |path: &&String| path.starts_with(embedded::DIRECTORY);
    let (hosts, site): (Vec<_>, Vec<_>) = summary.configuration.iter().partition(is_host);
    let configuration = match site.as_slice() {
        [] => "none".to_owned(),
        paths => paths
            .iter()
            .map(|path| path.as_str())
            .collect::<Vec<_>>()
            .join(", "),
    };
    let rescue = match summary.rescue_layer.len() {
        0 => "no login (see --rescue-layer)".to_owned(),
        files => format!(
            "login by ssh, {} ({})",
            counted(files, "file"),
            megabytes(summary.rescue_layer_bytes)
        ),
    };
    format!(
        "  kernel   {}, {}\n  modules  {} ({}, set {})\n  firmware {} ({})\n  config   {configuration}\n  rescue   {rescue}\n  hosts    {}\n  agent    {}\n  memory   {} MiB on the host at least, {} MiB to deploy",
        summary.kernel_release,
        summary.arch,
        summary.modules,
        megabytes(summary.module_bytes),
        summary.module_set,
        counted(summary.firmware_files, "file"),
        megabytes(summary.firmware_bytes),
        hosts.len(),
        megabytes(summary.agent_bytes),
        summary.memory_floor.boot_mib,
        summary.memory_floor.deployment_mib,
    )
}
