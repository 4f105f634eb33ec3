//! The network of a host, from the Secret that its resource names.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use landfall_host_manifests::{NETWORK_KEYS, NetworkSecretError, host, network_of_keys};
use landfall_network_plan::Document;

/// The maximum number of faults of a description that are reported.
const MOST_FAULTS: usize = 20;

/// Whether the Secret is for the network of a host: it has a key for a network, or no
/// content at all. If the name in a resource is wrong, the Secret may belong to another
/// program.
pub(crate) fn is_for_network(secret: &Secret) -> bool {
    let data = secret.data.as_ref();
    data.is_none_or(|data| {
        data.is_empty() || NETWORK_KEYS.iter().any(|key| data.contains_key(*key))
    })
}

/// Why a Secret describes no network. The message contains no value of a key that is not
/// for a network, because the value may be a password.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NetworkError {
    #[error(transparent)]
    Keys(#[from] NetworkSecretError),
    /// Holds the faults in one line.
    #[error("{kind}: {faults}")]
    Plan { kind: &'static str, faults: String },
    /// The network data of the host has no interface, and would switch off every NIC. Add
    /// one to the Secret.
    #[error("{0}: expected at least one interface, found none")]
    NoInterface(&'static str),
}

/// The network that the Secret describes, checked with the code that reads it in the
/// ramdisk.
///
/// # Errors
/// If the Secret describes no network.
pub(crate) fn network_of(secret: &Secret) -> Result<Document, NetworkError> {
    let data: BTreeMap<&str, &[u8]> = secret
        .data
        .iter()
        .flatten()
        .map(|(key, value)| (key.as_str(), value.0.as_slice()))
        .collect();
    let document = network_of_keys(&data)?;
    if document == Document::None {
        return Ok(document);
    }
    let host = host(None, document);
    let kind = host.document.kind();
    let plan = host.plan();
    let plan = plan.map_err(|error| NetworkError::Plan {
        kind,
        faults: joined(error.lines()),
    })?;
    if plan.interfaces.is_empty() && plan.installed.is_empty() {
        // image-customization-controller rejects a network without interfaces too.
        return Err(NetworkError::NoInterface(kind));
    }
    Ok(host.document)
}

fn joined(mut faults: Vec<String>) -> String {
    let more = faults.len().saturating_sub(MOST_FAULTS);
    faults.truncate(MOST_FAULTS);
    if more > 0 {
        faults.push(format!("and {more} more"));
    }
    faults.join("; ")
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use landfall_network_plan::NetworkPlan;
    use proptest::prelude::*;

    use super::*;

    fn secret(keys: &[(&str, &str)]) -> Secret {
        let pair = |(key, text): &(&str, &str)| ((*key).to_owned(), ByteString((*text).into()));
        Secret {
            data: Some(keys.iter().map(pair).collect()),
            ..Secret::default()
        }
    }

    #[test]
    fn unusable_networks() {
        let interface = "- name: eno1\n  type: nonsense\n";
        let many = format!("interfaces:\n{}", interface.repeat(500));
        for (key, text, expected) in [
            (
                "password",
                "hunter2",
                "expected one of the keys nmstate, networkData and value, found password",
            ),
            (
                "nmstate",
                "interfaces: []",
                "nmstate: expected at least one interface, found none",
            ),
            ("nmstate", "interfaces: [", "nmstate: expected YAML: "),
            (
                "value",
                "{\"links\": []}",
                "network_data: it describes no link",
            ),
            ("nmstate", &many, "nmstate: interfaces[0].type: "),
        ] {
            let fault = network_of(&secret(&[(key, text)])).unwrap_err().to_string();
            assert!(fault.starts_with(expected), "{fault}");
            assert!(fault.len() < 8192, "{fault}");
        }
        let fault = network_of(&secret(&[("nmstate", &many)]))
            .unwrap_err()
            .to_string();
        assert!(fault.ends_with(" more"), "{fault}");
    }

    #[test]
    fn secrets_of_other_programs() {
        for (keys, expected) in [
            (&[][..], true),
            (&[("nmstate", "")], true),
            (&[("value", "x"), ("userData", "x")], true),
            (&[("username", "admin"), ("password", "hunter2")], false),
            (&[(".dockerconfigjson", "{}")], false),
        ] {
            assert_eq!(is_for_network(&secret(keys)), expected, "{keys:?}");
        }
        assert!(is_for_network(&Secret::default()));
    }

    proptest! {
        #[test]
        fn accepted_networks_can_be_read_in_the_ramdisk(text in "[a-z:\\[\\]{}\\- \n\"]{0,60}") {
            for key in ["nmstate", "networkData"] {
                match network_of(&secret(&[(key, &text)])) {
                    Ok(Document::NmState(text)) => {
                        prop_assert!(NetworkPlan::from_nmstate(&text).is_ok());
                    }
                    Ok(Document::NetworkData(text)) => {
                        prop_assert!(NetworkPlan::from_network_data(&text).is_ok());
                    }
                    Ok(Document::None) => prop_assert!(text.trim().is_empty()),
                    Err(fault) => prop_assert!(!fault.to_string().is_empty()),
                }
            }
        }
    }
}
