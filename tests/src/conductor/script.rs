//! What the conductor does with the node: data, no code.

use serde_json::Value;

/// A deployment.
#[derive(Debug, Clone)]
pub struct Script {
    /// The MAC addresses of the node's ports; a lookup needs one of them.
    pub macs: Vec<String>,
    /// Hints for the root disk (`properties.root_device`); none: the default rule.
    pub root_device: Option<Value>,
    /// Whether the node is cleaned automatically: then `install_coreos` deletes
    /// software RAID.
    pub automated_clean: bool,
    /// How the node boots (`capabilities` of the node).
    pub uefi: bool,
    /// The image.
    pub image: Image,
    /// How it gets onto the disk.
    pub method: Method,
    /// What ends the deployment.
    pub finish: Finish,
    /// Record heartbeats but do nothing until [`super::Conductor::release`], as
    /// Ironic does for a node in maintenance.
    pub hold: bool,
    /// What the agent is told of `[api]ramdisk_heartbeat_timeout`, in seconds.
    pub heartbeat_timeout: u64,
    /// Ask for the list of commands at each heartbeat of a held script.
    pub poll_while_held: bool,
}

/// An image as the operator describes it to Ironic.
#[derive(Debug, Clone)]
pub struct Image {
    /// Where it is. Empty: the node names no image, as OpenShift's installer
    /// leaves it.
    pub url: String,
    /// `sha256` or `sha512`, over the bytes at the URL.
    pub hash_algorithm: &'static str,
    /// The digest in lower-case hexadecimal.
    pub hash: String,
    /// The `Authorization` header that the image server wants; for `write_image`.
    pub authorization: Option<String>,
}

/// The deploy interface.
#[derive(Debug, Clone)]
pub enum Method {
    /// `custom-agent` with the step `install_coreos`: what OpenShift does.
    InstallCoreos {
        /// `configdrive.meta_data`: host name, permanent kernel arguments.
        meta_data: Value,
        /// `configdrive.user_data`: the Ignition config.
        ignition: String,
    },
    /// `direct` with the step `write_image`.
    WriteImage {
        /// The config drive as Ironic sends it: base64 of gzip of ISO 9660.
        config_drive: Option<String>,
    },
    /// `custom-agent` with the step `start_assisted_install`, in a live system.
    AssistedInstall {
        /// How often the step fails, to be given again.
        failures: usize,
    },
    /// No deployment: one clean step.
    Clean {
        /// Its name.
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

    /// The word for it in the names of commands and fields.
    pub(super) fn operation(&self) -> &'static str {
        match self {
            Self::Clean { .. } => "clean",
            _ => "deploy",
        }
    }
}

/// The last command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// `standby.power_off`; the BMC would boot the node from its disk.
    PowerOff,
    /// `standby.run_image`: the agent reboots (the power interface `agent`).
    Reboot,
}
