//! Rejects operations that need programs that are not in this ramdisk: burn-in,
//! containers, bootc, firmware updates. The agent rejects them when Ironic asks for the
//! list of steps, before the first step of the operation: later, other steps would
//! already have changed the machine.

use landfall_report::failure::{Failure, Result};
use serde_json::Value;

use super::command::StepKind;
use super::node::Node;
use super::partition_image;

/// The steps of Ironic's agent that this agent does not have, and the programs that they
/// need.
const STEPS: [(&str, &str); 10] = [
    ("burnin_cpu", "burn-in needs stress-ng"),
    ("burnin_memory", "burn-in needs stress-ng"),
    ("burnin_disk", "burn-in needs fio and smartctl"),
    ("burnin_network", "burn-in needs fio"),
    ("burnin_gpu", "burn-in needs gpu-burn"),
    ("generic_container_step", "containers need podman"),
    ("container_clean_step", "containers need podman"),
    (BOOTC_STEP, BOOTC_NEEDS),
    ("update_nvidia_nic_firmware_image", "it needs mstflint"),
    ("update_nvidia_nic_firmware_settings", "it needs mstflint"),
];

const BOOTC_STEP: &str = "execute_bootc_install";
const BOOTC_NEEDS: &str = "bootc needs podman";

/// Rejects a node for which Ironic plans a step, an image or a deploy interface that this
/// agent does not support. Ironic sends the node before the first step of each operation,
/// with the steps that the operator has requested.
///
/// # Errors
/// If Ironic plans one of these.
pub(super) fn refuse_in(kind: StepKind, node: &Node) -> Result<()> {
    if kind == StepKind::Deploy {
        partition_image::refuse_in(node)?;
        if node.0.get("deploy_interface") == Some(&Value::from("bootc")) {
            return Err(bootc());
        }
    }
    let requested = match kind {
        StepKind::Clean => "clean_steps",
        StepKind::Deploy => "user_deploy_steps",
        StepKind::Service => "service_steps",
    };
    let steps = node.driver_info(requested).and_then(Value::as_array);
    // The steps in `STEPS` belong to the interface `deploy`. Steps of child nodes do not
    // run in this agent.
    let ours = steps.into_iter().flatten().filter(|step| {
        step["interface"] == "deploy" && step["execute_on_child_nodes"] != Value::Bool(true)
    });
    let mut names = ours.filter_map(|step| step["step"].as_str());
    match names.find_map(|name| Some((name, needs(name)?))) {
        Some((name, needs)) => Err(refusal(&format!("{} step {name}", kind.word()), needs)),
        None => Ok(()),
    }
}

/// Why this agent does not have a step of Ironic's agent; `None` for other names.
pub(super) fn needs(step: &str) -> Option<&'static str> {
    let mut steps = STEPS.iter();
    let found = steps.find(|(name, _)| *name == step);
    found.map(|(_, needs)| *needs)
}

/// The error for `standby.execute_bootc_install`, and for a node with the deploy interface
/// `bootc`.
pub(super) fn bootc() -> Failure {
    Failure::invalid_params(format!(
        "the deploy interface bootc is not offered: {BOOTC_NEEDS}, which this ramdisk does not have"
    ))
    .hint(
        "set deploy_interface to direct and image_source to a disk image that bootc-image-builder has made of the container, or use another deploy_ramdisk",
    )
}

fn refusal(what: &str, needs: &str) -> Failure {
    Failure::invalid_params(format!(
        "{what} is not offered: {needs}, which this ramdisk does not have"
    ))
    .hint("remove the step, or set another deploy_ramdisk for this operation")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_unsupported_step_is_rejected_before_the_first_step() {
        let step = |name: &str| json!({"step": name, "interface": "deploy", "args": {}});
        let with = |key: &str, steps: Value| json!({"driver_internal_info": {key: steps}});
        for (kind, node, expected) in [
            (
                StepKind::Clean,
                with(
                    "clean_steps",
                    json!([step("erase_devices"), step("burnin_cpu")]),
                ),
                Some("clean step burnin_cpu is not offered: burn-in needs stress-ng, which"),
            ),
            (
                StepKind::Service,
                with("service_steps", json!([step("generic_container_step")])),
                Some("service step generic_container_step is not offered: containers need podman"),
            ),
            (
                StepKind::Deploy,
                with("user_deploy_steps", json!([step("execute_bootc_install")])),
                Some("deploy step execute_bootc_install is not offered: bootc needs podman"),
            ),
            (
                StepKind::Deploy,
                json!({"deploy_interface": "bootc"}),
                Some("the deploy interface bootc is not offered: bootc needs podman"),
            ),
            (StepKind::Clean, json!({"deploy_interface": "bootc"}), None),
            (StepKind::Clean, json!({}), None),
            // Steps of other operations stay in the node after a failure.
            (
                StepKind::Deploy,
                with("clean_steps", json!([step("burnin_cpu")])),
                None,
            ),
            (
                StepKind::Clean,
                with("clean_steps", json!([step("erase_devices")])),
                None,
            ),
            (
                StepKind::Clean,
                with(
                    "clean_steps",
                    json!([{"step": "burnin_cpu", "interface": "management"},
                        {"step": "burnin_cpu", "interface": "deploy", "execute_on_child_nodes": true}]),
                ),
                None,
            ),
        ] {
            let node = Node(node);
            let found = refuse_in(kind, &node).map_err(|failure| failure.in_words());
            match (&found, expected) {
                (Ok(()), None) => {}
                (Err(text), Some(expected)) => assert!(text.contains(expected), "{text}"),
                _ => panic!("{}: {found:?}, expected {expected:?}", node.0),
            }
        }
    }

    #[test]
    fn no_step_of_this_agent_is_in_the_table() {
        use super::super::steps::Step;
        for (name, _) in STEPS {
            assert_eq!(Step::by_name(name), None, "{name}");
        }
    }
}
