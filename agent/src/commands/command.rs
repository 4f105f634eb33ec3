//! Everything that Ironic can ask of the agent: the protocol table in one file.

use serde_json::Value;

/// A command with its arguments, valid by construction.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// `deploy.get_deploy_steps`
    GetDeploySteps {
        /// The node as Ironic knows it.
        node: Node,
    },
    /// `deploy.execute_deploy_step`
    ExecuteDeployStep {
        /// The node as Ironic knows it.
        node: Node,
        /// The step exactly as sent: Ironic compares it with what comes back.
        step: Value,
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
    pub const NAMES: [&'static str; 7] = [
        "deploy.get_deploy_steps",
        "deploy.execute_deploy_step",
        "standby.get_partition_uuids",
        "standby.sync",
        "standby.run_image",
        "standby.power_off",
        "image.install_bootloader",
    ];

    /// The name as Ironic reads it back: without the extension.
    pub fn name(&self) -> &'static str {
        match self {
            Self::GetDeploySteps { .. } => "get_deploy_steps",
            Self::ExecuteDeployStep { .. } => "execute_deploy_step",
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
            Self::ExecuteDeployStep { .. }
            | Self::RunImage
            | Self::PowerOff
            | Self::InstallBootloader { .. } => true,
            Self::GetDeploySteps { .. } | Self::GetPartitionUuids | Self::Sync => false,
        }
    }

    /// Whether nothing can be done after it.
    pub fn ends_the_boot(&self) -> bool {
        matches!(self, Self::RunImage | Self::PowerOff)
    }

    /// Whether a restarted agent may begin the command anew: its steps start
    /// from an unbootable disk whatever was there.
    pub fn may_be_repeated(&self) -> bool {
        matches!(self, Self::ExecuteDeployStep { .. })
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
}
