//! The step `write_image`: writes an image unchanged and adds a config drive.

use std::sync::Arc;

use landfall_devices::permission::WritePermission;
use landfall_disk::device::target::{Target, refuse_medium_of_image};
use landfall_disk::image::write_image::{ImageSource, WriteOptions, write_image_with};
use landfall_disk::tables::mbr;
use landfall_download::fetch::Request;
use landfall_handover::efi_entry;
use landfall_report::failure::Result;
use serde_json::{Value, json};

use super::{checksum, config_drive, image_server, root_disk};
use crate::commands::image_info::ImageInfo;
use crate::commands::machine::{Machine, blocking};
use crate::commands::node::Node;

/// Returns the result in the form that Ironic stores.
pub(super) async fn execute(
    machine: &Arc<Machine>,
    node: &Node,
    arguments: &Value,
    permission: Result<WritePermission>,
) -> Result<Value> {
    // Read the arguments first, so that errors in them are reported even on a
    // machine without write permission.
    let info = ImageInfo::read(&arguments["image_info"])?;
    info.refuse_md5(*machine.settings.params.md5_enabled)?;
    let permission = permission?;
    // Ironic sends the config drive in both places, older conductors only in the
    // second.
    let drive = match &arguments["configdrive"] {
        Value::Null => &arguments["image_info"]["configdrive"],
        drive => drive,
    };
    let said = write(machine, node, info, drive, permission).await?;
    // For this step Ironic's agent executes its command `prepare_image`, and names
    // that command in the result.
    Ok(json!({"result": format!("prepare_image: {said}")}))
}

/// Writes the image and the config drive. Returns the text that Ironic receives.
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
    let request = Request {
        authorization: image_server::authorization(params, &info)?,
        retry_policy: image_server::retry_policy(params),
        ..Request::new(&info.urls)
    };
    let formats = image_server::formats(params, &info);
    let (md5_enabled, rebuild) = (*params.md5_enabled, *params.config_drive_rebuild);
    let options = WriteOptions {
        verify: *params.verify,
        // Ironic requests a boot entry afterwards, unless the node boots by BIOS.
        needs_efi: efi_entry::booted_by_uefi()
            && !node.boots_by_bios()
            && !*params.ignore_bootloader_failure,
        ..WriteOptions::default()
    };
    let verified = !machine.http.insecure;
    let (id, path) = (info.id.clone(), disk.clone());
    blocking(move || {
        // Everything that can be checked in advance, including the config drive, is
        // checked before the disk is touched.
        let checksum = checksum::parse(&info.checksum)?;
        let checksum = checksum.as_ref();
        let proof = checksum::proof(checksum, &request, &client, md5_enabled, verified)?;
        let source = ImageSource {
            formats,
            ..ImageSource::new(request, proof)
        };
        refuse_medium_of_image(&path, &source.request.urls)?;
        let target = Target::open(&path, &permission)?;
        let sector = target.sector_size();
        let drive = drive.map(|drive| drive.load(&client, sector, rebuild));
        let drive = drive.transpose()?;
        let mut proven = write_image_with(&source, &options, target, &client)?;
        if let Some(drive) = drive {
            proven.write_config_drive(&drive)?;
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
