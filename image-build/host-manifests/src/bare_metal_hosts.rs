//! Reads files with BareMetalHosts and Secrets, as `kubectl apply` takes them and
//! `kubectl get -o yaml` writes them: several documents, lists, or JSON.

use std::collections::{BTreeMap, BTreeSet};

use crate::manifest::{Manifest, manifests};
use crate::{Reading, bare_metal_host};

const HOST: &str = "BareMetalHost";
const SECRET: &str = "Secret";
/// The kind of resource that describes the network of a host in OpenShift's assisted
/// installer. It belongs to no BareMetalHost.
const NMSTATE_CONFIG: &str = "NMStateConfig";

/// A file with resources.
#[derive(Clone, Debug)]
pub struct ManifestFile {
    /// Name of the file in messages.
    pub title: String,
    pub text: String,
}

/// Adds the BareMetalHosts of all files to `reading`, with the networks from the Secrets
/// of all files. Ignores other resources, and warns about an NMStateConfig.
pub fn read_bare_metal_hosts(files: &[ManifestFile], reading: &mut Reading) {
    let faults_before = reading.faults.len();
    let mut of_kind: BTreeMap<String, Vec<Manifest>> = BTreeMap::new();
    for file in files {
        let title = &file.title;
        let (found, faults) = manifests(title, &file.text);
        let faults = faults.iter().map(|fault| format!("{title}: {fault}"));
        reading.faults.extend(faults);
        for manifest in found {
            let kind = manifest.kind.clone();
            of_kind.entry(kind).or_default().push(manifest);
        }
    }
    let hosts = of_kind.remove(HOST).unwrap_or_default();
    let secrets = of_kind.remove(SECRET).unwrap_or_default();
    for other in of_kind.get(NMSTATE_CONFIG).into_iter().flatten() {
        let title = &other.title;
        reading.warnings.push(format!(
            "{title}: ignored; a host's network comes only from the Secret that its BareMetalHost names"
        ));
    }
    if hosts.is_empty() && reading.faults.len() == faults_before {
        let titles: Vec<&str> = files.iter().map(|file| file.title.as_str()).collect();
        let mut kinds: Vec<&str> = of_kind.keys().map(String::as_str).collect();
        if !secrets.is_empty() {
            kinds.push(SECRET);
        }
        let found = match kinds.len() {
            0 => "nothing".to_owned(),
            _ => kinds.iter().take(8).copied().collect::<Vec<_>>().join(", "),
        };
        let (titles, found) = (titles.join(", "), found.escape_debug());
        reading.faults.push(format!(
            "{titles}: expected at least one BareMetalHost, found {found}"
        ));
    }
    report_repeated(&hosts, reading);
    report_repeated(&secrets, reading);
    for host in &hosts {
        bare_metal_host::read(host, &secrets, reading);
    }
}

/// Reports the resources that are given twice, because it is not clear which one is
/// meant.
fn report_repeated(manifests: &[Manifest], reading: &mut Reading) {
    let mut seen = BTreeSet::new();
    for Manifest {
        title,
        namespace,
        name,
        ..
    } in manifests
    {
        if !seen.insert((namespace, name)) {
            reading.faults.push(format!("{title} is given twice"));
        }
    }
}

#[cfg(test)]
mod tests;
