//! Reads one BareMetalHost (baremetal-operator,
//! apis/metal3.io/v1alpha1/baremetalhost_types.go).
//!
//! The network of the ramdisk is the one of `preprovisioningNetworkDataName`.
//! `networkData` is for the installed system: metal3 does not use it for the ramdisk.

use landfall_network_plan::Document;
use serde_json::{Map, Value};

use crate::manifest::Manifest;
use crate::network_secret::network_of;
use crate::reader::{Reader, start};
use crate::{Given, Identity, Reading, host};

const SECRET_NAME: &str = "preprovisioningNetworkDataName";

/// The keys of `spec` that this module reads.
const USED: &[&str] = &["bootMACAddress", SECRET_NAME, "rootDeviceHints"];
/// The other known keys of `spec`. They have no effect on the host; some cause a warning.
const READ_PAST: &[&str] = &[
    "architecture",
    "automatedCleaningMode",
    "bmc",
    "bootMode",
    "consumerRef",
    "customDeploy",
    "description",
    "disablePowerOff",
    "externallyProvisioned",
    "firmware",
    "hardwareProfile",
    "image",
    "inspectionMode",
    "metaData",
    "networkData",
    "online",
    "raid",
    "taints",
    "userData",
];

/// Adds the host to `reading`, with the network from one of the Secrets.
pub(crate) fn read(manifest: &Manifest, secrets: &[Manifest], reading: &mut Reading) {
    let mut reader = Reader {
        title: &manifest.title,
        reading,
    };
    let name = Value::String(manifest.name.clone());
    let name = reader.host_name("metadata.name", Some(&name));
    let Some(spec) = reader.object("spec", manifest.fields.get("spec")) else {
        return;
    };
    reader.check_spelling("spec", spec, USED, READ_PAST);
    // In the API an empty text is the same as none.
    let is_set = |value: &&Value| !value.is_null() && value.as_str() != Some("");
    let mac = spec.get("bootMACAddress").filter(is_set);
    let identity = match mac {
        Some(_) => Identity::Listed,
        None => Identity::OnlyInNetwork,
    };
    let mac = reader.mac("spec.bootMACAddress", mac);
    let hints = reader.hints("spec", spec);
    let (title, document) = match reader.secret_of(manifest, spec, secrets) {
        Some(secret) => {
            let name = start(&secret.name);
            let title = format!("{} (Secret {})", manifest.title, name.escape_debug());
            (title, reader.network_in(secret))
        }
        None => (manifest.title.clone(), Document::None),
    };
    let mut host = host(name, document);
    host.macs.extend(mac);
    host.root_device_hints = hints;
    reading.given.push(Given {
        title,
        host,
        identity,
    });
}

impl Reader<'_> {
    /// The Secret that the host names. As for metal3, it must be in the namespace of the
    /// host. If only one of the two has a namespace, it is accepted with a warning.
    fn secret_of<'s>(
        &mut self,
        manifest: &Manifest,
        spec: &Map<String, Value>,
        secrets: &'s [Manifest],
    ) -> Option<&'s Manifest> {
        let path = format!("spec.{SECRET_NAME}");
        let name = self.text(&path, spec.get(SECRET_NAME))?;
        if name.is_empty() {
            return None;
        }
        let named = secrets.iter().filter(|secret| secret.name == name);
        let named: Vec<&Manifest> = named.collect();
        let mut same =
            { named.iter().copied() }.filter(|secret| secret.namespace == manifest.namespace);
        if let Some(secret) = same.next() {
            return Some(secret);
        }
        let name = start(&name);
        // `kubectl apply -n` gives the same namespace to all resources that have none.
        let possible: Vec<&Manifest> = { named.iter().copied() }
            .filter(|secret| secret.namespace.is_none() || manifest.namespace.is_none())
            .collect();
        match (&possible[..], &named[..]) {
            (&[secret], _) => {
                let warning = format!(
                    "{}: {path}: only one of the host and {} has a namespace; the builder assumes that both are in the same namespace",
                    self.title, secret.title
                );
                self.reading.warnings.push(warning);
                Some(secret)
            }
            ([_, _, ..], _) => {
                let count = possible.len();
                let fault =
                    format!("expected one Secret {name:?}, found {count} in different namespaces");
                self.fault(&path, fault);
                None
            }
            ([], [other, ..]) => {
                let found = &other.title;
                let fault = format!(
                    "expected the Secret {name:?} in the namespace of the host, found {found}"
                );
                self.fault(&path, fault);
                None
            }
            ([], []) => {
                let fault = format!("expected the Secret {name:?} in the files, found none");
                self.fault(&path, fault);
                None
            }
        }
    }

    fn network_in(&mut self, secret: &Manifest) -> Document {
        match network_of(secret) {
            Ok(Document::None) => {
                let warning = format!(
                    "{}: no description of a network; {} uses DHCP, or kernel arguments",
                    secret.title, self.title
                );
                self.reading.warnings.push(warning);
                Document::None
            }
            Ok(document) => document,
            Err(error) => {
                let line = format!("{}: {error}", secret.title);
                // Several hosts may name the same Secret: report its fault only once.
                if !self.reading.faults.contains(&line) {
                    self.reading.faults.push(line);
                }
                Document::None
            }
        }
    }
}
