//! Settings as `show-params` and the console print them.

use super::assign::shown;
use super::{BOOTIF, BootParams};
use crate::argument_value::ArgumentValue;
use crate::mac::BootInterface;
use crate::setting::{Origin, Setting};

/// A line of `show-params`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedSetting<'a> {
    /// The kernel argument that sets it, or the option if there is no argument.
    pub key: &'static str,
    /// Its value as text, with secrets masked; empty if there is none.
    pub value: String,
    pub origin: &'a Origin,
}

impl<'a> ListedSetting<'a> {
    pub(super) fn new<T: ArgumentValue>(key: &'static str, setting: &'a Setting<T>) -> Self {
        let text = setting.to_text();
        ListedSetting {
            key,
            value: if text.is_empty() {
                text
            } else {
                shown::<T>(&text)
            },
            origin: &setting.origin,
        }
    }

    pub(super) fn of_boot_interface(setting: &'a Setting<Option<BootInterface>>) -> Self {
        let interface = setting.value.as_ref();
        ListedSetting {
            key: BOOTIF,
            value: interface.map(|i| i.mac.to_string()).unwrap_or_default(),
            origin: &setting.origin,
        }
    }
}

/// Settings that are parsed and checked but have no effect yet. The agent reports
/// each one that is set, which matters most for those about security.
pub const NOT_SUPPORTED_YET: &[&str] = &[
    "ipa-inspection-benchmarks",
    "agent_skip_bmc_detect",
    "disk_utils.efi_system_partition_size",
    "disk_utils.bios_boot_partition_size",
    // These are for tools that the agent does not use: dd, partprobe, qemu-img,
    // fuser, GRUB, podman and a log file.
    "disk_utils.dd_block_size",
    "disk_utils.partition_detection_attempts",
    "disk_utils.partprobe_attempts",
    "disk_utils.image_convert_memory_limit",
    "disk_utils.image_convert_attempts",
    "disk_partitioner.check_device_interval",
    "disk_partitioner.check_device_max_retries",
    "enable_bios_bootloader_install",
    "container.allow_arbitrary_containers",
    "container.allowed_containers",
    "container.container_steps_file",
    "container.runner",
    "container.pull_options",
    "container.run_options",
    "log_file",
    "log_dir",
];

impl BootParams {
    /// One warning for each setting that is set but has no effect yet. Settings
    /// from the lookup are left out, since Ironic's answer contains every option.
    pub fn not_supported_yet(&self) -> Vec<String> {
        self.list()
            .into_iter()
            .filter(|setting| NOT_SUPPORTED_YET.contains(&setting.key))
            .filter(|setting| !matches!(setting.origin, Origin::Default | Origin::Lookup))
            .map(|setting| format!("{}: not supported yet; ignored", setting.key))
            .collect()
    }
}
