//! The steps that Ironic may execute, as `get_clean_steps` and its variants list them.
//! The list has no steps that need programs that are not in this ramdisk: burn-in,
//! containers, bootc.

use landfall_boot_params::argument_value::StepPriority;
use landfall_report::failure::{Class, Failure, Result};
use serde_json::{Map, Value, json};

use super::command::StepKind;
use super::not_offered;

/// The hardware managers of Ironic's agent that this agent replaces, each with its
/// version.
pub const HARDWARE_MANAGERS: [(&str, &str); 2] = [
    ("generic_hardware_manager", "1.2"),
    ("CoreOSInstallHardwareManager", "1"),
];

/// The version of the hardware managers. Ironic stores this value and sends it
/// back with each step; the values must be equal.
fn hardware_manager_version() -> Value {
    HARDWARE_MANAGERS
        .iter()
        .map(|(name, version)| ((*name).to_owned(), Value::from(*version)))
        .collect::<Map<_, _>>()
        .into()
}

/// The table of all steps. The macro makes both the enum and the list of all steps from
/// it, so no step can be missing in the list.
macro_rules! steps {
    ($($step:ident = $name:literal;)*) => {
        /// A step that this agent executes.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Step {
            $($step,)*
        }

        impl Step {
            /// In the order in which Ironic gets them.
            const ALL: &'static [Self] = &[$(Self::$step,)*];

            /// The name by which Ironic requests the step.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$step => $name,)*
                }
            }
        }
    };
}

steps! {
    EraseDevices = "erase_devices";
    EraseDevicesMetadata = "erase_devices_metadata";
    EraseDevicesExpress = "erase_devices_express";
    ErasePstore = "erase_pstore";
    CleanUefiNvram = "clean_uefi_nvram";
    DeleteConfiguration = "delete_configuration";
    CreateConfiguration = "create_configuration";
    ApplyConfiguration = "apply_configuration";
    WriteImage = "write_image";
    InjectFiles = "inject_files";
    InstallCoreos = "install_coreos";
    StartAssistedInstall = "start_assisted_install";
}

impl Step {
    /// `None` if this agent has no step of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|step| step.name() == name)
    }

    /// How the step is offered to Ironic. The function is long, because it is the table
    /// of all steps.
    fn offer(self) -> Offer {
        match self {
            Self::EraseDevices => Offer {
                clean: Some(Priority::Fixed(10)),
                ..NOWHERE
            },
            Self::EraseDevicesMetadata => Offer {
                clean: Some(Priority::Fixed(99)),
                deploy: BY_NAME,
                ..NOWHERE
            },
            Self::EraseDevicesExpress => Offer {
                clean: BY_NAME,
                ..NOWHERE
            },
            Self::ErasePstore => Offer {
                clean: BY_NAME,
                ..NOWHERE
            },
            Self::CleanUefiNvram => Offer {
                clean: BY_NAME,
                deploy: BY_NAME,
                arguments: Some(&[Argument {
                    name: "match_patterns",
                    description: r#"List of regular expressions. The step removes the boot entries of the firmware whose device path matches at least one of them. Default: ["^HD\(", "shim.*\.efi", "grub.*\.efi"]"#,
                    required: false,
                }]),
                ..NOWHERE
            },
            Self::DeleteConfiguration | Self::CreateConfiguration => Offer {
                interface: "raid",
                clean: BY_NAME,
                service: BY_NAME,
                abortable_service: true,
                ..NOWHERE
            },
            Self::ApplyConfiguration => Offer {
                interface: "raid",
                deploy: BY_NAME,
                service: BY_NAME,
                arguments: Some(&[
                    Argument {
                        name: "raid_config",
                        description: "The software RAID volumes to create, in the form of target_raid_config",
                        required: true,
                    },
                    Argument {
                        name: "delete_existing",
                        description: "Whether to delete all software RAID first. Default: true",
                        required: false,
                    },
                ]),
                ..NOWHERE
            },
            Self::WriteImage => Offer {
                deploy: BY_NAME,
                service: BY_NAME,
                ..NOWHERE
            },
            Self::InjectFiles => Offer {
                deploy: Some(Priority::OfInjectFiles),
                service: Some(Priority::OfInjectFiles),
                arguments: Some(&[
                    Argument {
                        name: "files",
                        description: "List of files with path, partition, content (base64 or a URL), deleted, mode, dirmode, owner, group; appended to inject_files of the node's properties",
                        required: false,
                    },
                    Argument {
                        name: "verify_ca",
                        description: "Whether to verify the servers of URLs. The value false is ignored: the settings of the agent apply",
                        required: false,
                    },
                ]),
                ..NOWHERE
            },
            Self::InstallCoreos => Offer {
                manager: "CoreOSInstallHardwareManager",
                deploy: BY_NAME,
                arguments: Some(&[]),
                ..NOWHERE
            },
            Self::StartAssistedInstall => Offer {
                manager: "CoreOSInstallHardwareManager",
                deploy: BY_NAME,
                arguments: Some(&[]),
                live_system_only: true,
                ..NOWHERE
            },
        }
    }
}

