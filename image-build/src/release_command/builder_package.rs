//! The Debian package of the builder: program, agents, manual pages, completions, and
//! the files that run its services.

use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::{Context as _, Result};
use clap::CommandFactory as _;
use clap_complete::Shell;
use flate2::{Compression, GzBuilder};
use landfall_release::crate_list::Crate;
use landfall_release::debian_archive::{self, Control};
use landfall_release::tar_tree::{Content, TarTree};
use landfall_release::timestamp;

use super::{Programs, service_files};
use crate::cli::Cli;

const NAME: &str = "landfall-image";
const VERSION: &str = env!("CARGO_PKG_VERSION");
const MAINTAINER: &str = "The Landfall authors <landfall@landfall.invalid>";
/// The directory of the agents. It is not in PATH, because agents run on other machines,
/// not on the build machine.
const AGENTS: &str = "usr/lib/landfall";
/// The directory of the controller's manifests.
const MANIFESTS: &str = "usr/share/landfall/kubernetes";

/// The name of the .deb file.
pub(super) fn file_name() -> String {
    format!("{NAME}_{VERSION}_amd64.deb")
}

/// The files of the package. The builder's container has them too.
pub(super) fn tree(
    programs: &Programs,
    crates: &[&Crate],
    work: &Path,
    epoch: u32,
) -> Result<TarTree> {
    let mut tree = TarTree::default();
    let builder = Content::on_disk(&programs.builder)?;
    tree.file(&format!("usr/bin/{NAME}"), builder, 0o755)?;
    let agent = Content::on_disk(&programs.agent)?;
    tree.file(&format!("{AGENTS}/landfall-agent"), agent, 0o755)?;
    if let Some(live) = &programs.live_agent {
        let live = Content::on_disk(live)?;
        tree.file(&format!("{AGENTS}/landfall-agent-live"), live, 0o755)?;
    }
    service_files::add_unit(&mut tree)?;
    if programs.has_controller {
        service_files::add_manifests(&mut tree, MANIFESTS)?;
    }
    manual_pages(&mut tree, work)?;
    for (shell, path) in [
        (
            Shell::Bash,
            "usr/share/bash-completion/completions/landfall-image",
        ),
        (
            Shell::Zsh,
            "usr/share/zsh/vendor-completions/_landfall-image",
        ),
        (
            Shell::Fish,
            "usr/share/fish/vendor_completions.d/landfall-image.fish",
        ),
    ] {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Cli::command(), NAME, &mut script);
        tree.text(path, script)?;
    }
    let documents = format!("usr/share/doc/{NAME}");
    tree.text(&format!("{documents}/copyright"), copyright(crates))?;
    let changelog = packed(changelog(epoch).as_bytes())?;
    tree.text(&format!("{documents}/changelog.gz"), changelog)?;
    Ok(tree)
}

/// Writes the package.
pub(super) fn write(out: &mut dyn Write, tree: &TarTree, work: &Path, epoch: u32) -> Result<()> {
    let control = Control {
        package: NAME,
        version: VERSION,
        architecture: "amd64",
        section: "admin",
        maintainer: MAINTAINER,
        homepage: None,
        depends: "grub-common, grub-efi-amd64-signed, grub-pc-bin, shim-signed, xorriso",
        recommends: "ca-certificates, grub-efi-amd64-bin, ipxe, systemd-boot-efi",
        synopsis: "builder of the Landfall ramdisk and its boot media",
        description: "Landfall is what a bare server boots before it has an operating system: an agent\n\
             for Ironic in a ramdisk of a few megabytes, which also installs CoreOS without\n\
             Ironic. This package has the program that builds its ISOs, network boot trees\n\
             and ramdisks and serves each host its own, the agents in /usr/lib/landfall,\n\
             and a systemd unit for the image service, which is not enabled.",
    };
    Ok(debian_archive::write(out, &control, tree, work, epoch)?)
}

fn manual_pages(tree: &mut TarTree, work: &Path) -> Result<()> {
    let directory = work.join("man");
    fs::create_dir(&directory).context("cannot make a directory for the manual pages")?;
    clap_mangen::generate_to(Cli::command(), &directory).context("cannot write a manual page")?;
    let entries = fs::read_dir(&directory).context("cannot list the manual pages")?;
    for entry in entries {
        let entry = entry.context("cannot list the manual pages")?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let page = fs::read(entry.path()).with_context(|| format!("cannot read {name}"))?;
        tree.text(&format!("usr/share/man/man1/{name}.gz"), packed(&page)?)?;
    }
    Ok(())
}

/// Packs a document as `gzip -9n` does: Debian Policy asks for that.
fn packed(text: &[u8]) -> Result<Vec<u8>> {
    let mut packer = GzBuilder::new()
        .mtime(0)
        .write(Vec::new(), Compression::best());
    packer
        .write_all(text)
        .and_then(|()| packer.finish())
        .context("cannot pack a document")
}

fn changelog(epoch: u32) -> String {
    format!(
        "{NAME} ({VERSION}) unstable; urgency=medium\n\n  * Release {VERSION} of Landfall.\n\n -- {MAINTAINER}  {}\n",
        timestamp::rfc2822(epoch)
    )
}

/// The package's copyright file: the licence of Landfall, and those of the crates.io
/// crates in its programs.
fn copyright(crates: &[&Crate]) -> String {
    let mut text = String::from(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
         Upstream-Name: Landfall\n\n\
         Files: *\n\
         Copyright: The Landfall authors\n\
         License: Apache-2.0\n\
         \x20On Debian systems, the text of this licence is in\n\
         \x20/usr/share/common-licenses/Apache-2.0.\n\
         Comment: The programs are static. They contain these crates of crates.io, each\n\
         \x20under its own licence:\n",
    );
    for one in crates.iter().filter(|one| one.sha256.is_some()) {
        let license = one.license.as_deref().unwrap_or("no licence named");
        text += &format!(" {} {}: {license}\n", one.name, one.version);
    }
    text
}
