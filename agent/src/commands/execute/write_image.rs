//! The step `write_image`: an image as it is, with a config drive beside it.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{checksum, config_drive, image_server, root_disk};
use crate::commands::command::Node;
use crate::commands::image_info::ImageInfo;
use crate::commands::machine::{Machine, blocking};
use crate::disk::mbr;
use crate::disk::proof::Proof;
use crate::disk::target::Target;
use crate::disk::write_image::{ImageSource, WriteOptions, write_image_with};
use crate::failure::Result;
use crate::handover::efi_entry;
use crate::permission::WritePermission;

/// Executes the step. Returns its result as Ironic stores it.
pub(super) async fn execute(
    machine: &Arc<Machine>,
    node: &Node,
    arguments: &Value,
    permission: Result<WritePermission>,
) -> Result<Value> {
    // What is wrong with the image is told on every machine.
    let info = ImageInfo::read(&arguments["image_info"])?;
    info.refuse_md5(*machine.settings.params.md5_enabled)?;
    let permission = permission?;
    // Ironic sends it in both places; older conductors in the second alone.
    let drive = match &arguments["configdrive"] {
        Value::Null => &arguments["image_info"]["configdrive"],
        drive => drive,
    };
    let said = write(machine, node, info, drive, permission).await?;
    // The original's step is its command of that name, and says so.
    Ok(json!({"result": format!("prepare_image: {said}")}))
}

/// Writes the image and the config drive. Returns what Ironic is told of it.
pub(super) async fn write(
    machine: &Arc<Machine>,
    node: &Node,
    info: ImageInfo,
    drive: &Value,
    permission: WritePermission,
) -> Result<String> {
    info.must_be_whole_disk()?;
    let drive = config_drive::read(drive, node)?;
    let disk = root_disk::find(machine, node).await?;

    let params = &machine.settings.params;
    let client = image_server::client(machine, &info)?;
    let mut source = ImageSource {
        urls: info.urls.clone(),
        proof: Proof::Nothing,
        authorization: image_server::authorization(params, &info)?,
        patience: image_server::patience(params),
        formats: image_server::formats(params, &info),
    };
    let (md5_enabled, rebuild) = (*params.md5_enabled, *params.config_drive_rebuild);
    let options = WriteOptions {
        verify: *params.verify,
        // Ironic asks for a boot entry afterwards, unless the node boots by BIOS.
        needs_efi: efi_entry::booted_by_uefi()
            && !node.boots_by_bios()
            && !*params.ignore_bootloader_failure,
        ..WriteOptions::default()
    };
    let verified = !machine.http.insecure;
    let (id, path) = (info.id.clone(), disk.clone());
    blocking(move || {
        // Everything that can be known to be wrong is looked at before the
        // disk is touched: the config drive too.
        let drive = drive.map(|drive| drive.load(&client)).transpose()?;
        source.proof = checksum::resolve(
            &info.checksum,
            &source.urls,
            &source.authorization,
            &client,
            md5_enabled,
            verified,
        )?
        .into();
        let target = Target::open(&path, &permission)?;
        // The loader that a boot entry names is on a partition.
        if options.needs_efi {
            target.refuse_without_partitions()?;
        }
        let mut proven = write_image_with(&source, &options, target, &client)?;
        if let Some(drive) = drive {
            proven.write_config_drive(&drive, rebuild)?;
        }
        proven.commit().map(drop)
    })
    .await?;
    machine.set_written_disk(&disk);
    let root_uuid = mbr::signature(&disk).unwrap_or_default();
    Ok(format!(
        "image ({id}) written to device {} root_uuid={root_uuid}",
        disk.display()
    ))
}
