//! Root device hints together with the place where the operator wrote them.
//!
//! Ironic's hints take precedence over those in the ramdisk, because they may be newer
//! than the boot medium.

use std::fmt;

use landfall_network_plan::{Embedded, EmbeddedHost};
use landfall_report::failure::{Failure, Result};
use serde_json::Value;

use super::hint_expression::HintError;
use super::root_device_hints::RootDeviceHints;

/// Where hints come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HintSource {
    InstanceInfo,
    Properties,
    Ramdisk {
        /// The embedded host of this machine, as the console shows it.
        host: String,
        overrider: Overrider,
    },
}

/// The source that takes precedence over the hints in the ramdisk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overrider {
    /// The node in Ironic.
    Node,
    /// The arguments of an unattended installation, which has no Ironic.
    Arguments,
}

/// The hints that choose the root disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenHints {
    pub hints: RootDeviceHints,
    pub source: HintSource,
}

impl GivenHints {
    /// The hints for a node: those in `instance_info`, otherwise those in `properties`,
    /// otherwise those of this machine's embedded host. `node` is `None` before the node
    /// is known. The result is `None` if there are no hints.
    ///
    /// # Errors
    /// If the first hints in this order are invalid. If the node has no hints, and it is
    /// not certain which embedded host this machine is.
    pub fn for_node(node: Option<&Value>, embedded: &Embedded) -> Result<Option<Self>> {
        let hints_in = |parent: &str| {
            let hints = node.and_then(|node| node.get(parent)?.get("root_device"));
            RootDeviceHints::parse(hints.unwrap_or(&Value::Null))
        };
        let of_ironic = match hints_in("instance_info")? {
            Some(hints) => Some((hints, HintSource::InstanceInfo)),
            None => hints_in("properties")?.map(|hints| (hints, HintSource::Properties)),
        };
        match of_ironic {
            Some((hints, source)) => Ok(Some(Self { hints, source })),
            None => Self::in_ramdisk(embedded, Overrider::Node),
        }
    }

    /// The hints of this machine's embedded host, if it has any.
    ///
    /// # Errors
    /// If it is not certain which host this machine is, or if the hints of the host are
    /// invalid. The builder rejects invalid hints.
    pub fn in_ramdisk(embedded: &Embedded, overrider: Overrider) -> Result<Option<Self>> {
        let hints = embedded.root_device_hints().map_err(|unclear| {
            let other = overrider.remedy();
            Failure::invalid_params(unclear.to_string()).hint(format!(
                "build the boot medium again with the addresses of this machine's NICs, or {other}"
            ))
        })?;
        let Some((host, hints)) = hints else {
            return Ok(None);
        };
        let source = HintSource::of_host(host, overrider);
        let hints = RootDeviceHints::from_metal3(hints)
            .map_err(|error| source.corrected(Failure::from(error)))?;
        Ok(Some(Self { hints, source }))
    }

    /// The failure if the hints cannot be compared with a disk.
    pub(super) fn incomparable(&self, error: HintError) -> Failure {
        self.source.corrected(Failure::from(error))
    }
}

impl HintSource {
    fn of_host(host: &EmbeddedHost, overrider: Overrider) -> Self {
        Self::Ramdisk {
            host: host.to_string(),
            overrider,
        }
    }

    /// Adds a hint that says where the operator can correct the root device hints.
    fn corrected(&self, failure: Failure) -> Failure {
        failure.hint(self.remedy())
    }

    /// How the operator can correct the root device hints.
    pub fn remedy(&self) -> String {
        match self {
            Self::InstanceInfo | Self::Properties => {
                "correct root_device in the node's properties or instance_info".to_owned()
            }
            Self::Ramdisk { host, overrider } => format!(
                "correct the rootDeviceHints of {host} and build the boot medium again, or {}",
                overrider.remedy()
            ),
        }
    }
}

impl Overrider {
    /// How the operator can override the hints in the ramdisk.
    fn remedy(self) -> &'static str {
        match self {
            Self::Node => "give root_device in the node's properties",
            Self::Arguments => "name the disk with coreos.inst.install_dev=",
        }
    }
}

