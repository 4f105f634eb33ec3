//! The node as JSON, in the form that Ironic sends.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::PORT;
use super::script::{Method, Script};
use crate::lab::HOST_V4;

/// The UUID of the only node.
pub(super) const UUID: &str = "62347504-3396-4ff0-b5e1-bc78f454c418";

/// The mask that Ironic puts in place of secrets.
pub(super) const MASKED: &str = "******";

fn properties(script: &Script) -> Value {
    let mode = if script.uefi { "uefi" } else { "bios" };
    let mut properties = json!({"cpu_arch": "x86_64", "capabilities": format!("boot_mode:{mode}")});
    if let Some(hints) = &script.root_device {
        properties["root_device"] = hints.clone();
    }
    properties
}

fn instance_info(script: &Script, config_drive: Value) -> Value {
    if script.image.url.is_empty() {
        return json!({"configdrive": config_drive});
    }
    json!({
        "image_source": script.image.url,
        "image_os_hash_algo": script.image.hash_algorithm,
        "image_os_hash_value": script.image.hash,
        "image_disk_format": "raw",
        "image_type": "whole-disk",
        "configdrive": config_drive,
        "image_url": MASKED,
    })
}

/// The node in the answer to a lookup: five members, with the config drive masked.
pub(super) fn looked_up(script: &Script) -> Value {
    let base = format!("http://{HOST_V4}:{PORT}");
    json!({
        "uuid": UUID,
        "properties": properties(script),
        "instance_info": instance_info(script, MASKED.into()),
        "driver_internal_info": {"is_whole_disk_image": true, "agent_secret_token": MASKED},
        "links": [
            {"href": format!("{base}/v1/nodes/{UUID}"), "rel": "self"},
            {"href": format!("{base}/nodes/{UUID}"), "rel": "bookmark"},
        ],
    })
}

/// The node that a command contains. `unmasked` is true for `execute_deploy_step`
/// and `execute_clean_step`. All other commands get the config drive masked.
pub(super) fn full(script: &Script, step: &Value, unmasked: bool) -> Value {
    let config_drive = match &script.method {
        _ if !unmasked => MASKED.into(),
        Method::InstallCoreos {
            meta_data,
            ignition,
        } => {
            json!({"meta_data": meta_data, "user_data": ignition, "network_data": {}})
        }
        Method::WriteImage { config_drive } => json!(config_drive),
        Method::AssistedInstall { .. } | Method::Clean { .. } => Value::Null,
    };
    let interface = match &script.method {
        Method::InstallCoreos { .. } | Method::AssistedInstall { .. } => "custom-agent",
        Method::WriteImage { .. } | Method::Clean { .. } => "direct",
    };
    let mut node = template(include_str!("node.json"));
    node["uuid"] = UUID.into();
    node["properties"] = properties(script);
    node["automated_clean"] = script.automated_clean.into();
    node["instance_info"] = instance_info(script, config_drive);
    node[format!("{}_step", script.method.operation())] = step.clone();
    node["deploy_interface"] = interface.into();
    node["driver_internal_info"]["disk_erasure_concurrency"] = script.erasure_concurrency.into();
    if let Some(config) = &script.target_raid_config {
        node["target_raid_config"] = config.clone();
    }
    node
}

/// The member `config` of the answer to a lookup.
pub(super) fn lookup_config(token: &str, heartbeat_timeout: u64) -> Value {
    let mut config = template(include_str!("lookup_config.json"));
    config["agent_token"] = token.into();
    config["heartbeat_timeout"] = heartbeat_timeout.into();
    config
}

#[expect(clippy::expect_used, reason = "the templates are part of this program")]
fn template(text: &str) -> Value {
    serde_json::from_str(text).expect("a template in this folder is JSON")
}

pub(super) fn ports(script: &Script) -> Value {
    let port = |(index, mac): (usize, &String)| {
        json!({
            "id": index + 1, "uuid": format!("65bcd3f3-b7f6-4003-a774-4c5488a0e5{index:02x}"),
            "node_id": 1, "node_uuid": UUID, "address": mac, "extra": {},
            "local_link_connection": {}, "portgroup_id": null, "pxe_enabled": index == 0,
            "internal_info": {}, "physical_network": null, "is_smartnic": false,
        })
    };
    script.macs.iter().enumerate().map(port).collect()
}

pub(super) fn step(script: &Script) -> Value {
    match &script.method {
        Method::InstallCoreos { .. } | Method::AssistedInstall { .. } => {
            let name = script.method.step_name();
            json!({"interface": "deploy", "step": name, "priority": 80, "args": {}})
        }
        Method::Clean { step } => {
            let interface = script.method.step_interface();
            json!({"interface": interface, "step": step, "priority": 10, "args": {},
                "requires_ramdisk": true})
        }
        Method::WriteImage { config_drive } => {
            let image = &script.image;
            let mut info = json!({
                "id": image.url.rsplit('/').next(),
                "urls": [image.url],
                "disk_format": "raw",
                "container_format": null,
                "stream_raw_images": true,
                "os_hash_algo": image.hash_algorithm,
                "os_hash_value": image.hash,
                "node_uuid": UUID,
            });
            if let Some(header) = &image.authorization {
                // In Ironic's form: the complete header in base64.
                info["image_request_authorization"] = BASE64_STANDARD.encode(header).into();
            }
            let mut arguments = json!({});
            // Ironic sends the config drive in both places, and an agent may read either.
            if let Some(config_drive) = config_drive {
                info["configdrive"] = json!(config_drive);
                arguments["configdrive"] = json!(config_drive);
            }
            arguments["image_info"] = info;
            json!({"interface": "deploy", "step": "write_image", "args": arguments})
        }
    }
}
