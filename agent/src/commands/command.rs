//! Every command that Ironic can send: the whole protocol in one file.

use std::fmt;

use landfall_report::failure::Failure;
use serde_json::{Map, Value};

use super::image_info::ImageInfo;
use super::node::Node;

/// A command with its arguments, valid by construction.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// `clean.get_clean_steps`, and the same for deploy and service
    GetSteps {
        kind: StepKind,
        /// The node, which the agent keeps for later commands that contain none.
        node: Node,
    },
    /// `clean.execute_clean_step`, and the same for deploy and service
    ExecuteStep {
        kind: StepKind,
        node: Node,
        /// The step exactly as Ironic sent it: Ironic compares it with the answer.
        step: Value,
        /// The arguments of the step: the remaining parameters of the command, overridden
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
        /// The commands of the flow, in the order of execution.
        tasks: Vec<FlowTask>,
    },
}

/// A command in a flow, or the error with which the command will fail. An error does not
/// prevent the start of the flow.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowTask {
    /// `EXTENSION.NAME`
    pub name: String,
    pub command: Result<Command, Failure>,
}

/// The password with which the user of a rescued machine logs in.
#[derive(Clone, PartialEq, Eq)]
pub enum RescuePassword {
    /// A hash in the format of crypt(3).
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
    /// The names of all commands, `EXTENSION.NAME`, for the parser and for
    /// messages.
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

    /// True for the last command of a boot: no other command can follow it.
    pub fn ends_the_boot(&self) -> bool {
        match self {
            Self::RunImage | Self::PowerOff | Self::FinalizeRescue(_) | Self::Lockdown => true,
            Self::StartFlow { tasks } => tasks
                .iter()
                .any(|task| task.command.as_ref().is_ok_and(Self::ends_the_boot)),
            _ => false,
        }
    }

    /// Whether a restarted agent may run the command again. It may repeat a step, because
    /// the result does not depend on what the interrupted attempt left behind.
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