/// How a step is offered to Ironic.
struct Offer {
    /// The class in Ironic's agent that has this step. It is the key in the answer.
    manager: &'static str,
    interface: &'static str,
    /// The operations that have this step, with its priority. Priority 0 means that
    /// the step only runs if it is requested by name.
    clean: Option<Priority>,
    deploy: Option<Priority>,
    service: Option<Priority>,
    /// Whether Ironic may abort servicing while it waits for this step. (Ironic may abort
    /// every clean step, and no deploy step.)
    abortable_service: bool,
    arguments: Option<&'static [Argument]>,
    /// Whether the step needs the services of a live system.
    live_system_only: bool,
}

#[derive(Clone, Copy)]
enum Priority {
    Fixed(u8),
    /// `ipa-inject-files-priority`
    OfInjectFiles,
}

struct Argument {
    name: &'static str,
    description: &'static str,
    required: bool,
}

const GENERIC: &str = "GenericHardwareManager";
const BY_NAME: Option<Priority> = Some(Priority::Fixed(0));

/// The default values of an offer. An offer with only these values belongs to no
/// operation.
const NOWHERE: Offer = Offer {
    manager: GENERIC,
    interface: "deploy",
    clean: None,
    deploy: None,
    service: None,
    abortable_service: false,
    arguments: None,
    live_system_only: false,
};

/// The settings that the list of steps depends on.
#[derive(Debug, Clone, Copy)]
pub struct StepSettings {
    /// `ipa-inject-files-priority`
    pub inject_files_priority: StepPriority,
    /// Whether this is a live system, whose services can run steps.
    pub live_system: bool,
}

/// The answer to `get_clean_steps` and its variants. The keys are the class
/// names of the hardware managers in Ironic's agent.
pub fn list(kind: StepKind, settings: StepSettings) -> Value {
    let mut managers = Map::new();
    for step in Step::ALL {
        let offer = step.offer();
        let Some(description) = offer.describe(step.name(), kind, settings) else {
            continue;
        };
        let steps = managers
            .entry(offer.manager)
            .or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(steps) = steps {
            steps.push(description);
        }
    }
    json!({
        format!("{}_steps", kind.word()): managers,
        "hardware_manager_version": hardware_manager_version(),
    })
}

impl Offer {
    /// The step in the form that Ironic reads, or `None` if this operation does not
    /// have it.
    fn describe(&self, name: &str, kind: StepKind, settings: StepSettings) -> Option<Value> {
        if self.live_system_only && !settings.live_system {
            return None;
        }
        let (priority, abortable) = match kind {
            StepKind::Clean => (self.clean?, true),
            StepKind::Deploy => (self.deploy?, false),
            StepKind::Service => (self.service?, self.abortable_service),
        };
        let priority = match priority {
            Priority::Fixed(priority) => priority,
            Priority::OfInjectFiles => settings.inject_files_priority.0,
        };
        let mut step = json!({
            "step": name,
            "priority": priority,
            "interface": self.interface,
            "reboot_requested": false,
        });
        if abortable {
            step["abortable"] = true.into();
        }
        if let Some(arguments) = self.arguments {
            step["argsinfo"] = arguments.iter().map(Argument::describe).collect();
        }
        Some(step)
    }
}

impl Argument {
    fn describe(&self) -> (String, Value) {
        let value = json!({"description": self.description, "required": self.required});
        (self.name.to_owned(), value)
    }
}

/// Compares the versions with which Ironic planned the steps to the versions of this
/// agent.
///
/// # Errors
/// If the versions differ. Ironic then reads the steps again.
pub fn check_version(planned: Option<&Value>) -> Result<()> {
    match planned {
        Some(planned) if *planned != hardware_manager_version() => Err(Failure::new(
            Class::VersionMismatch,
            format!(
                "expected hardware manager versions {}, found {planned}",
                hardware_manager_version()
            ),
        )),
        _ => Ok(()),
    }
}

/// The name of a step.
///
/// # Errors
/// If the step has no name.
pub fn name(kind: StepKind, step: &Value) -> Result<&str> {
    step["step"].as_str().ok_or_else(|| {
        let word = kind.word();
        Failure::other(format!(
            "{word}_step: expected a key \"step\" with its name, found {step}"
        ))
    })
}

