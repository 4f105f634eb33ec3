//! Runs the sub-command `landfall-image customize`.

mod iso;
mod ramdisk;

use std::fs::File;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use landfall_host_media::{HostVersion, KargsEdit};
use landfall_initramfs::arch::Arch;
use landfall_initramfs::output_file::OutputFile;
use serde::Serialize;

use crate::cli::CustomizeArguments;
use crate::coreos_image;
use crate::hosts::Hosts;
use crate::inspect::is_iso;
use crate::pxe_tree;
use crate::report::{Report, counted};
use crate::site_configuration::SiteConfiguration;

/// The arguments that name an image; a new image replaces them.
const IMAGE_KEYS: [&str; 2] = ["landfall.coreos.image", "landfall.coreos.image_checksum"];

#[derive(Debug, Serialize)]
struct Customized {
    /// The file that has the changes.
    path: PathBuf,
    kind: &'static str,
    bytes: u64,
    /// The number of bytes that are written over the base or after it.
    changed_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel_args: Option<String>,
    /// Paths of the files that the areas or the addition hold now.
    files: Vec<String>,
}

/// The changes that the command line asks for. They are the same for an ISO and a
/// ramdisk.
struct Changes {
    version: HostVersion,
    /// Whether the changes name a CoreOS image. If so, their arguments replace the
    /// arguments of the base that name an image.
    names_image: bool,
}

pub(crate) fn run(arguments: &CustomizeArguments) -> Result<()> {
    let report = Report::new(arguments.result.json);
    let changes = changes(arguments, &report)?;
    let base = match arguments.base.is_dir() {
        true => arguments.base.join(pxe_tree::RAMDISK),
        false => arguments.base.clone(),
    };
    let mut file = File::open(&base).with_context(|| format!("cannot open {}", base.display()))?;
    let place = Place {
        base: &base,
        output: arguments.result.output.as_deref(),
        force: arguments.result.force,
    };
    let customized = if is_iso(&mut file) {
        iso::customize(&place, &changes, &report)
    } else {
        ramdisk::customize(&place, &changes.version)
    };
    let customized = customized.with_context(|| format!("cannot customize {}", base.display()))?;
    report.done(&customized, &text(&customized))
}

/// Where the base is, and where the result goes.
struct Place<'a> {
    base: &'a Path,
    /// `None`: change the base itself.
    output: Option<&'a Path>,
    force: bool,
}

fn changes(arguments: &CustomizeArguments, report: &Report) -> Result<Changes> {
    let image = &arguments.coreos;
    // Checks the URL and its digest together.
    coreos_image::kernel_args(&[], Arch::default(), None, image)?;
    let changes = &arguments.site;
    let site = SiteConfiguration::read(changes.ca_file.as_deref(), &changes.config_file)?;
    report.warnings(&site.warnings);
    let hosts = Hosts::read(&arguments.hosts)?;
    report.warnings(&hosts.warnings);

    let mut append = changes.karg.clone();
    append.extend(coreos_image::url_arguments(image));
    let mut version = HostVersion::default().with_kargs(KargsEdit {
        reset: false,
        delete: changes.karg_delete.clone(),
        append,
    });
    for file in site.files {
        version = version.with_file(file.path, file.bytes);
    }
    for host in &hosts.hosts {
        version = version.with_host(host);
    }
    if arguments.reset {
        version = version.reset();
    }
    if version.is_empty() {
        bail!(
            "expected a change, found none: --karg, --karg-delete, --hosts, --nmstate, --network-data, --ca-file, --config-file, --coreos-image-url or --reset"
        );
    }
    Ok(Changes {
        version,
        names_image: !image.coreos_image_url.is_empty(),
    })
}

/// Gives the output the permissions of the base, because its files may hold passwords.
fn keep_mode(base: &File, output: &mut OutputFile) -> Result<()> {
    let metadata = base.metadata().context("cannot get the metadata")?;
    output.set_mode(metadata.permissions().mode() & 0o777);
    Ok(())
}

fn text(customized: &Customized) -> String {
    let mut lines = vec![format!(
        "{}: {}, {} bytes, {} changed",
        customized.path.display(),
        customized.kind,
        customized.bytes,
        customized.changed_bytes
    )];
    if let Some(arguments) = &customized.kernel_args {
        lines.push(format!("  kargs    {arguments}"));
    }
    lines.push(match customized.files.as_slice() {
        [] => "  files    none".to_owned(),
        files => format!(
            "  files    {}: {}",
            counted(files.len(), "file"),
            files.join(", ")
        ),
    });
    lines.join("\n")
}
