//! The step `install_coreos`: installs a CoreOS image with an Ignition config and kernel
//! arguments from the node. If the node names no image, the image comes from the kernel
//! command line of this boot or from the ISO of the ramdisk.

use std::sync::Arc;

use landfall_boot_params::{GivenImage, Setting};
use landfall_devices::permission::WritePermission;
use landfall_disk::device::target::refuse_medium_of_image;
use landfall_disk::image::write_image::{ImageSource, WriteOptions};
use landfall_download::fetch::Request;
use landfall_handover::ignition_file;
use landfall_handover::install_coreos::CoreosChanges;
use landfall_installation::{BootEntry, Installation, keyfiles_of_live_system};
use landfall_inventory::host_name;
use landfall_network_plan::Choice;
use landfall_report::failure::{Failure, Result};
use serde_json::Value;

use super::first_boot_network::{FirstBootNetwork, choice_of_this_boot};
use super::raid_config::RaidConfig;
use super::{checksum, default_image, image_server, root_disk, software_raid};
use crate::commands::image_info::GivenChecksum;
use crate::commands::machine::{Machine, blocking};
use crate::commands::node::Node;

pub(super) async fn execute(
    machine: &Arc<Machine>,
    node: &Node,
    permission: WritePermission,
) -> Result<Value> {
    let network = choice_of_this_boot(&machine.settings).await;
    let image = match named_image(node)? {
        Some(image) => image,
        None => default_image::find(machine).await?,
    };
    let changes = changes(machine, node, &network)?;
    let image = source(machine, image).await?;
    delete_old_arrays(machine, node, &image, permission).await?;
    let disk = root_disk::find(machine, node).await?;
    let params = &machine.settings.params;
    let installation = Installation {
        image,
        disk,
        options: WriteOptions {
            verify: *params.verify,
            ..WriteOptions::default()
        },
        changes,
        boot_entry: BootEntry::new(*params.ignore_bootloader_failure),
    };
    let client = machine.client.clone();
    let written = blocking(move || installation.carry_out(&client, &permission)).await?;
    machine.set_written_disk(&written.disk);
    Ok(Value::Null)
}

/// The changes to the image that the node requests. Changes that cannot be made are
/// rejected here, before the disk is touched.
fn changes(machine: &Machine, node: &Node, network: &Choice) -> Result<CoreosChanges> {
    let config_drive = match node.instance_info("configdrive") {
        None => &Value::Null,
        Some(drive @ Value::Object(_)) => drive,
        Some(_) => {
            return Err(Failure::deployment(
                "install_coreos: expected the config drive as JSON, found an image or a URL -- give its parts: {\"user_data\": ..., \"meta_data\": ...}",
            ));
        }
    };
    let params = &machine.settings.params;
    let meta_data = &config_drive["meta_data"];
    let mut append_kargs = kernel_arguments(meta_data, "coreos_append_karg")?;
    // OpenShift passes IPA_COREOS_IP_OPTIONS to the ramdisk for the installed system.
    append_kargs.extend(params.coreos_ip_options.as_deref().map(str::to_owned));
    let user_data = ignition_config(&config_drive["user_data"]);
    let host_name = host_name(meta_data);
    // In the ramdisk the agent makes keyfiles from its plan. In a live system
    // NetworkManager configures the network, and its keyfiles already include the agent's
    // plan.
    let copies_profiles =
        machine.live.is_some() && must_copy_network(meta_data, &params.coreos_copy_network);
    let profiles = match copies_profiles {
        true => keyfiles_of_live_system("IPA_COREOS_COPY_NETWORK")?,
        false => Vec::new(),
    };
    let network = FirstBootNetwork::of_this_boot(
        &machine.settings.command_line,
        network,
        may_copy_network(meta_data, &params.coreos_copy_network),
        profiles,
    );
    let changes = CoreosChanges {
        ignition: ignition_file::with_hostname(user_data.as_deref(), host_name.as_deref())?,
        append_kargs,
        // This key does not exist in OpenShift's hardware manager. It is needed because
        // the consoles in an image are often the wrong ones for the machine.
        delete_kargs: kernel_arguments(meta_data, "coreos_delete_karg")?,
        firstboot_args: network.arguments,
        network_keyfiles: network.keyfiles,
        ..CoreosChanges::default()
    };
    if let Some(other_spec) = changes.check()?.and_then(|spec| spec.warning()) {
        tracing::warn!("{other_spec}");
    }
    Ok(changes)
}

