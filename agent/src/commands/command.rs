//! Everything that Ironic can ask of the agent: the protocol table in one file.

use std::fmt;

use serde_json::{Map, Value};

use super::image_info::ImageInfo;
use crate::failure::Failure;

/// A command with its arguments, valid by construction.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// `clean.get_clean_steps` and its like
    GetSteps {
        /// Of which operation.
        kind: StepKind,
        /// The node as Ironic knows it.
        node: Node,
    },
    /// `clean.execute_clean_step` and its like
    ExecuteStep {
        /// Of which operation.
        kind: StepKind,
        /// The node as Ironic knows it.
        node: Node,
        /// The step exactly as sent: Ironic compares it with what comes back.
        step: Value,
        /// What the step is called with: parameters of the command that are not
        /// its own, and over them `args` of the step.
        arguments: Map<String, Value>,
        /// The hardware manager versions that Ironic planned with.
        version: Option<Value>,
    },
    /// `standby.prepare_image`: the step `write_image` under its older name.
    PrepareImage {
        /// The image, checked.
        info: Box<ImageInfo>,
        /// The config drive as it came, null if there is none.
        config_drive: Value,
    },
    /// `standby.get_partition_uuids`
    GetPartitionUuids,
    /// `standby.sync`
    Sync,
    /// `standby.run_image`: reboot into what was installed.
    RunImage,
    /// `standby.power_off`
    PowerOff,
    /// `image.install_bootloader`
    InstallBootloader {
        /// The root file system that a boot loader would have to find.
        root_uuid: Option<String>,
        /// `uefi` or `bios`: how the installed system is to be booted.
        target_boot_mode: String,
        /// Whether a failure is to be swallowed.
        ignore_failure: bool,
    },
    /// `log.collect_system_logs`
    CollectSystemLogs,
    /// `rescue.finalize_rescue`
    FinalizeRescue(RescuePassword),
    /// `system.lockdown`
    Lockdown,
    /// `poll.get_hardware_info`
    GetHardwareInfo,
    /// `poll.set_node_info`; the parser refuses it to all but standalone agents.
    SetNodeInfo {
        /// The node as a lookup would have told it.
        node: Node,
    },
    /// `flow.start_flow`: commands one after the other.
    StartFlow {
        /// Each with its full name.
        tasks: Vec<FlowTask>,
    },
}

/// A command in a flow, or why it will fail: the flow begins all the same.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowTask {
    /// `EXTENSION.NAME`
    pub name: String,
    /// What is to be done.
    pub command: Result<Command, Failure>,
}

/// What the user of a rescued machine logs in with.
#[derive(Clone, PartialEq, Eq)]
pub enum RescuePassword {
    /// A crypt(3) hash.
    Hash(String),
    /// The password itself, from older conductors.
    Plain(String),
}

impl fmt::Debug for RescuePassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RescuePassword(***)")
    }
}

impl Command {
    /// `EXTENSION.NAME` of everything above, for the parser and for messages.
    pub const NAMES: [&'static str; 18] = [
        "clean.get_clean_steps",
        "clean.execute_clean_step",
        "deploy.get_deploy_steps",
        "deploy.execute_deploy_step",
        "service.get_service_steps",
        "service.execute_service_step",
        "standby.get_partition_uuids",
        "standby.sync",
        "standby.run_image",
        "standby.power_off",
        "image.install_bootloader",
        "standby.prepare_image",
        "log.collect_system_logs",
        "rescue.finalize_rescue",
        "system.lockdown",
        "poll.get_hardware_info",
        "poll.set_node_info",
        "flow.start_flow",
    ];

