//! Reads Ironic's record of this machine.

use serde_json::Value;

/// Ironic's record of this machine, as a lookup or a command delivered it. The agent
/// keeps the record unchanged. The methods read the fields that several commands use.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Node(pub Value);

impl Node {
    /// A field of `instance_info`, which describes what to install.
    pub fn instance_info(&self, key: &str) -> Option<&Value> {
        self.0
            .get("instance_info")?
            .get(key)
            .filter(|v| !v.is_null())
    }

    /// A field of `properties`, which the operator recorded about the hardware.
    pub fn property(&self, key: &str) -> Option<&Value> {
        self.0.get("properties")?.get(key).filter(|v| !v.is_null())
    }

    /// A field of `driver_internal_info`, the conductor's configuration for the
    /// agent.
    pub fn driver_info(&self, key: &str) -> Option<&Value> {
        self.0
            .get("driver_internal_info")?
            .get(key)
            .filter(|v| !v.is_null())
    }

    /// Whether the node boots its installed system by BIOS. The default is UEFI, as
    /// in Ironic.
    pub fn boots_by_bios(&self) -> bool {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let mode = self
            .instance_info("deploy_boot_mode")
            .and_then(text)
            .or_else(|| boot_mode_of(self.instance_info("capabilities")?))
            .or_else(|| boot_mode_of(self.property("capabilities")?))
            .or_else(|| self.driver_info("deploy_boot_mode").and_then(text))
            .or_else(|| self.0.get("boot_mode").and_then(text));
        mode.as_deref() == Some("bios")
    }

    /// Like [`Node::driver_info`], for a boolean.
    pub fn driver_switch(&self, key: &str, default: bool) -> bool {
        self.driver_info(key)
            .and_then(Value::as_bool)
            .unwrap_or(default)
    }
}

/// Reads `boot_mode` from capabilities: an object, the same object as JSON in a
/// string, or `NAME:VALUE,NAME:VALUE`.
fn boot_mode_of(capabilities: &Value) -> Option<String> {
    let Value::String(text) = capabilities else {
        return capabilities["boot_mode"].as_str().map(str::to_owned);
    };
    if let Ok(object @ Value::Object(_)) = serde_json::from_str(text) {
        return boot_mode_of(&object);
    }
    text.split(',')
        .find_map(|item| item.trim().strip_prefix("boot_mode:"))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_node_boots_by_uefi_unless_it_says_bios() {
        for (node, bios) in [
            (json!({}), false),
            (
                json!({"properties": {"capabilities": "cpus:4,boot_mode:bios"}}),
                true,
            ),
            (
                json!({"properties": {"capabilities": "boot_mode:uefi"}, "boot_mode": "bios"}),
                false,
            ),
            (
                json!({"properties": {"capabilities": "cpus:4"}, "boot_mode": "bios"}),
                true,
            ),
            (
                json!({"instance_info": {"capabilities": "{\"boot_mode\": \"bios\"}"}}),
                true,
            ),
            (
                json!({"instance_info": {"capabilities": {"boot_mode": "bios"}}}),
                true,
            ),
            (
                json!({"instance_info": {"deploy_boot_mode": "uefi"},
                "properties": {"capabilities": "boot_mode:bios"}}),
                false,
            ),
            (
                json!({"driver_internal_info": {"deploy_boot_mode": "bios"}}),
                true,
            ),
        ] {
            assert_eq!(Node(node.clone()).boots_by_bios(), bios, "{node}");
        }
    }
}
