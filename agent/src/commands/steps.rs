//! The steps that Ironic may have executed, as `get_deploy_steps` lists them.

use serde_json::{Value, json};

/// The hardware manager versions: Ironic stores them and sends them back with
/// each step, where they must be the same.
pub fn hardware_manager_version() -> Value {
    json!({
        "generic_hardware_manager": "1.2",
        "CoreOSInstallHardwareManager": "1",
    })
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
