//! Every command that Ironic can send: the whole protocol in one file.

use std::fmt;

use serde_json::{Map, Value};

use super::image_info::ImageInfo;
use crate::failure::Failure;

/// A command with its arguments, valid by construction.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// `clean.get_clean_steps`, and the same for deploy and service
    GetSteps {
        kind: StepKind,
        /// The agent keeps it for later commands that contain no node.
        node: Node,
    },
    /// `clean.execute_clean_step`, and the same for deploy and service
    ExecuteStep {
        kind: StepKind,
        node: Node,
        /// The step exactly as Ironic sent it: Ironic compares it with the answer.
        step: Value,
        /// The arguments of the step: unknown parameters of the command, overridden
        /// by the step's own `args`.
        arguments: Map<String, Value>,
        /// The hardware manager versions with which Ironic planned the steps.
        version: Option<Value>,
    },
    /// `standby.prepare_image`: the step `write_image` under its older name
    PrepareImage {
        /// The image, already checked.
        info: Box<ImageInfo>,
        /// The config drive as sent, or null if there is none.
        config_drive: Value,
    },
    /// `standby.get_partition_uuids`
    GetPartitionUuids,
    /// `standby.sync`
    Sync,
    /// `standby.run_image`: boots the installed system
    RunImage,
    /// `standby.power_off`
    PowerOff,
    /// `image.install_bootloader`
    InstallBootloader {
        /// The root file system that a boot loader would have to find.
        root_uuid: Option<String>,
        /// How the installed system boots: `uefi` or `bios`.
        target_boot_mode: String,
        /// Whether a failure is ignored.
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
    /// `poll.set_node_info`. The dispatcher rejects it unless the agent is
    /// standalone.
    SetNodeInfo {
        /// The node, in the form that a lookup returns.
        node: Node,
    },
    /// `flow.start_flow`: runs commands one after the other
    StartFlow {
        /// In the order of execution.
        tasks: Vec<FlowTask>,
    },
}

/// A command in a flow, or the error with which it will fail. The flow starts in
/// both cases.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowTask {
    /// `EXTENSION.NAME`
    pub name: String,
    pub command: Result<Command, Failure>,
}

/// The password with which the user of a rescued machine logs in.
#[derive(Clone, PartialEq, Eq)]
pub enum RescuePassword {
    /// A crypt(3) hash.
    Hash(String),
    /// The password in plain text, from older conductors.
    Plain(String),
}

impl fmt::Debug for RescuePassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RescuePassword(***)")
    }
}

impl Command {
    /// `EXTENSION.NAME` of every command, for the parser and for messages.
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

    /// The name that Ironic reads back, without the extension.
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

    /// Whether the POST returns at once while the command continues.
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

    /// Whether no other command can follow.
    pub fn ends_the_boot(&self) -> bool {
        match self {
            Self::RunImage | Self::PowerOff | Self::FinalizeRescue(_) | Self::Lockdown => true,
            Self::StartFlow { tasks } => tasks
                .iter()
                .any(|task| task.command.as_ref().is_ok_and(Self::ends_the_boot)),
            _ => false,
        }
    }

    /// Whether a restarted agent may run the command again. Every step gives the
    /// same result whatever an interrupted attempt left behind.
    pub fn may_be_repeated(&self) -> bool {
        matches!(self, Self::ExecuteStep { .. } | Self::PrepareImage { .. })
    }
}

/// The operations that consist of steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepKind {
    /// Erases the machine between two users, or on demand.
    Clean,
    /// Installs the machine for its user.
    Deploy,
    /// Maintains a machine that is in use.
    Service,
}

impl StepKind {
    /// The word in the names of commands and JSON fields.
    pub fn word(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Deploy => "deploy",
            Self::Service => "service",
        }
    }
}

/// Ironic's record of this machine. It comes with the lookup and with commands, and
/// is kept as received. The methods are the only fields that are read.
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
