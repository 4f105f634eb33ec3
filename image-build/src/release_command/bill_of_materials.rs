//! The SBOM of a release: crates, Debian packages, kernel modules, firmware, and which
//! of these each file contains.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result};
use landfall_initramfs::kernel_source::KernelSource;
use landfall_release::crate_list::Crate;
use landfall_release::cyclonedx::{Bom, Component, Kind, License};
use landfall_release::debian_package::DebianPackage;

use super::dpkg::{self, Installed};
use super::ramdisk_content::Member;
use super::{Made, RamdiskContent, Release};
use crate::{boot_parts, iso_image};

/// Parts that several files have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Agent,
    Builder,
    Kernel,
    Firmware,
    Rescue,
    Loaders,
    Packages,
}

impl Release<'_> {
    pub(super) fn bill_of_materials(
        &self,
        source: &KernelSource,
        firmware_directory: Option<&Path>,
        made: &[Made],
    ) -> Result<Vec<u8>> {
        let version = env!("CARGO_PKG_VERSION");
        let license = env!("CARGO_PKG_LICENSE");
        let mut bill = Bill {
            bom: Bom::new("landfall", version, license, self.built.epoch),
            parts: BTreeMap::new(),
        };
        for (part, program) in [
            (Part::Agent, "landfall-agent"),
            (Part::Builder, "landfall-image"),
        ] {
            bill.add_program(part, program, &self.crates.program(program)?);
        }
        let ramdisk = self.work.join("initrd.img");
        let content = RamdiskContent::read(&ramdisk, &self.ingredients.kernel)?;
        bill.add_kernel(self, source, &content.modules)?;
        bill.add_firmware(firmware_directory, &content.firmware);
        bill.add_rescue_layer(self);
        bill.add_loaders(self);
        for package in self.packages {
            let component = Component::of_debian_file(Kind::Library, package);
            bill.add(Part::Packages, component);
        }
        bill.add_files(made);
        bill.bom.to_json().context("cannot write the SBOM")
    }
}

struct Bill {
    bom: Bom,
    /// The references of the components of each part.
    parts: BTreeMap<Part, Vec<String>>,
}

impl Bill {
    fn add(&mut self, part: Part, component: Component) {
        let reference = component.reference.clone();
        self.parts.entry(part).or_default().push(reference);
        self.bom.add(component);
    }

    /// A program of ours, and the crates in it.
    fn add_program(&mut self, part: Part, program: &str, crates: &[&Crate]) {
        let references: BTreeMap<String, String> = crates
            .iter()
            .map(|one| (one.id(), Component::of_crate(one).reference))
            .collect();
        for one in crates {
            let mut component = Component::of_crate(one);
            let reference = component.reference.clone();
            if one.name == program {
                component.kind = Kind::Application;
                self.parts.entry(part).or_default().push(reference.clone());
            }
            self.bom.add(component);
            let on = one.dependencies.iter();
            let on = on.filter_map(|id| references.get(id).cloned());
            self.bom.depends(&reference, on);
        }
    }

    fn add_kernel(
        &mut self,
        release: &Release<'_>,
        source: &KernelSource,
        modules: &[Member],
    ) -> Result<()> {
        let kernel = &release.ingredients.kernel;
        let kind = Kind::OperatingSystem;
        let package = match source {
            KernelSource::Debs(paths) => {
                let packages = paths.iter().map(|path| DebianPackage::read(path));
                let mut packages = packages.collect::<Result<Vec<_>, _>>()?.into_iter();
                let first = packages.next();
                for package in packages {
                    self.add(Part::Kernel, Component::of_debian_file(kind, &package));
                }
                first.map(|package| Component::of_debian_file(kind, &package))
            }
            KernelSource::InstalledPackage(_) => {
                let paths = [
                    format!("/boot/vmlinuz-{}", kernel.release),
                    format!("/usr/lib/modules/{}/vmlinuz", kernel.release),
                ];
                let owner = dpkg::owners(&paths).into_values().next();
                owner.map(|package| package.component(kind))
            }
            KernelSource::Rpms { .. } | KernelSource::Running | KernelSource::Directory { .. } => {
                None
            }
        };
        let mut component = package.unwrap_or_else(|| {
            let reference = format!("kernel:{}", kernel.release);
            let mut component = Component::new(kind, &reference, "linux");
            component.version = Some(kernel.release.clone());
            component.with_sha256(&release.built.kernel.sha256)
        });
        component = component.with_property("kernel-release", &kernel.release);
        for module in modules {
            let file = module.path.rsplit('/').next().unwrap_or_default();
            let name = file.split('.').next().unwrap_or_default();
            let reference = format!("module:{}", module.path);
            let mut part = Component::new(Kind::DeviceDriver, &reference, name)
                .with_sha256(&module.sha256)
                .with_property("path", &module.path);
            part.version = Some(kernel.release.clone());
            part.licenses = module
                .license
                .iter()
                .map(|text| License::named(text))
                .collect();
            component.components.push(part);
        }
        self.add(Part::Kernel, component);
        Ok(())
    }

