//! Reads each host's own network from the user's files and checks it with the code
//! that will read it in the ramdisk.
//!
//! If the network of any host would not come up, the builder builds nothing: nobody
//! could reach that machine to find the reason. So the builder reports every fault
//! of every host.

mod agent_config;
mod directory;
mod rules;

use std::path::Path;

use anyhow::{Result, bail};
use landfall_initramfs::build::{CONFIGURATION_DIRECTORY, ConfigurationFile};
use landfall_initramfs::path_error;
use landfall_network_plan::{Document, EmbeddedHost, NetworkPlan, embedded, from_network_data};

use crate::cli::HostArguments;

/// In bytes: enough for a thousand hosts with large networks in one file.
const MAX_FILE_BYTES: u64 = 8 << 20;

/// The files of the hosts for the ramdisk, and warnings about them.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    pub(crate) files: Vec<ConfigurationFile>,
    pub(crate) warnings: Vec<String>,
}

/// A host as the user described it.
#[derive(Debug)]
struct Given {
    /// Name of the source in messages: `hosts/node7.yaml`.
    title: String,
    host: EmbeddedHost,
    /// The source lists the host's hardware addresses. If its list is empty, that
    /// has been reported as a fault.
    has_addresses: bool,
}

/// A host whose network is usable.
#[derive(Debug)]
struct Checked {
    title: String,
    host: EmbeddedHost,
    has_addresses: bool,
    plan: NetworkPlan,
}

/// The hosts that have been read, and one line for each fault.
#[derive(Debug, Default)]
struct Reading {
    given: Vec<Given>,
    faults: Vec<String>,
}

impl Hosts {
    /// Reads and checks the files that the user named.
    pub(crate) fn read(arguments: &HostArguments) -> Result<Self> {
        let mut reading = Reading::default();
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
                    has_addresses: false,
                });
            }
        }
        if let Some(path) = &arguments.agent_config {
            let title = path.display().to_string();
            agent_config::read(&title, &read_text(path)?, &mut reading);
        }
        if let Some(path) = &arguments.hosts {
            directory::read(path, &mut reading)?;
        }
        let Reading { given, mut faults } = reading;
        let mut warnings = Vec::new();
        let mut checked = Vec::new();
        for given in given {
            checked.extend(check(given, &mut faults, &mut warnings));
        }
        rules::tell_apart(&mut checked, &mut faults);
        rules::same_addresses(&checked, &mut warnings);
        if arguments.strict {
            faults.append(&mut warnings);
        }
        match faults.as_slice() {
            [] => {}
            [fault] => bail!("{fault}"),
            faults => bail!("{} faults:\n  {}", faults.len(), faults.join("\n  ")),
        }
        let mut files: Vec<_> = checked.iter().map(|checked| file(&checked.host)).collect();
        files.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Self { files, warnings })
    }
}

fn file(host: &EmbeddedHost) -> ConfigurationFile {
    let prefix = format!("{CONFIGURATION_DIRECTORY}/");
    let directory = embedded::DIRECTORY;
    let directory = directory.strip_prefix(&prefix).unwrap_or(directory);
    ConfigurationFile {
        name: format!("{directory}/{}", host.file_name()),
        bytes: host.to_json().into_bytes(),
    }
}

fn host(host_name: Option<String>, document: Document) -> EmbeddedHost {
    EmbeddedHost {
        host_name,
        macs: Vec::new(),
        nics: std::collections::BTreeMap::new(),
        root_device_hints: None,
        document,
    }
}

fn read_text(path: &Path) -> Result<String> {
    let bytes = path_error::read_bounded(path, MAX_FILE_BYTES)?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(text),
        Err(_) => bail!("{}: expected text", path.display()),
    }
}

/// Checks one host. Returns `None` if its network cannot be used. A setting in
/// network_data that has no effect is a fault, because nobody writes it on
/// purpose.
fn check(given: Given, faults: &mut Vec<String>, warnings: &mut Vec<String>) -> Option<Checked> {
    let Given {
        title,
        host,
        has_addresses,
    } = given;
    let long = host.document.text().len();
    if long > from_network_data::LARGEST {
        let most = from_network_data::LARGEST;
        faults.push(format!(
            "{title}: expected at most {most} bytes, found {long}"
        ));
        return None;
    }
    let plan = match host.plan() {
        Ok(plan) => plan,
        Err(error) => {
            let found = error.lines().into_iter();
            faults.extend(found.map(|fault| format!("{title}: {fault}")));
            return None;
        }
    };
    let told = plan.warnings.iter().map(|told| format!("{title}: {told}"));
    match &host.document {
        Document::NetworkData(_) => {
            // Some hosting providers put the gateway outside the host's subnet on
            // purpose, so these are only warnings.
            let far = plan.far_gateways();
            let (far, in_vain): (Vec<_>, Vec<_>) = plan
                .warnings
                .iter()
                .partition(|warning| far.contains(warning));
            let titled = |text: &String| format!("{title}: {text}");
            faults.extend(in_vain.into_iter().map(titled));
            warnings.extend(far.into_iter().map(titled));
        }
        Document::NmState(_) | Document::None => warnings.extend(told),
    }
    Some(Checked {
        title,
        host,
        has_addresses,
        plan,
    })
}

#[cfg(test)]
mod tests;
