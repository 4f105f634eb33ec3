//! The steps that Ironic may have executed, as `get_deploy_steps` lists them.

use serde_json::{Value, json};

use crate::failure::{Class, Failure, Result};

/// The hardware managers of the original that we stand for, and the versions of
/// their steps.
pub const HARDWARE_MANAGERS: [(&str, &str); 2] = [
    ("generic_hardware_manager", "1.2"),
    ("CoreOSInstallHardwareManager", "1"),
];

/// Ironic stores this and sends it back with each step, where it must be the
/// same.
fn hardware_manager_version() -> Value {
    HARDWARE_MANAGERS
        .iter()
        .map(|(name, version)| ((*name).to_owned(), Value::from(*version)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// The answer to `deploy.get_deploy_steps`, by the class names of the managers
/// of the original. Priority 0: only executed when asked for by name.
pub fn deploy_steps() -> Value {
    json!({
        "deploy_steps": {
            "GenericHardwareManager": [{
                "step": "write_image",
                "priority": 0,
                "interface": "deploy",
                "reboot_requested": false,
            }],
            "CoreOSInstallHardwareManager": [{
                "step": "install_coreos",
                "priority": 0,
                "interface": "deploy",
                "reboot_requested": false,
                "argsinfo": {},
            }],
        },
        "hardware_manager_version": hardware_manager_version(),
    })
}

/// Compares the version that Ironic planned with to ours.
///
/// # Errors
/// If Ironic planned with another one: it will read the steps again.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_versions_make_ironic_read_the_steps_again() {
        assert_eq!(check_version(None), Ok(()));
        assert_eq!(check_version(Some(&hardware_manager_version())), Ok(()));
        let failure = check_version(Some(&json!({"generic_hardware_manager": "1.1"}))).unwrap_err();
        assert_eq!(failure.class, Class::VersionMismatch);
    }

    #[test]
    fn every_step_has_what_ironic_demands() {
        let steps = deploy_steps();
        for manager in steps["deploy_steps"].as_object().unwrap().values() {
            for step in manager.as_array().unwrap() {
                for key in ["step", "interface", "priority"] {
                    assert!(step.get(key).is_some(), "{step} has no {key}");
                }
            }
        }
    }
}