/// The image and its expected digest, if one is given. Fetches a checksum file if there
/// is one.
async fn source(machine: &Machine, image: GivenImage) -> Result<ImageSource> {
    let params = &machine.settings.params;
    let request = Request {
        authorization: image_server::own_authorization(params),
        retry_policy: image_server::retry_policy(params),
        ..Request::new(image.urls)
    };
    let (md5_enabled, verified) = (*params.md5_enabled, !machine.http.insecure);
    let client = machine.client.clone();
    blocking(move || {
        let checksum = image.checksum.as_ref();
        let proof = checksum::proof(checksum, &request, &client, md5_enabled, verified)?;
        Ok(ImageSource::new(request, proof))
    })
    .await
}

/// Deletes old arrays before the root disk is chosen, as OpenShift's hardware manager
/// does. Otherwise a running array could be chosen as the smallest disk, and its member
/// disks would not be chosen without a hint. The new system would also assemble the old
/// arrays. If the operator has switched cleaning off, nothing is deleted.
async fn delete_old_arrays(
    machine: &Arc<Machine>,
    node: &Node,
    image: &ImageSource,
    permission: WritePermission,
) -> Result<()> {
    if node.0.get("automated_clean") == Some(&Value::Bool(false)) {
        return Ok(());
    }
    // The operator wants the volumes in the configuration, and one of them may be for the
    // image.
    if RaidConfig::is_in(&node.0) {
        tracing::info!("the node has software RAID in its configuration: no array is deleted");
        return Ok(());
    }
    machine.all_disks().await?;
    // Look for any reason to reject the installation before anything is deleted.
    let expected = root_disk::find_without_arrays(machine, node).await?;
    refuse_medium_of_image(&expected, &image.request.urls)?;
    if let Err(failure) = software_raid::delete(node, permission).await {
        tracing::warn!("{failure}; the installation continues");
    }
    Ok(())
}

