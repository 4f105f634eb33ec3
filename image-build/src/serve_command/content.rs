//! What the service serves: the base files, and the hosts of the user's files.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, bail};
use landfall_host_media::{HostVersion, KargsEdit};
use landfall_image_service::{Base, BaseFiles, FileStamp, HostStore};
use landfall_initramfs::build::CONFIGURATION_DIRECTORY;
use landfall_media_formats::iso9660::Iso;
use landfall_network_plan::embedded;

use crate::checksums;
use crate::cli::{ServeArguments, ServiceArguments};
use crate::customize_command::with_configuration;
use crate::hosts::Hosts;
use crate::pxe_tree;
use crate::report;
use crate::site_configuration::SiteConfiguration;

/// What a service has in memory, and from which files.
pub(super) struct Content<'a> {
    arguments: &'a ServeArguments,
    files: BaseFiles,
    /// The base files as they were when they were read.
    stamps: Vec<Option<FileStamp>>,
}

impl<'a> Content<'a> {
    pub(super) fn new(arguments: &'a ServeArguments) -> Self {
        Self {
            arguments,
            files: base_files(&arguments.service),
            stamps: Vec::new(),
        }
    }

    /// Reads the base files.
    pub(super) fn load_base(&mut self) -> Result<Base> {
        // Before the files are read: a change meanwhile is then noticed next time.
        let stamps = self.stamps_now();
        let base = Base::load(&self.files)?;
        // A program that is still writing the ISO may pause for longer than it takes
        // to read it.
        let iso = &self.files.iso;
        let faults = checksums::verify(iso, &mut Iso::open(File::open(iso)?)?)?.faults;
        if !faults.is_empty() {
            bail!(
                "{}: {} -- copy the ISO again, under another name, and rename it",
                iso.display(),
                faults.join("; ")
            );
        }
        // Kernel and ramdisk are of one build only if none of them changed meanwhile.
        if self.stamps_now() != stamps {
            bail!("the base changed while the service read it -- try again");
        }
        self.stamps = stamps;
        Ok(base)
    }

    /// The base, if its files have changed since they were read.
    pub(super) fn changed_base(&mut self) -> Option<Result<Base>> {
        (self.stamps_now() != self.stamps).then(|| self.load_base())
    }

    fn stamps_now(&self) -> Vec<Option<FileStamp>> {
        let BaseFiles {
            iso,
            ramdisk,
            kernel,
        } = &self.files;
        let paths = [Some(iso), ramdisk.as_ref(), kernel.as_ref()];
        let stamp = |path: Option<&PathBuf>| path?.metadata().ok().map(|found| FileStamp::of(&found));
        paths.map(stamp).to_vec()
    }

    /// Reads the hosts of all sources.
    pub(super) fn hosts(&self) -> Result<Vec<(String, HostVersion)>> {
        let hosts = Hosts::read_for_own_images(&self.arguments.hosts)?;
        for warning in &hosts.warnings {
            report::warn(warning);
        }
        let common = common_version(&self.arguments.service)?;
        if hosts.files.is_empty() {
            bail!(
                "expected hosts: --hosts, --install-config, --agent-config, --bare-metal-hosts, --nmstate or --network-data"
            );
        }
        let version = |file: landfall_initramfs::build::ConfigurationFile| {
            let name = host_name(&file.name).to_owned();
            (name, with_configuration(common.clone(), file))
        };
        Ok(hosts.files.into_iter().map(version).collect())
    }

    /// Replaces the hosts.
    pub(super) fn put(&self, store: &HostStore, hosts: Vec<(String, HostVersion)>) -> Result<()> {
        replace(store, store.base(), hosts)
    }

    /// Replaces base and hosts.
    pub(super) fn put_on(
        &mut self,
        store: &HostStore,
        base: Base,
        hosts: Vec<(String, HostVersion)>,
    ) -> Result<()> {
        // If the new base is not used, the next reload must try it again.
        replace(store, Arc::new(base), hosts).inspect_err(|_| self.stamps.clear())
    }

    /// The directories whose changes concern the hosts.
    pub(super) fn directories(&self) -> Vec<PathBuf> {
        let ServeArguments { service, hosts, .. } = self.arguments;
        let files = [
            &hosts.nmstate,
            &hosts.network_data,
            &hosts.agent_config,
            &hosts.install_config,
            &service.ca_file,
        ];
        let files = files.into_iter().flatten();
        let files = files
            .chain(&hosts.bare_metal_hosts)
            .chain(&service.config_file);
        let parents = files.filter_map(|file| match file.parent()? {
            parent if parent == Path::new("") => Some(PathBuf::from(".")),
            parent => Some(parent.to_owned()),
        });
        let mut all: Vec<PathBuf> = hosts.hosts.iter().cloned().chain(parents).collect();
        all.sort();
        all.dedup();
        all
    }
}

/// The files of the base.
pub(crate) fn base_files(arguments: &ServiceArguments) -> BaseFiles {
    let in_tree = |name| arguments.pxe.as_ref().map(|tree| tree.join(name));
    BaseFiles {
        iso: arguments.iso.clone(),
        ramdisk: in_tree(pxe_tree::RAMDISK),
        kernel: in_tree(pxe_tree::KERNEL),
    }
}

/// What all hosts have in addition to the base.
pub(crate) fn common_version(arguments: &ServiceArguments) -> Result<HostVersion> {
    let site = SiteConfiguration::read(arguments.ca_file.as_deref(), &arguments.config_file)?;
    for warning in &site.warnings {
        report::warn(warning);
    }
    let common = HostVersion::default().with_kargs(KargsEdit {
        reset: false,
        delete: arguments.karg_delete.clone(),
        append: arguments.karg.clone(),
    });
    Ok(site.files.into_iter().fold(common, with_configuration))
}

fn replace(store: &HostStore, base: Arc<Base>, hosts: Vec<(String, HostVersion)>) -> Result<()> {
    match store.replace(base, hosts) {
        Ok(()) => Ok(()),
        Err(faults) => {
            let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
            match lines.as_slice() {
                [line] => bail!("{line}"),
                lines => bail!("{} faults:\n  {}", lines.len(), lines.join("\n  ")),
            }
        }
    }
}

/// The name of the host whose file this is.
fn host_name(file: &str) -> &str {
    let directory = embedded::DIRECTORY;
    let prefix = directory
        .strip_prefix(CONFIGURATION_DIRECTORY)
        .unwrap_or(directory)
        .trim_start_matches('/');
    let name = file.strip_prefix(prefix).unwrap_or(file);
    let name = name.trim_start_matches('/');
    name.strip_suffix(embedded::SUFFIX).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_the_names_of_their_files() {
        for (file, expected) in [
            ("hosts/node1.json", "node1"),
            ("hosts/node1.example.org.json", "node1.example.org"),
            ("hosts/52-54-00-00-00-01.json", "52-54-00-00-00-01"),
        ] {
            assert_eq!(host_name(file), expected);
        }
    }
}
