//! The step `install_coreos`: a CoreOS image, its Ignition config and its
//! kernel arguments, all taken from the node.

use std::sync::Arc;

use serde_json::Value;

use super::first_boot_network::FirstBootNetwork;
use super::{bootloader, checksum, image_server, root_disk, software_raid};
use crate::commands::command::Node;
use crate::commands::image_info::GivenChecksum;
use crate::commands::machine::{Machine, blocking};
use crate::disk::format_policy::FormatPolicy;
use crate::disk::target::Target;
use crate::disk::write_image::{ImageSource, write_image};
use crate::failure::{Class, Failure, Result};
use crate::handover::ignition_file;
use crate::handover::install_coreos::{self, CoreosChanges};
use crate::permission::WritePermission;

/// What the node says, read and checked before anything is touched.
struct Wanted {
    image_url: String,
    checksum: GivenChecksum,
    changes: CoreosChanges,
}

pub(super) async fn execute(
    machine: &Arc<Machine>,
    node: &Node,
    permission: WritePermission,
) -> Result<Value> {
    let wanted = Wanted::read(machine, node)?;
    let disk = root_disk::find(machine, node).await?;
    // As the original: an old array would take the disk when the new system
    // assembles its arrays. Only an operator who never cleans is spared.
    if node.0.get("automated_clean") != Some(&Value::Bool(false))
        && let Err(failure) = software_raid::delete(node, permission).await
    {
        tracing::warn!("{failure}; going on with the installation");
    }
    let (client, path) = (machine.client.clone(), disk.clone());
    let ignore_bootloader_failure = *machine.settings.params.ignore_bootloader_failure;
    let md5_enabled = *machine.settings.params.md5_enabled;
    let patience = image_server::patience(&machine.settings.params);
    blocking(move || {
        let digest = checksum::resolve(&wanted.checksum, &wanted.image_url, &client, md5_enabled)?;
        let source = ImageSource {
            urls: vec![wanted.image_url],
            digest,
            authorization: None,
            patience,
            formats: FormatPolicy::default(),
        };
        let target = Target::open(&path, &permission)?;
        // The config comes before the table: a disk that boots has both.
        write_image(&source, target, &client)?
            .with_partitions(&permission, |disk, table| {
                install_coreos::install_coreos(disk, table, &wanted.changes, &permission)
            })?
            .commit()?;
        bootloader::make_boot_entry(&path, &permission, ignore_bootloader_failure)
    })
    .await?;
    machine.set_written_disk(&disk);
    Ok(Value::Null)
}

impl Wanted {
    fn read(machine: &Machine, node: &Node) -> Result<Self> {
        let text = |key: &str| {
            node.instance_info(key)
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        let default_image = machine.settings.params.coreos_image.as_ref();
        let (image_url, checksum) = match (text("image_source"), default_image) {
            (Some(url), _) => (
                url,
                GivenChecksum {
                    os_hash_algo: text("image_os_hash_algo"),
                    os_hash_value: text("image_os_hash_value"),
                    checksum: text("image_checksum"),
                },
            ),
            // The node's checksum, if any, is of another image.
            (None, Some(url)) => (url.0.clone(), GivenChecksum::default()),
            (None, None) => {
                return Err(Failure::new(
                    Class::DeploymentError,
                    "install_coreos: the node has no image_source and this ramdisk has no image of its own",
                )
                .hint("set instance_info.image_source, or boot with landfall.coreos.image=URL"));
            }
        };
        let config_drive = match node.instance_info("configdrive") {
            None => &Value::Null,
            Some(drive @ Value::Object(_)) => drive,
            Some(_) => {
                return Err(Failure::new(
                    Class::DeploymentError,
                    "install_coreos: the config drive must be passed as JSON, found rendered text",
                ));
            }
        };
        let append_kargs = kernel_arguments(&config_drive["meta_data"]["coreos_append_karg"])?;
        let user_data = ignition_config(&config_drive["user_data"]);
        let host_name = host_name(&config_drive["meta_data"]);
        let given = machine.settings.network_data.as_ref();
        let network = FirstBootNetwork::of_this_boot(
            &machine.settings.command_line,
            given.map(|found| found.text.as_str()),
            &config_drive["meta_data"]["coreos_copy_network"],
        );
        let changes = CoreosChanges {
            ignition: ignition_file::with_hostname(user_data.as_deref(), host_name.as_deref())?,
            append_kargs,
            firstboot_args: network.arguments,
            network_keyfiles: network.keyfiles,
            ..CoreosChanges::default()
        };
        // What cannot be written is known before the disk is touched.
        changes.check()?;
        Ok(Self {
            image_url,
            checksum,
            changes,
        })
    }
}

/// The Ignition config as bytes: a text stays as the user wrote it.
fn ignition_config(user_data: &Value) -> Option<Vec<u8>> {
    match user_data {
        Value::Null => None,
        Value::String(text) => Some(text.clone().into_bytes()),
        object => Some(object.to_string().into_bytes()),
    }
}

/// The name for the installed host: what this boot is called (by `ip=` or
/// DHCP), else what Ironic's metadata calls it, as ironic-agent-image renames a
/// ramdisk that has no name of its own.
fn host_name(meta_data: &Value) -> Option<String> {
    let own = nix::unistd::gethostname().unwrap_or_default();
    let own = own.to_string_lossy().into_owned();
    if !NAMELESS.contains(&own.as_str()) {
        return Some(own);
    }
    ["hostname", "local-hostname", "local_hostname", "name"]
        .iter()
        .find_map(|key| meta_data[key].as_str())
        .map(str::to_owned)
}

/// What a host without a name is called; `(none)` is the kernel's.
const NAMELESS: [&str; 4] = ["", "(none)", "localhost", "localhost.localdomain"];

/// Absent, one text or a list of texts; each is one argument. (The original
/// joins the list with commas into a single argument, which no kernel splits.)
fn kernel_arguments(given: &Value) -> Result<Vec<String>> {
    let invalid = || {
        Failure::new(
            Class::DeploymentError,
            format!("coreos_append_karg: expected a list of texts, found {given}"),
        )
    };
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
        assert_eq!(
            kernel_arguments(&json!(["nosmt", "a=b"])).unwrap(),
            ["nosmt", "a=b"]
        );
        assert_eq!(kernel_arguments(&json!("nosmt")).unwrap(), ["nosmt"]);
        assert!(kernel_arguments(&Value::Null).unwrap().is_empty());
        assert!(kernel_arguments(&json!([1])).is_err());
        assert!(kernel_arguments(&json!({"a": 1})).is_err());
    }
}
