//! The settings of Ironic's agent that have no effect on this agent. The agent accepts
//! any text as their value.

use super::names::{Names, both, file, lookup_only};

/// A setting that has no effect.
#[derive(Debug)]
pub struct IgnoredSetting {
    pub names: Names,
    /// What it means in Ironic's agent.
    pub meaning: &'static str,
    /// What this agent does in any case, so that the setting is not needed. `None` if
    /// this agent does not support the setting. The agent then warns if a value is
    /// given, which matters most for security settings.
    pub instead: Option<&'static str>,
}

const fn unsupported(names: Names, meaning: &'static str) -> IgnoredSetting {
    IgnoredSetting {
        names,
        meaning,
        instead: None,
    }
}

const fn not_needed(
    option: &'static str,
    meaning: &'static str,
    instead: &'static str,
) -> IgnoredSetting {
    IgnoredSetting {
        names: file(option),
        meaning,
        instead: Some(instead),
    }
}

pub const IGNORED: &[IgnoredSetting] = &[
    unsupported(
        both("ipa-inspection-benchmarks", "inspection_benchmarks"),
        "Benchmarks of the collector extra-hardware.",
    ),
    unsupported(
        file("enable_bios_bootloader_install"),
        "Install GRUB for BIOS in a chroot of the image.",
    ),
    unsupported(file("log_file"), "Log file."),
    unsupported(file("log_dir"), "Directory of the log file."),
    unsupported(
        file("disk_utils.efi_system_partition_size"),
        "Size in MiB of a new EFI system partition.",
    ),
    unsupported(
        file("disk_utils.bios_boot_partition_size"),
        "Size in MiB of a new BIOS boot partition.",
    ),
    unsupported(file("disk_utils.dd_block_size"), "Block size of dd."),
    unsupported(
        file("disk_utils.partition_detection_attempts"),
        "How often the agent looks for a partition.",
    ),
    unsupported(
        file("disk_utils.partprobe_attempts"),
        "How often partprobe is tried.",
    ),
    unsupported(
        file("disk_utils.image_convert_memory_limit"),
        "Memory limit in MiB of the conversion of an image.",
    ),
    unsupported(
        file("disk_utils.image_convert_attempts"),
        "How often the conversion of an image is tried.",
    ),
    unsupported(
        file("disk_partitioner.check_device_interval"),
        "Pause between two checks whether a disk is in use.",
    ),
    unsupported(
        file("disk_partitioner.check_device_max_retries"),
        "Number of these checks.",
    ),
    unsupported(
        file("container.allow_arbitrary_containers"),
        "Permit every container as a step.",
    ),
    unsupported(
        file("container.allowed_containers"),
        "Containers that Ironic may run as a step.",
    ),
    unsupported(
        file("container.container_steps_file"),
        "File with more container steps.",
    ),
    unsupported(file("container.runner"), "Program that runs containers."),
    unsupported(
        file("container.pull_options"),
        "Options for pulling a container.",
    ),
    unsupported(
        file("container.run_options"),
        "Options for running a container.",
    ),
    unsupported(
        lookup_only("agent_skip_bmc_detect"),
        "Do not look for a BMC.",
    ),
    not_needed(
        "auto_tls_allowed_clock_skew",
        "How long before now the created certificate becomes valid.",
        "It is valid from the year 2000, whatever the clock says.",
    ),
    not_needed(
        "disable_bootc_deploy",
        "Do not offer the step execute_bootc_install.",
        "The agent never offers this step.",
    ),
];