    /// The name as Ironic reads it back: without the extension.
    pub fn name(&self) -> &'static str {
        match self {
            Self::GetSteps { kind, .. } => match kind {
                StepKind::Clean => "get_clean_steps",
                StepKind::Deploy => "get_deploy_steps",
                StepKind::Service => "get_service_steps",
            },
            Self::ExecuteStep { kind, .. } => match kind {
                StepKind::Clean => "execute_clean_step",
                StepKind::Deploy => "execute_deploy_step",
                StepKind::Service => "execute_service_step",
            },
            Self::GetPartitionUuids => "get_partition_uuids",
            Self::Sync => "sync",
            Self::RunImage => "run_image",
            Self::PowerOff => "power_off",
            Self::InstallBootloader { .. } => "install_bootloader",
            Self::PrepareImage { .. } => "prepare_image",
            Self::CollectSystemLogs => "collect_system_logs",
            Self::FinalizeRescue(_) => "finalize_rescue",
            Self::Lockdown => "lockdown",
            Self::GetHardwareInfo => "get_hardware_info",
            Self::SetNodeInfo { .. } => "set_node_info",
            Self::StartFlow { .. } => "start_flow",
        }
    }

    /// Whether the POST returns at once and the command goes on by itself.
    pub fn is_asynchronous(&self) -> bool {
        match self {
            Self::ExecuteStep { .. }
            | Self::PrepareImage { .. }
            | Self::RunImage
            | Self::PowerOff
            | Self::StartFlow { .. }
            | Self::InstallBootloader { .. } => true,
            Self::GetSteps { .. }
            | Self::GetPartitionUuids
            | Self::Sync
            | Self::CollectSystemLogs
            | Self::FinalizeRescue(_)
            | Self::Lockdown
            | Self::GetHardwareInfo
            | Self::SetNodeInfo { .. } => false,
        }
    }

    /// Whether nothing can be done after it.
    pub fn ends_the_boot(&self) -> bool {
        match self {
            Self::RunImage | Self::PowerOff | Self::FinalizeRescue(_) | Self::Lockdown => true,
            Self::StartFlow { tasks } => tasks
                .iter()
                .any(|task| task.command.as_ref().is_ok_and(Self::ends_the_boot)),
            _ => false,
        }
    }

    /// Whether a restarted agent may begin the command anew: every step does
    /// its work whatever a first, interrupted attempt has left.
    pub fn may_be_repeated(&self) -> bool {
        matches!(self, Self::ExecuteStep { .. } | Self::PrepareImage { .. })
    }
}

/// The operations that consist of steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepKind {
    /// Between two users, or on demand.
    Clean,
    /// Making the machine ready for its user.
    Deploy,
    /// On a machine in use.
    Service,
}

impl StepKind {
    /// The word for it in the names of commands and fields.
    pub fn word(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Deploy => "deploy",
            Self::Service => "service",
        }
    }
}

/// The node object that comes with lookup and with commands: Ironic's record
/// of this machine. Kept as it came; what is read of it is named here.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Node(pub Value);

impl Node {
    /// `instance_info`, what shall be installed.
    pub fn instance_info(&self, key: &str) -> Option<&Value> {
        self.0
            .get("instance_info")?
            .get(key)
            .filter(|v| !v.is_null())
    }

    /// `properties`, what the operator recorded of the hardware.
    pub fn property(&self, key: &str) -> Option<&Value> {
        self.0.get("properties")?.get(key).filter(|v| !v.is_null())
    }
    /// `driver_internal_info`, what the conductor's configuration says of the
    /// work of the agent.
    pub fn driver_info(&self, key: &str) -> Option<&Value> {
        self.0
            .get("driver_internal_info")?
            .get(key)
            .filter(|v| !v.is_null())
    }

    /// Whether the node is to boot its system by BIOS. A node that does not say so
    /// boots by UEFI, Ironic's default.
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

    /// As [`Node::driver_info`], for a switch.
    pub fn driver_switch(&self, key: &str, default: bool) -> bool {
        self.driver_info(key)
            .and_then(Value::as_bool)
            .unwrap_or(default)
    }
}

/// `boot_mode` of capabilities: an object, the same as JSON in a string, or
/// `NAME:VALUE,NAME:VALUE`.
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
