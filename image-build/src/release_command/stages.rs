//! The stages of a release. Each adds its files to the outputs.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use flate2::{Compression, GzBuilder};
use landfall_release::crate_list::CrateList;
use landfall_release::debian_package::DebianPackage;
use landfall_release::flavor_branch::FlavorBranch;
use landfall_release::oci::Manifest;
use landfall_release::tar_tree::{Content, Naming, TarTree};

use super::outputs::Outputs;
use super::programs::Programs;
use super::{Built, builder_package, containers, esp_image, service_files};
use crate::boot_parts::Loaders;
use crate::iso_command;
use crate::iso_image::{self, Medium};
use crate::kernel_args::KernelArgs;
use crate::ramdisk_command::Ingredients;

/// In bytes: the size of the embed area and of the Ignition area in the ISO, as the
/// default of `landfall-image iso`.
const EMBED_BYTES: usize = 256 << 10;

/// Everything that the files of the release are made of.
pub(super) struct Release<'a> {
    pub(super) loaders: &'a Loaders,
    pub(super) names: &'a [FlavorBranch],
    pub(super) programs: &'a Programs,
    pub(super) crates: &'a CrateList,
    pub(super) packages: &'a [DebianPackage],
    pub(super) ingredients: &'a Ingredients,
    pub(super) kernel_args: &'a KernelArgs,
    pub(super) built: &'a Built,
    pub(super) work: &'a Path,
}

impl Release<'_> {
    /// Adds kernel and ramdisk in the layout of
    /// <https://tarballs.opendev.org/openstack/ironic-python-agent>, which all platforms
    /// use.
    pub(super) fn ramdisk_files(&self, outputs: &mut Outputs<'_>) -> Result<()> {
        for name in self.names {
            let stem = name.stem();
            let mut tree = TarTree::default();
            for (ending, blob) in [
                ("kernel", &self.built.kernel),
                ("initramfs", &self.built.ramdisk),
            ] {
                let file = format!("{stem}.{ending}");
                outputs.copy(&format!("dib/files/{file}"), &blob.content)?;
                outputs.checksum_of_last()?;
                tree.file(&file, blob.content.clone(), 0o644)?;
            }
            self.archive(&format!("dib/{stem}.tar.gz"), &tree, outputs)?;
            outputs.checksum_of_last()?;
        }
        Ok(())
    }

    fn archive(&self, name: &str, tree: &TarTree, outputs: &mut Outputs<'_>) -> Result<()> {
        outputs.write(name, |out| {
            let mut packer = GzBuilder::new().mtime(0).write(out, Compression::default());
            tree.write(&mut packer, Naming::Plain, self.built.epoch)?;
            packer.finish()?;
            Ok(())
        })
    }

    pub(super) fn manifests(&self, outputs: &mut Outputs<'_>) -> Result<()> {
        if !self.programs.has_controller {
            return Ok(());
        }
        let mut tree = TarTree::default();
        service_files::add_manifests(&mut tree, "kubernetes")?;
        self.archive("kubernetes.tar.gz", &tree, outputs)
    }

    /// The ISO in the work directory.
    fn iso(&self) -> PathBuf {
        self.work.join("landfall.iso")
    }

    pub(super) fn boot_media(&self, outputs: &mut Outputs<'_>) -> Result<()> {
        let ramdisk = self.work.join("initrd.img");
        let digests = [&*self.built.kernel.sha256, &*self.built.ramdisk.sha256];
        let identity = iso_command::identity(digests, self.kernel_args, true, EMBED_BYTES, None);
        let medium = Medium {
            loaders: self.loaders,
            kernel: &self.ingredients.kernel.image,
            ramdisk: &ramdisk,
            kernel_args: self.kernel_args,
            identity: &identity,
            secure_boot: true,
            embed_size: EMBED_BYTES,
            epoch: self.built.epoch,
            coreos_image: None,
        };
        let work = self.work.join("iso");
        std::fs::create_dir(&work).context("cannot make a work directory")?;
        let iso = self.iso();
        iso_image::write(&medium, &work, &iso)?;
        outputs.copy("landfall.iso", &Content::on_disk(&iso)?)?;
        outputs.copy("esp.img", &Content::Bytes(esp_image::build(self.loaders)?))
    }

    /// Adds the programs and the Debian package of the builder. Returns the files of the
    /// package.
    pub(super) fn programs(&self, outputs: &mut Outputs<'_>) -> Result<TarTree> {
        for (name, path) in [
            ("landfall-agent", &self.programs.agent),
            ("landfall-image", &self.programs.builder),
        ] {
            outputs.copy(name, &Content::on_disk(path)?)?;
            outputs.make_last_executable();
        }
        let mut crates = self.crates.program("landfall-image")?;
        crates.extend(self.crates.program("landfall-agent")?);
        crates.sort_by_key(|one| one.id());
        crates.dedup();
        let epoch = self.built.epoch;
        let tree = builder_package::tree(self.programs, &crates, self.work, epoch)?;
        outputs.write(&builder_package::file_name(), |out| {
            builder_package::write(out, &tree, self.work, epoch)
        })?;
        Ok(tree)
    }

    pub(super) fn containers(&self, own: &TarTree, outputs: &mut Outputs<'_>) -> Result<()> {
        let Self { built, work, .. } = *self;
        let epoch = built.epoch;
        let mut write = |name: &str, manifests: &[Manifest]| -> Result<()> {
            outputs.write(name, |out| containers::write(out, manifests, epoch))?;
            outputs.name_images(containers::images(manifests));
            Ok(())
        };
        let downloader = containers::downloader(built, self.programs, work)?;
        write("oci/landfall-downloader.tar", &[downloader])?;
        if self.programs.has_controller {
            let service = containers::image_service(&self.iso(), self.programs, work, epoch)?;
            write("oci/landfall-image-service.tar", &[service])?;
        }
        write("oci/landfall-ramdisk.tar", &containers::artifacts(built)?)?;
        if let Some(agent) = &self.programs.live_agent {
            let files = &self.ingredients.site.files;
            let agent = containers::agent(agent, files, work, epoch)?;
            write("oci/landfall-agent.tar", &[agent])?;
        }
        if !self.packages.is_empty() {
            let builder = containers::builder(self.packages, own, work, epoch)?;
            write("oci/landfall-image.tar", &[builder])?;
        }
        Ok(())
    }
}