/// The failure of a step in the form that Ironic receives. A failure without a specific
/// class (`CommandExecutionError`, `TypeError`) gets the class of the operation, and a
/// text that names the step.
pub fn failed(kind: StepKind, name: &str, failure: Failure) -> Failure {
    match failure.class {
        Class::CommandExecutionError | Class::TypeError => Failure {
            class: match kind {
                StepKind::Clean => Class::CleaningError,
                StepKind::Deploy => Class::DeploymentError,
                StepKind::Service => Class::ServicingError,
            },
            details: format!(
                "Unexpected exception performing {} step {name}. {}: {}",
                kind.word(),
                failure.class.name(),
                failure.details
            ),
            ..failure
        },
        _ => failure,
    }
}

/// The error for an unknown step, in the words of Ironic's agent.
pub fn unknown(name: &str) -> Failure {
    let failure = Failure::new(
        Class::HardwareManagerMethodNotFound,
        format!("Could not find method: {name}"),
    );
    match not_offered::needs(name) {
        Some(needs) => failure.hint(format!(
            "remove the step, or set another deploy_ramdisk for it: {needs}, which this ramdisk does not have"
        )),
        None => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: StepSettings = StepSettings {
        inject_files_priority: StepPriority(7),
        live_system: false,
    };

    #[test]
    fn other_versions_make_ironic_read_the_steps_again() {
        assert_eq!(check_version(None), Ok(()));
        assert_eq!(check_version(Some(&hardware_manager_version())), Ok(()));
        let failure = check_version(Some(&json!({"generic_hardware_manager": "1.1"}))).unwrap_err();
        assert_eq!(failure.class, Class::VersionMismatch);
    }

    /// The steps and priorities of Ironic's agent, without the steps that need
    /// programs that are not in this ramdisk.
    #[test]
    fn priorities_are_the_originals() {
        for (kind, expected) in [
            (
                StepKind::Clean,
                &[
                    ("erase_devices", 10),
                    ("erase_devices_metadata", 99),
                    ("erase_devices_express", 0),
                    ("erase_pstore", 0),
                    ("clean_uefi_nvram", 0),
                    ("delete_configuration", 0),
                    ("create_configuration", 0),
                ][..],
            ),
            (
                StepKind::Deploy,
                &[
                    ("erase_devices_metadata", 0),
                    ("clean_uefi_nvram", 0),
                    ("apply_configuration", 0),
                    ("write_image", 0),
                    ("inject_files", 7),
                ],
            ),
            (
                StepKind::Service,
                &[
                    ("delete_configuration", 0),
                    ("create_configuration", 0),
                    ("apply_configuration", 0),
                    ("write_image", 0),
                    ("inject_files", 7),
                ],
            ),
        ] {
            let answer = list(kind, SETTINGS);
            let managers = &answer[format!("{}_steps", kind.word())];
            let found: Vec<(&str, u64)> = managers["GenericHardwareManager"]
                .as_array()
                .unwrap()
                .iter()
                .map(|step| {
                    let priority = step["priority"].as_u64().unwrap();
                    (step["step"].as_str().unwrap(), priority)
                })
                .collect();
            assert_eq!(found, expected);
            let coreos = managers.get("CoreOSInstallHardwareManager");
            assert_eq!(coreos.is_some(), kind == StepKind::Deploy);
        }
    }

    #[test]
    fn every_step_has_the_fields_that_ironic_requires() {
        for kind in [StepKind::Clean, StepKind::Deploy, StepKind::Service] {
            let steps = list(kind, SETTINGS);
            let managers = steps[format!("{}_steps", kind.word())].as_object().unwrap();
            for step in managers
                .values()
                .flat_map(|steps| steps.as_array().unwrap())
            {
                for key in ["step", "interface", "priority", "reboot_requested"] {
                    assert!(step.get(key).is_some(), "{step} has no {key}");
                }
                assert_eq!(
                    step.get("abortable") == Some(&Value::Bool(true)),
                    kind == StepKind::Clean
                        || (kind == StepKind::Service
                            && step["interface"] == "raid"
                            && step["step"] != "apply_configuration"),
                    "{step}"
                );
            }
        }
    }

    #[test]
    fn an_unexpected_failure_names_the_step() {
        let generic = Failure::other("text").hint("hint");
        let failure = failed(StepKind::Service, "x", generic);
        assert_eq!(failure.class, Class::ServicingError);
        assert_eq!(
            failure.details,
            "Unexpected exception performing service step x. CommandExecutionError: text"
        );
        assert_eq!(failure.hint.as_deref(), Some("hint"));
        let known = Failure::erasure("text");
        assert_eq!(failed(StepKind::Clean, "x", known.clone()), known);
    }
}
