//! Everything that Ironic can ask of the agent: the protocol table in one file.

use serde_json::{Map, Value};

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
        /// `uefi` or `bios`: how the installed system is to be booted.
        target_boot_mode: String,
        /// Whether a failure is to be swallowed.
        ignore_failure: bool,
    },
}

impl Command {
    /// `EXTENSION.NAME` of everything above, for the parser and for messages.
    pub const NAMES: [&'static str; 11] = [
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
        }
    }

    /// Whether the POST returns at once and the command goes on by itself.
    pub fn is_asynchronous(&self) -> bool {
        match self {
            Self::ExecuteStep { .. }
            | Self::RunImage
            | Self::PowerOff
            | Self::InstallBootloader { .. } => true,
            Self::GetSteps { .. } | Self::GetPartitionUuids | Self::Sync => false,
        }
    }

    /// Whether nothing can be done after it.
    pub fn ends_the_boot(&self) -> bool {
        matches!(self, Self::RunImage | Self::PowerOff)
    }

    /// Whether a restarted agent may begin the command anew: every step does
    /// its work whatever a first, interrupted attempt has left.
    pub fn may_be_repeated(&self) -> bool {
        matches!(self, Self::ExecuteStep { .. })
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

    /// As [`Node::driver_info`], for a switch.
    pub fn driver_switch(&self, key: &str, default: bool) -> bool {
        self.driver_info(key)
            .and_then(Value::as_bool)
            .unwrap_or(default)
    }
}
