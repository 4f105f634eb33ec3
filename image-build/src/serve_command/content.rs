//! What the service serves: the base files, and the hosts of the user's files.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, bail};
use landfall_host_media::{HostVersion, KargsEdit};
use landfall_image_service::{Base, BaseFiles, FileStamp, HostStore};
use landfall_media_formats::iso9660::Iso;
use landfall_network_plan::EmbeddedHost;
use landfall_sys::freed_memory;

use super::watch::Place;
use crate::areas::{self, Areas};
use crate::checksums;
use crate::cli::{ServeArguments, ServiceArguments};
use crate::coreos_layout::empty_ramdisk;
use crate::hosts::{EmptyFile, Hosts};
use crate::pxe_tree;
use crate::report;
use crate::site_configuration::SiteConfiguration;

/// The files of the service, and what is known about the content that it has read from
/// them.
pub(super) struct Content<'a> {
    arguments: &'a ServeArguments,
    files: BaseFiles,
    /// The state of the base files when they were read: `None` for a file that is missing
    /// or not configured.
    stamps: Vec<Option<FileStamp>>,
    known: Known,
}

/// The hosts that the service has now.
#[derive(Default)]
struct Known {
    hosts: HashSet<String>,
    /// The hosts whose file is empty.
    empty: HashSet<String>,
}

/// Whether a host whose file has become empty may lose its network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EmptyFiles {
    /// Yes: the service starts, or an operator has sent SIGHUP.
    AsGiven,
    /// No, this is an error: a program may have just begun to write the file.
    Suspicious,
}

/// The hosts of the user's files.
pub(super) struct ReadHosts {
    hosts: Vec<(String, HostVersion)>,
    empty: HashSet<String>,
}

impl ReadHosts {
    pub(super) fn count(&self) -> usize {
        self.hosts.len()
    }
}

impl<'a> Content<'a> {
    pub(super) fn new(arguments: &'a ServeArguments) -> Self {
        Self {
            arguments,
            files: base_files(&arguments.service),
            stamps: Vec::new(),
            known: Known::default(),
        }
    }

    /// Reads the base files.
    pub(super) fn load_base(&mut self) -> Result<Base> {
        // Take the stamps before reading the files, so that the next reload notices a
        // change during the read.
        let stamps = self.stamps_now();
        let base = Base::load(&self.files)?;
        // Verify the digests: a program that is still writing the ISO may pause for
        // longer than reading it takes.
        let iso = &self.files.iso;
        let faults = checksums::verify(iso, &mut Iso::open(File::open(iso)?)?)?.faults;
        if !faults.is_empty() {
            bail!(
                "{}: {} -- copy the ISO again, under another name, and rename it",
                iso.display(),
                faults.join("; ")
            );
        }
        // ISO, kernel and ramdisk are surely of one build only if no file changed
        // meanwhile.
        if self.stamps_now() != stamps {
            bail!("the base changed while the service read it -- try again");
        }
        self.stamps = stamps;
        let service = &self.arguments.service;
        if let Some(fault) = base.script_fault(&HostVersion::default().with_kargs(kargs(service))) {
            report::warn(&format!(
                "{}: {fault}, so no host has /NAME.ipxe -- boot /NAME.iso, or give --karg-delete",
                iso.display()
            ));
        }
        warn_of_ignition_configs(service)?;
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
        let stamp =
            |path: Option<&PathBuf>| path?.metadata().ok().map(|found| FileStamp::of(&found));
        paths.map(stamp).to_vec()
    }

    /// Reads the hosts of all sources.
    pub(super) fn hosts(&self, empty_files: EmptyFiles) -> Result<ReadHosts> {
        let hosts = Hosts::read_for_own_images(&self.arguments.hosts)?;
        for warning in &hosts.warnings {
            report::warn(warning);
        }
        let is_suspicious = |file: &&EmptyFile| {
            self.known.hosts.contains(&file.host) && !self.known.empty.contains(&file.host)
        };
        if empty_files == EmptyFiles::Suspicious
            && let Some(file) = hosts.empty_files.iter().find(is_suspicious)
        {
            bail!(
                "{}: expected the network of {}, found an empty file -- write its network into the file, or send SIGHUP to landfall-image if this host needs no network of its own",
                file.title,
                file.host
            );
        }
        let common = common_version(&self.arguments.service)?;
        if hosts.hosts.is_empty() {
            bail!(
                "expected hosts, found none -- give --hosts, --install-config, --agent-config, --bare-metal-hosts, --nmstate or --network-data"
            );
        }
        let version = |host: EmbeddedHost| (host.name(), common.clone().with_host(&host));
        Ok(ReadHosts {
            hosts: hosts.hosts.into_iter().map(version).collect(),
            empty: hosts
                .empty_files
                .into_iter()
                .map(|file| file.host)
                .collect(),
        })
    }

