//! Container images and artefacts of the release.

use std::io::Write;
use std::path::Path;

use anyhow::Result;
use landfall_boot_params::openshift_agent::DEFAULTS;
use landfall_initramfs::build::ConfigurationFile;
use landfall_release::debian_package::DebianPackage;
use landfall_release::debian_root;
use landfall_release::oci::{self, Blob, ImageSettings, Layer, Manifest};
use landfall_release::tar_tree::{Content, Naming, Node, TarTree};

use super::outputs::Image;
use super::{Built, Programs};
use crate::downloader;

const VERSION: &str = env!("CARGO_PKG_VERSION");
const KERNEL_TYPE: &str = "application/vnd.landfall.kernel";
const RAMDISK_TYPE: &str = "application/vnd.landfall.ramdisk";
const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The path of the base ISO in the container image of the image service.
const BASE_ISO: &str = "usr/share/landfall/landfall.iso";
/// The file with the options that OpenShift's own agent image sets. The systemd unit
/// mounts ignition.conf next to this file, and the options in ignition.conf override
/// those in this file.
const AGENT_DEFAULTS_PATH: &str = "etc/ironic-python-agent/00-defaults.conf";

/// Builds the container image that metal3 runs instead of its own downloader.
pub(super) fn downloader(built: &Built, programs: &Programs, work: &Path) -> Result<Manifest> {
    let mut tree = TarTree::default();
    let program = Content::on_disk(&programs.builder)?;
    tree.file(downloader::PROGRAM_PATH, program, 0o755)?;
    for (name, content) in [
        (downloader::KERNEL, &built.kernel),
        (downloader::RAMDISK, &built.ramdisk),
    ] {
        // metal3 may run the container under any uid, so every uid must be able to read
        // both files.
        let path = format!("{}/{name}", downloader::DIRECTORY);
        tree.file(&path, content.content.clone(), 0o444)?;
    }
    tree.directory("shared", 0o755)?;
    let layer = Layer::write(&tree, &work.join("downloader.layer"), built.epoch)?;
    let settings = ImageSettings {
        name: name("landfall-downloader"),
        entrypoint: vec![format!("/{}", downloader::PROGRAM_PATH)],
        labels: labels("Landfall's ramdisk for metal3, in place of ironic-ipa-downloader"),
        ..ImageSettings::default()
    };
    Ok(oci::image(&settings, &[layer], built.epoch)?)
}

/// Builds the container image of `landfall-image serve` and `landfall-image controller`.
/// It contains the ISO as the base for the ISOs of all hosts.
pub(super) fn image_service(
    iso: &Path,
    programs: &Programs,
    work: &Path,
    epoch: u32,
) -> Result<Manifest> {
    let mut tree = TarTree::default();
    let program = "usr/bin/landfall-image";
    tree.file(program, Content::on_disk(&programs.builder)?, 0o755)?;
    tree.file(BASE_ISO, Content::on_disk(iso)?, 0o444)?;
    let layer = Layer::write(&tree, &work.join("image-service.layer"), epoch)?;
    let settings = ImageSettings {
        name: name("landfall-image-service"),
        entrypoint: vec![format!("/{program}")],
        labels: labels("Landfall's image service and its Kubernetes controller"),
        ..ImageSettings::default()
    };
    Ok(oci::image(&settings, &[layer], epoch)?)
}

/// Makes the OCI artefacts that Ironic accepts as kernel and ramdisk.
pub(super) fn artifacts(built: &Built) -> Result<Vec<Manifest>> {
    let one = |name, kind, title, blob: &Blob| {
        oci::artifact(name, kind, title, blob.clone(), built.epoch)
    };
    Ok(vec![
        one("kernel", KERNEL_TYPE, downloader::KERNEL, &built.kernel)?,
        one("ramdisk", RAMDISK_TYPE, downloader::RAMDISK, &built.ramdisk)?,
    ])
}