    /// Adds each firmware file as a part of its Debian package, or as a component of its
    /// own if dpkg does not know the package.
    fn add_firmware(&mut self, directory: Option<&Path>, files: &[Member]) {
        let owners = match directory.and_then(|directory| directory.canonicalize().ok()) {
            Some(directory) => firmware_owners(&directory, files),
            None => BTreeMap::new(),
        };
        let mut packages: BTreeMap<String, Component> = BTreeMap::new();
        for file in files {
            let reference = format!("firmware:{}", file.path);
            let part =
                Component::new(Kind::Firmware, &reference, &file.path).with_sha256(&file.sha256);
            let Some(owner) = owners.get(&file.path) else {
                self.add(Part::Firmware, part);
                continue;
            };
            let package = packages.entry(owner.name.clone());
            let package = package.or_insert_with(|| owner.component(Kind::Firmware));
            package.components.push(part);
        }
        for package in packages.into_values() {
            self.add(Part::Firmware, package);
        }
    }

    fn add_rescue_layer(&mut self, release: &Release<'_>) {
        let layer = release.ingredients.rescue_layer.as_ref();
        let files = layer.into_iter().flat_map(|layer| layer.files.values());
        let paths: Vec<String> = files
            .filter_map(|path| path.to_str().map(str::to_owned))
            .collect();
        self.add_owners(Part::Rescue, &paths);
    }

    fn add_loaders(&mut self, release: &Release<'_>) {
        let loaders = iso_image::required_parts(release.loaders, true).into_iter();
        let loaders = loaders.filter(|part| *part != boot_parts::XORRISO);
        let paths: Vec<String> = loaders
            .filter(|part| part.what.starts_with('/'))
            .map(|part| part.what.to_owned())
            .collect();
        self.add_owners(Part::Loaders, &paths);
    }

    fn add_owners(&mut self, part: Part, paths: &[String]) {
        let mut owners: Vec<Installed> = dpkg::owners(paths).into_values().collect();
        owners.sort_by(|a, b| a.name.cmp(&b.name));
        owners.dedup();
        for owner in owners {
            self.add(part, owner.component(Kind::Application));
        }
    }

    fn add_files(&mut self, made: &[Made]) {
        for file in made.iter().filter(|file| !file.name.ends_with(".sha256")) {
            let mut component = Component::file(&file.name, &file.sha256);
            for image in &file.images {
                component = component.with_property(&image.name, &image.digest);
            }
            let parts = parts(&file.name).iter();
            let on = parts.filter_map(|part| self.parts.get(part));
            let on: Vec<String> = on.flatten().cloned().collect();
            self.bom.depends(&component.reference, on);
            self.bom.add(component);
        }
    }
}

/// What a file of the release is made of.
fn parts(name: &str) -> &'static [Part] {
    use Part::{Agent, Builder, Firmware, Kernel, Loaders, Packages, Rescue};
    match name {
        "landfall.iso" => &[Agent, Kernel, Firmware, Rescue, Loaders],
        "esp.img" => &[Loaders],
        "landfall-agent" | "oci/landfall-agent.tar" => &[Agent],
        "landfall-image" => &[Builder],
        "oci/landfall-image-service.tar" => &[Agent, Kernel, Firmware, Rescue, Loaders, Builder],
        "oci/landfall-downloader.tar" => &[Agent, Kernel, Firmware, Rescue, Builder],
        "oci/landfall-ramdisk.tar" => &[Agent, Kernel, Firmware, Rescue],
        "oci/landfall-image.tar" => &[Builder, Agent, Packages],
        _ if name.ends_with(".deb") => &[Builder, Agent],
        _ if name.ends_with(".kernel") => &[Kernel],
        _ if name.starts_with("dib/") => &[Agent, Kernel, Firmware, Rescue],
        // kubernetes.tar.gz holds only texts of Landfall.
        _ => &[],
    }
}

/// The package of each firmware file, by the path below `directory`. The function asks
/// for /lib and /usr/lib: Debian 12's dpkg lists firmware in /lib, Debian 13's in
/// /usr/lib, and both are the same directory.
fn firmware_owners(directory: &Path, files: &[Member]) -> BTreeMap<String, Installed> {
    let directory = directory.to_string_lossy();
    let directory = directory.strip_prefix("/usr").unwrap_or(&directory);
    let paths: Vec<String> = files
        .iter()
        .flat_map(|file| ["", "/usr"].map(|usr| format!("{usr}{directory}/{}", file.path)))
        .collect();
    let owners = dpkg::owners(&paths).into_iter();
    let below = format!("{directory}/");
    let relative = owners.filter_map(|(path, owner)| {
        let path = path.strip_prefix("/usr").unwrap_or(&path);
        Some((path.strip_prefix(&below)?.to_owned(), owner))
    });
    relative.collect()
}
