//! Reads each host's own network from the user's files and checks it with the code
//! that will read it in the ramdisk.
//!
//! If the network of any host would not come up, the builder builds nothing: nobody
//! could reach that machine to find the reason. So the builder reports every fault
//! of every host.

mod directory;
mod rules;

use std::net::IpAddr;
use std::path::Path;

use anyhow::{Result, bail};
use landfall_host_manifests::{
    Given, Identity, ManifestFile, Reading, host, read_agent_config, read_bare_metal_hosts,
    read_install_config,
};
use landfall_initramfs::build::ConfigurationFile;
use landfall_initramfs::{parallel, path_error};
use landfall_network_plan::embedded::{self, MOST_HOSTS};
use landfall_network_plan::{Document, EmbeddedHost, MacAddr, NetworkPlan, from_network_data};

use crate::cli::HostArguments;

/// The maximum size of a file in bytes: enough for a thousand hosts with large networks.
const MAX_FILE_BYTES: u64 = 8 << 20;

/// The hosts, sorted by name, and warnings about them.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    pub(crate) hosts: Vec<EmbeddedHost>,
    pub(crate) warnings: Vec<String>,
    pub(crate) empty_files: Vec<EmptyFile>,
}

/// An empty file for a host: the host has no network of its own, or a program has
/// begun to write the file.
#[derive(Debug)]
pub(crate) struct EmptyFile {
    /// The host's name.
    pub(crate) host: String,
    /// The file in messages.
    pub(crate) title: String,
}

/// A host whose network has been read.
#[derive(Debug)]
struct Checked {
    title: String,
    host: EmbeddedHost,
    identity: Identity,
    /// `None` if the network cannot be used, which has been reported as a fault.
    network: Option<Network>,
}

/// What the rules compare between hosts. The whole plans are not kept, because many plans
/// take much memory.
#[derive(Debug)]
struct Network {
    known_macs: Vec<MacAddr>,
    given_macs: Vec<MacAddr>,
    addresses: Vec<IpAddr>,
}

impl Network {
    fn of(plan: &NetworkPlan) -> Self {
        let families = plan
            .interfaces
            .iter()
            .flat_map(|nic| [&nic.ipv4, &nic.ipv6]);
        let addresses = families.flatten().flat_map(|ip| &ip.addresses);
        Self {
            known_macs: embedded::known_macs(plan),
            given_macs: embedded::given_macs(plan),
            addresses: addresses.map(|prefix| prefix.address).collect(),
        }
    }
}

/// The result of the check of one host.
#[derive(Debug, Default)]
struct Check {
    network: Option<Network>,
    faults: Vec<String>,
    warnings: Vec<String>,
}

impl Hosts {
    /// Reads and checks the files that the user named, for one image with all hosts.
    pub(crate) fn read(arguments: &HostArguments) -> Result<Self> {
        Self::read_for(arguments, true)
    }

    /// Like [`Hosts::read`], but for a separate image for each host. A host then needs no
    /// hardware address that identifies it, except a BareMetalHost.
    pub(crate) fn read_for_own_images(arguments: &HostArguments) -> Result<Self> {
        Self::read_for(arguments, false)
    }

    fn read_for(arguments: &HostArguments, together: bool) -> Result<Self> {
        let mut reading = Reading::default();
        let empty_files = read_files(arguments, &mut reading)?;
        let Reading {
            given,
            mut faults,
            mut warnings,
        } = reading;
        let checks = parallel::map(&given, check);
        let mut checked = Vec::with_capacity(given.len());
        for (given, check) in given.into_iter().zip(checks) {
            faults.extend(check.faults);
            warnings.extend(check.warnings);
            checked.push(Checked {
                title: given.title,
                host: given.host,
                identity: given.identity,
                network: check.network,
            });
        }
        if together && checked.len() > MOST_HOSTS {
            let found = checked.len();
            faults.push(format!(
                "expected at most {MOST_HOSTS} hosts, found {found}"
            ));
        }
        rules::identify(&mut checked, together, &mut faults);
        rules::same_addresses(&checked, &mut warnings);
        if arguments.strict {
            faults.append(&mut warnings);
        }
        match faults.as_slice() {
            [] => {}
            [fault] => bail!("{fault}"),
            faults => bail!("{} faults:\n  {}", faults.len(), faults.join("\n  ")),
        }
        let mut hosts: Vec<_> = checked.into_iter().map(|checked| checked.host).collect();
        hosts.sort_by_cached_key(EmbeddedHost::path);
        Ok(Self {
            hosts,
            warnings,
            empty_files,
        })
    }

