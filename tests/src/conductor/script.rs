//! Defines the script of a deployment: data only, no code.

use serde_json::Value;

#[derive(Debug, Clone)]
pub struct Script {
    /// The MAC addresses of the node's ports. A lookup must contain one of them.
    pub macs: Vec<String>,
    /// Hints for the root disk (`properties.root_device`). `None` means the default
    /// rule.
    pub root_device: Option<Value>,
    /// Whether Ironic cleans the node automatically. If so, `install_coreos` also
    /// deletes software RAID.
    pub automated_clean: bool,
    /// Whether the node boots with UEFI (`capabilities` of the node).
    pub uefi: bool,
    pub image: Image,
    /// How the image gets onto the disk.
    pub method: Method,
    /// The command that ends the deployment.
    pub finish: Finish,
    /// Accept heartbeats but send no commands until [`super::Conductor::release`],
    /// as Ironic does for a node in maintenance.
    pub hold: bool,
    /// The `[api]ramdisk_heartbeat_timeout` that the lookup returns to the agent,
    /// in seconds.
    pub heartbeat_timeout: u64,
    /// Request the list of commands at each heartbeat of a held script.
    pub poll_while_held: bool,
    /// How many disks are erased at a time (`[deploy]disk_erasure_concurrency`).
    pub erasure_concurrency: u32,
    /// The node's `target_raid_config`.
    pub target_raid_config: Option<Value>,
}

/// An image as the operator describes it to Ironic.
#[derive(Debug, Clone)]
pub struct Image {
    /// The URL. Empty if the node names no image, as with OpenShift's installer.
    pub url: String,
    /// The algorithm of `hash`: `sha256` or `sha512`, over the bytes at the URL.
    pub hash_algorithm: &'static str,
    /// The digest in lower-case hexadecimal.
    pub hash: String,
    /// The `Authorization` header for the image server. Only for `write_image`.
    pub authorization: Option<String>,
}

#[derive(Debug, Clone)]
pub enum Method {
    /// `custom-agent` with the step `install_coreos`, as in OpenShift.
    InstallCoreos {
        /// `configdrive.meta_data`: host name and permanent kernel arguments.
        meta_data: Value,
        /// `configdrive.user_data`: the Ignition config.
        ignition: String,
    },
    /// `direct` with the step `write_image`.
    WriteImage {
        /// The config drive in Ironic's form: base64 of gzip of ISO 9660.
        config_drive: Option<String>,
    },
    /// `custom-agent` with the step `start_assisted_install`, in a live system.
    AssistedInstall {
        /// How many times the step fails before it succeeds.
        failures: usize,
    },
    /// One clean step instead of a deployment.
    Clean {
        /// The step's name in Ironic.
        step: &'static str,
    },
}

impl Method {
    pub(super) fn step_name(&self) -> &'static str {
        match self {
            Self::InstallCoreos { .. } => "install_coreos",
            Self::WriteImage { .. } => "write_image",
            Self::AssistedInstall { .. } => "start_assisted_install",
            Self::Clean { step } => step,
        }
    }

    /// The interface of Ironic's driver that has the step: `raid` or `deploy`.
    pub(super) fn step_interface(&self) -> &'static str {
        match self.step_name() {
            "create_configuration" | "delete_configuration" => "raid",
            _ => "deploy",
        }
    }

    /// `clean` or `deploy`, as it appears in the names of commands and fields.
    pub(super) fn operation(&self) -> &'static str {
        match self {
            Self::Clean { .. } => "clean",
            _ => "deploy",
        }
    }
}

/// The command that ends the deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// `standby.power_off`. The BMC would then boot the node from its disk.
    PowerOff,
    /// `standby.run_image`: the agent reboots (power interface `agent`).
    Reboot,
}