/// Builds the container image for OpenShift's setting `ironicAgentImage`. The program is
/// the agent for live systems, because the container works on a CoreOS live system.
pub(super) fn agent(
    agent: &Path,
    configuration: &[ConfigurationFile],
    work: &Path,
    epoch: u32,
) -> Result<Manifest> {
    let mut tree = TarTree::default();
    let program = "usr/local/bin/landfall-agent";
    tree.file(program, Content::on_disk(agent)?, 0o755)?;
    tree.text(AGENT_DEFAULTS_PATH, agent_defaults())?;
    for file in configuration {
        // The file may hold a password or a token.
        tree.file(&file.path, Content::Bytes(file.bytes.clone()), 0o600)?;
    }
    // D-Bus clients look for the bus of the system in /var/run; the unit mounts
    // /run/dbus/system_bus_socket.
    tree.directory("run", 0o755)?;
    tree.link("var/run", "/run")?;
    tree.directory("mnt/coreos", 0o755)?;
    tree.directory("tmp", 0o1777)?;
    let layer = Layer::write(&tree, &work.join("agent.layer"), epoch)?;
    let settings = ImageSettings {
        name: name("landfall-agent"),
        entrypoint: vec![format!("/{program}"), "run".to_owned()],
        environment: vec![PATH.to_owned()],
        labels: labels("Landfall's agent for the CoreOS live system of OpenShift"),
        ..ImageSettings::default()
    };
    Ok(oci::image(&settings, &[layer], epoch)?)
}

/// Builds the container image of the builder from Debian packages and from the files of
/// the builder's own package.
pub(super) fn builder(
    packages: &[DebianPackage],
    own: &TarTree,
    work: &Path,
    epoch: u32,
) -> Result<Manifest> {
    let debian = debian_root::build(packages, &work.join("packages"))?;
    let debian = Layer::write(&debian, &work.join("debian.layer"), epoch)?;
    let mut tree = TarTree::default();
    for (path, node) in own.iter() {
        match node {
            Node::Directory { mode } => tree.directory(path, *mode)?,
            node => tree.add(path, node.clone())?,
        }
    }
    tree.directory("work", 0o777)?;
    let own = Layer::write(&tree, &work.join("builder.layer"), epoch)?;
    let settings = ImageSettings {
        name: name("landfall-image"),
        entrypoint: vec!["/usr/bin/landfall-image".to_owned()],
        environment: vec![PATH.to_owned(), "TMPDIR=/tmp".to_owned()],
        working_directory: Some("/work".to_owned()),
        labels: labels("Builder of Landfall's ramdisk and boot media"),
    };
    Ok(oci::image(&settings, &[debian, own], epoch)?)
}

/// Writes an OCI archive.
pub(super) fn write(out: &mut dyn Write, manifests: &[Manifest], epoch: u32) -> Result<()> {
    Ok(oci::archive(manifests)?.write(out, Naming::Plain, epoch)?)
}

/// What the summary says about an archive.
pub(super) fn images(manifests: &[Manifest]) -> Vec<Image> {
    let images = manifests.iter().map(|manifest| Image {
        name: manifest.name.clone(),
        digest: format!("sha256:{}", manifest.sha256),
    });
    images.collect()
}

fn agent_defaults() -> String {
    let lines = DEFAULTS.map(|(option, value)| format!("{option} = {value}\n"));
    format!("[DEFAULT]\n{}", lines.concat())
}

fn name(image: &str) -> String {
    format!("localhost/{image}:{VERSION}")
}

fn labels(description: &str) -> std::collections::BTreeMap<String, String> {
    let label = |name: &str, value: &str| {
        let name = format!("org.opencontainers.image.{name}");
        (name, value.to_owned())
    };
    [
        label("title", "Landfall"),
        label("description", description),
        label("version", VERSION),
        label("licenses", env!("CARGO_PKG_LICENSE")),
    ]
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use landfall_boot_params::{BootParams, Origin};

    #[test]
    fn the_agent_knows_its_defaults() {
        let mut params = BootParams::default();
        params.read_file("00-defaults.conf", &agent_defaults());
        assert_eq!(params.warnings, [] as [String; 0]);
        assert!(params.not_supported_yet().is_empty());
        assert!(params.wants_debug());
        let list = params.list();
        let given = list.iter().filter(|found| *found.origin != Origin::Default);
        assert_eq!(given.count(), DEFAULTS.len());
    }
}