    /// The files for a ramdisk with all hosts.
    pub(crate) fn files(&self) -> Vec<ConfigurationFile> {
        let file = |host: &EmbeddedHost| ConfigurationFile {
            path: host.path(),
            bytes: host.to_json().into_bytes(),
        };
        self.hosts.iter().map(file).collect()
    }
}

fn read_files(arguments: &HostArguments, reading: &mut Reading) -> Result<Vec<EmptyFile>> {
    let single = [
        (
            &arguments.nmstate,
            Document::NmState as fn(String) -> Document,
        ),
        (&arguments.network_data, Document::NetworkData),
    ];
    for (path, kind) in single {
        if let Some(path) = path {
            let host = host(None, kind(read_text(path)?));
            let title = path.display().to_string();
            reading.given.push(Given {
                title,
                host,
                identity: Identity::InNetwork,
            });
        }
    }
    let title = |path: &Path| path.display().to_string();
    if let Some(path) = &arguments.agent_config {
        read_agent_config(&title(path), &read_text(path)?, reading);
    }
    if let Some(path) = &arguments.install_config {
        read_install_config(&title(path), &read_text(path)?, reading);
    }
    let mut manifests = Vec::new();
    for path in &arguments.bare_metal_hosts {
        let (title, text) = (title(path), read_text(path)?);
        manifests.push(ManifestFile { title, text });
    }
    if !manifests.is_empty() {
        read_bare_metal_hosts(&manifests, reading);
    }
    // Last, because its files may be the networks of hosts in the other files.
    match &arguments.hosts {
        Some(path) => directory::read(path, reading),
        None => Ok(Vec::new()),
    }
}

fn read_text(path: &Path) -> Result<String> {
    let bytes = path_error::read_bounded(path, MAX_FILE_BYTES)?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(text),
        Err(_) => bail!("{}: expected text", path.display()),
    }
}

/// Checks one host.
fn check(given: &Given) -> Check {
    let Given { title, host, .. } = given;
    let mut check = Check::default();
    if let Some(plan) = plan(title, host, &mut check.faults) {
        report_warnings(title, &host.document, &plan, &mut check);
        check.network = Some(Network::of(&plan));
    }
    check
}

fn plan(title: &str, host: &EmbeddedHost, faults: &mut Vec<String>) -> Option<NetworkPlan> {
    let long = host.document.text().len();
    if long > from_network_data::LARGEST {
        let most = from_network_data::LARGEST;
        faults.push(format!(
            "{title}: expected at most {most} bytes, found {long}"
        ));
        return None;
    }
    match host.plan() {
        Ok(plan) => Some(plan),
        Err(error) => {
            let found = error.lines().into_iter();
            faults.extend(found.map(|fault| format!("{title}: {fault}")));
            None
        }
    }
}

/// Reports the warnings of a plan. A setting in network_data that has no effect is a
/// fault, because nobody writes it on purpose.
fn report_warnings(
    title: &str,
    document: &Document,
    plan: &NetworkPlan,
    Check {
        faults, warnings, ..
    }: &mut Check,
) {
    let titled = |text: &String| format!("{title}: {text}");
    match document {
        Document::NetworkData(_) => {
            // Some hosting providers put the gateway outside the host's subnet on
            // purpose, so these are only warnings.
            let far = plan.far_gateways();
            let (far, in_vain): (Vec<_>, Vec<_>) = plan
                .warnings
                .iter()
                .partition(|warning| far.contains(warning));
            faults.extend(in_vain.into_iter().map(titled));
            warnings.extend(far.into_iter().map(titled));
        }
        Document::NmState(_) | Document::None => {
            warnings.extend(plan.warnings.iter().map(titled));
        }
    }
}

#[cfg(test)]
mod tests;