impl fmt::Display for HintSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InstanceInfo => f.write_str("in the node's instance_info"),
            Self::Properties => f.write_str("in the node's properties"),
            Self::Ramdisk { host, .. } => write!(f, "embedded in the ramdisk for {host}"),
        }
    }
}

/// Formats as `root device hints in the node's properties: serial: "S1"`.
impl fmt::Display for GivenHints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "root device hints {}: {}", self.source, self.hints)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use landfall_network_plan::{Document, Metal3Hints};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::hint_expression::Expression;

    pub(super) fn embedded(hints: &Value) -> Embedded {
        Embedded {
            host: Some(EmbeddedHost {
                host_name: Some("node7".to_owned()),
                macs: vec!["52:54:00:00:00:01".parse().unwrap()],
                nics: BTreeMap::new(),
                root_device_hints: Metal3Hints::from_json(hints).unwrap(),
                document: Document::None,
            }),
            hosts: 3,
            ..Embedded::default()
        }
    }

    #[test]
    fn ironics_hints_take_precedence() {
        let own = embedded(&json!({"serialNumber": "E", "model": "M"}));
        let none = embedded(&json!(null));
        let ramdisk = "root device hints embedded in the ramdisk for node7 (52:54:00:00:00:01): \
                       model: \"<in> M\", serial: \"s== E\"";
        let properties = json!({"root_device": {"serial": "P"}});
        for (node, embedded, expected) in [
            (
                json!({"instance_info": {"root_device": {"serial": "I"}}, "properties": properties}),
                &own,
                Some("root device hints in the node's instance_info: serial: \"I\""),
            ),
            (
                json!({"instance_info": {"root_device": {}}, "properties": properties}),
                &own,
                Some("root device hints in the node's properties: serial: \"P\""),
            ),
            (
                json!({"properties": {"root_device": null}}),
                &own,
                Some(ramdisk),
            ),
            (json!(null), &own, Some(ramdisk)),
            (json!({}), &none, None),
            (json!({}), &Embedded::default(), None),
        ] {
            let found = GivenHints::for_node(Some(&node), embedded).unwrap();
            let found = found.map(|given| given.to_string());
            assert_eq!(found.as_deref(), expected, "{node}");
        }
        // Invalid hints from Ironic are an error, not a reason to use other hints.
        let bad = json!({"properties": {"root_device": {"colour": "red"}}});
        assert!(GivenHints::for_node(Some(&bad), &own).is_err());
    }

    #[test]
    fn the_remedy_names_the_place_of_the_hints() {
        let own = embedded(&json!({"serialNumber": "E"}));
        for (overrider, other) in [
            (Overrider::Node, "give root_device in the node's properties"),
            (
                Overrider::Arguments,
                "name the disk with coreos.inst.install_dev=",
            ),
        ] {
            let given = GivenHints::in_ramdisk(&own, overrider).unwrap().unwrap();
            assert_eq!(
                given.source.remedy(),
                format!(
                    "correct the rootDeviceHints of node7 (52:54:00:00:00:01) and build the boot medium again, or {other}"
                )
            );
        }
    }

    /// Generates arbitrary texts, many of which look like hint expressions.
    fn operand() -> impl Strategy<Value = String> {
        prop_oneof![
            "[ \t\u{a0}\u{1d}]{0,2}(s|S|<|>|=|!|in|or|<in>|<or>|all-in){0,3}[ =A]{0,3}",
            "\\PC{1,12}",
            any::<String>(),
        ]
    }

    proptest! {
        /// The builder accepts a hint exactly if the agent's parser does.
        #[test]
        fn the_builder_accepts_what_the_agent_can_use(text in operand()) {
            prop_assume!(!text.is_empty() && text.len() <= 1024);
            for (metal3, operator) in [("serialNumber", "s=="), ("vendor", "<in>")] {
                let expression = Expression::for_text(&format!("{operator} {text}"));
                let read = Metal3Hints::from_json(&json!({metal3: text}));
                prop_assert_eq!(read.is_ok(), expression.is_ok(), "{} {:?}", operator, text);
                if let Ok(Some(hints)) = read {
                    prop_assert!(RootDeviceHints::from_metal3(&hints).is_ok());
                }
            }
        }
    }
}