    /// Replaces the hosts.
    pub(super) fn put(&mut self, store: &HostStore, read: ReadHosts) -> Result<()> {
        self.replace(store, store.base(), read)
    }

    /// Replaces base and hosts.
    pub(super) fn put_on(&mut self, store: &HostStore, base: Base, read: ReadHosts) -> Result<()> {
        let result = self.replace(store, Arc::new(base), read);
        if result.is_err() {
            // The new base is not in use, so the next full reload must read it again.
            self.stamps.clear();
        }
        result
    }

    fn replace(&mut self, store: &HostStore, base: Arc<Base>, read: ReadHosts) -> Result<()> {
        let ReadHosts { hosts, empty } = read;
        let known = Known {
            hosts: hosts.iter().map(|(name, _)| name.clone()).collect(),
            empty,
        };
        if let Err(faults) = store.replace(base, hosts) {
            let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
            match lines.as_slice() {
                [line] => bail!("{line}"),
                lines => bail!("{} faults:\n  {}", lines.len(), lines.join("\n  ")),
            }
        }
        self.known = known;
        // Without this call, the allocator would keep the memory that reading has freed
        // as long as the service runs.
        freed_memory::give_back();
        Ok(())
    }

    /// The directories whose changes concern the hosts.
    pub(super) fn places(&self) -> Vec<Place> {
        let ServeArguments { service, hosts, .. } = self.arguments;
        let files = [
            &hosts.nmstate,
            &hosts.network_data,
            &hosts.agent_config,
            &hosts.install_config,
            &service.site.ca_file,
        ];
        let files = files.into_iter().flatten();
        let files = files
            .chain(&hosts.bare_metal_hosts)
            .chain(&service.site.config_file);
        let mut places: BTreeMap<PathBuf, Option<BTreeSet<OsString>>> = BTreeMap::new();
        for file in files {
            let (Some(parent), Some(name)) = (file.parent(), file.file_name()) else {
                continue;
            };
            let parent = match parent == Path::new("") {
                true => PathBuf::from("."),
                false => parent.to_owned(),
            };
            let names = places
                .entry(parent)
                .or_insert_with(|| Some(BTreeSet::new()));
            names.get_or_insert_default().insert(name.to_owned());
        }
        if let Some(directory) = &hosts.hosts {
            places.insert(directory.clone(), None);
        }
        places.into_iter().collect()
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

/// Warns of the files in which coreos-installer has put an Ignition config. Boot menus
/// load these files as one more ramdisk, but the service does not.
pub(crate) fn warn_of_ignition_configs(arguments: &ServiceArguments) -> Result<()> {
    let mut found = Vec::new();
    let mut iso = Iso::open(File::open(&arguments.iso)?)?;
    if let Some(area) = Areas::of(&mut iso)?.0.ignition
        && area.read(&mut iso)?.iter().any(|byte| *byte != 0)
    {
        found.push(format!("{} in {}", area.path, arguments.iso.display()));
    }
    if let Some(tree) = &arguments.pxe {
        let path = tree.join(areas::IGNITION_PATH);
        // A tree that `landfall-image pxe` did not make may have no such file.
        if fs::read(&path).is_ok_and(|bytes| bytes != empty_ramdisk()) {
            found.push(path.display().to_string());
        }
    }
    for path in found {
        report::warn(&format!(
            "{path} has an Ignition config, which is not in /NAME.initramfs -- put it into the ramdisk, or boot /NAME.iso"
        ));
    }
    Ok(())
}

/// Returns the site's configuration files and kernel arguments, which all hosts have in
/// addition to the base.
pub(crate) fn common_version(arguments: &ServiceArguments) -> Result<HostVersion> {
    let changes = &arguments.site;
    let site = SiteConfiguration::read(changes.ca_file.as_deref(), &changes.config_file)?;
    for warning in &site.warnings {
        report::warn(warning);
    }
    let common = HostVersion::default().with_kargs(kargs(arguments));
    let files = site.files.into_iter();
    Ok(files.fold(common, |version, file| {
        version.with_file(file.path, file.bytes)
    }))
}

fn kargs(arguments: &ServiceArguments) -> KargsEdit {
    KargsEdit {
        reset: false,
        delete: arguments.site.karg_delete.clone(),
        append: arguments.site.karg.clone(),
    }
}
