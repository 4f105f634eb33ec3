//! The certificate authority as a second initrd, which metal3's iPXE menu loads after the
//! ramdisk (`ironic-config/ipxe_config.template` of ironic-image).

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use landfall_tests::ca_bundle::files;
use landfall_tests::image_server;
use landfall_tests::lab::{Family, Lab};
use landfall_tests::media;
use landfall_tests::program;

use super::python;

const BUNDLE: &str = "ipa-cacert-bundle";

/// A Python program that prints Ironic's default iPXE menu.
const PRINT_MENU: &str = "
import importlib.resources
modules = importlib.resources.files('ironic.drivers.modules')
print(modules.joinpath('ipxe_config.template').read_text(), end='')
";

/// The path of the iPXE menu that [`write()`] creates: Ironic's default menu, which
/// also loads the bundle.
pub(super) fn menu(lab: &Lab) -> PathBuf {
    lab.path("ipxe_config.template")
}

/// Writes the bundle into `folder`, whose files the image server serves. Also writes
/// the menu that loads the bundle. `authority` is a PEM file.
pub(super) async fn write(lab: &Lab, folder: &Path, authority: &Path) -> Result<()> {
    let pem = std::fs::read_to_string(authority).context("reading the authority")?;
    media::append_archive(lab, &files(&pem), &folder.join(BUNDLE)).await?;
    let python = python().display().to_string();
    let text = program::run(&python, &["-c", PRINT_MENU]).await?.stdout;
    let text = String::from_utf8(text).context("Ironic's menu")?;
    std::fs::write(menu(lab), with_bundle(&text)?)?;
    Ok(())
}

/// Returns the menu with a line that loads the bundle after each deploy ramdisk.
fn with_bundle(menu: &str) -> Result<String> {
    let url = image_server::url(Family::V4, BUNDLE);
    let name = "initrd={{ pxe_options.initrd_filename|default(\"deploy_ramdisk\", true) }}";
    let fetch = "{{ pxe_options.deployment_ari_path }} || goto retry\n";
    for part in [name, fetch] {
        ensure!(menu.contains(part), "Ironic's menu has no {part:?}");
    }
    Ok(menu
        .replace(name, &format!("{name} initrd={BUNDLE}"))
        .replace(fetch, &format!("{fetch}initrd {url} || goto retry\n")))
}