/// The image that the node names, with its checksum.
///
/// # Errors
/// If the checksum is malformed.
fn named_image(node: &Node) -> Result<Option<GivenImage>> {
    let text = |key: &str| {
        let text = node.instance_info(key).and_then(Value::as_str);
        text.filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let Some(url) = text("image_source") else {
        return Ok(None);
    };
    Ok(Some(GivenImage {
        urls: vec![url],
        checksum: checksum::parse(&GivenChecksum {
            os_hash_algo: text("image_os_hash_algo"),
            os_hash_value: text("image_os_hash_value"),
            checksum: text("image_checksum"),
        })?,
    }))
}

/// The Ignition config as bytes. A string is passed on exactly as the user wrote
/// it.
fn ignition_config(user_data: &Value) -> Option<Vec<u8>> {
    match user_data {
        Value::Null => None,
        Value::String(text) => Some(text.clone().into_bytes()),
        object => Some(object.to_string().into_bytes()),
    }
}

/// The name for the installed host: the host name of this boot (from `ip=`, DHCP or
/// IPA_DEFAULT_HOSTNAME), or else the name in Ironic's metadata.
fn host_name(meta_data: &Value) -> Option<String> {
    host_name::given().or_else(|| {
        ["hostname", "local-hostname", "local_hostname", "name"]
            .iter()
            .find_map(|key| meta_data[key].as_str())
            .map(str::to_owned)
    })
}

/// Permanent kernel arguments from the metadata: none, one string, or a list of strings.
/// Each string is one argument. (OpenShift's hardware manager for Ironic's agent joins
/// the list with commas into one argument, which the kernel does not split.)
fn kernel_arguments(meta_data: &Value, key: &str) -> Result<Vec<String>> {
    let given = &meta_data[key];
    let invalid = || Failure::deployment(format!("{key}: expected a list of texts, found {given}"));
    match given {
        Value::Null => Ok(Vec::new()),
        Value::String(one) => Ok(vec![one.clone()]),
        Value::Array(list) => list
            .iter()
            .map(|item| item.as_str().map(str::to_owned).ok_or_else(invalid))
            .collect(),
        _ => Err(invalid()),
    }
}

/// Whether the network files of this boot may be passed on. The node's metadata
/// takes precedence over IPA_COREOS_COPY_NETWORK. The default is yes.
fn may_copy_network(meta_data: &Value, setting: &Setting<bool>) -> bool {
    match &meta_data["coreos_copy_network"] {
        Value::Null => setting.value || setting.is_default(),
        given => *given != Value::Bool(false),
    }
}

/// Whether NetworkManager's files of a live system must be passed on. The agent passes
/// them on only on request, as OpenShift's hardware manager does: unlike the plan of the
/// ramdisk, they may come from anybody.
fn must_copy_network(meta_data: &Value, setting: &Setting<bool>) -> bool {
    match &meta_data["coreos_copy_network"] {
        Value::Null => setting.value,
        given => *given != Value::Bool(false),
    }
}

#[cfg(test)]
mod tests {
    use landfall_boot_params::{BootParams, CommandLine};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_text_keeps_its_bytes() {
        assert_eq!(
            ignition_config(&json!("{ \"ignition\" : 1 }")).as_deref(),
            Some(&b"{ \"ignition\" : 1 }"[..])
        );
        assert_eq!(ignition_config(&Value::Null), None);
        assert!(ignition_config(&json!({"ignition": {}})).is_some());
    }

    #[test]
    fn kernel_arguments_stay_apart() {
        let key = "coreos_append_karg";
        let read = |given: Value| kernel_arguments(&json!({ (key): given }), key);
        assert_eq!(read(json!(["nosmt", "a=b"])).unwrap(), ["nosmt", "a=b"]);
        assert_eq!(read(json!("nosmt")).unwrap(), ["nosmt"]);
        assert!(read(Value::Null).unwrap().is_empty());
        assert!(kernel_arguments(&Value::Null, key).unwrap().is_empty());
        for bad in [json!([1]), json!({"a": 1}), json!(1)] {
            let failure = read(bad).unwrap_err();
            assert!(failure.details.starts_with("coreos_append_karg: "));
        }
    }

    #[test]
    fn the_node_decides_before_the_boot_does() {
        for (line, by_default, requested) in [
            ("", true, false),
            ("IPA_COREOS_COPY_NETWORK=true", true, true),
            ("IPA_COREOS_COPY_NETWORK=false", false, false),
        ] {
            let params = BootParams::from_command_line(&CommandLine::parse(line));
            let decides =
                |meta_data: Value| may_copy_network(&meta_data, &params.coreos_copy_network);
            let requests =
                |meta_data: Value| must_copy_network(&meta_data, &params.coreos_copy_network);
            assert_eq!(requests(Value::Null), requested, "{line}");
            assert!(requests(json!({"coreos_copy_network": true})), "{line}");
            assert!(!requests(json!({"coreos_copy_network": false})), "{line}");
            assert_eq!(decides(Value::Null), by_default, "{line}");
            assert_eq!(
                decides(json!({"coreos_copy_network": null})),
                by_default,
                "{line}"
            );
            assert!(decides(json!({"coreos_copy_network": true})), "{line}");
            assert!(!decides(json!({"coreos_copy_network": false})), "{line}");
        }
    }
}
