//! The step `write_image`: an image as it is, with a config drive beside it.

use std::sync::Arc;

use serde_json::Value;

use super::{checksum, config_drive, image_server, root_disk};
use crate::commands::command::Node;
use crate::commands::image_info::ImageInfo;
use crate::commands::machine::{Machine, blocking};
use crate::disk::mbr;
use crate::disk::target::Target;
use crate::disk::write_image::{ImageSource, write_image};
use crate::failure::Result;
use crate::permission::WritePermission;

/// Executes the step. Returns its result as Ironic stores it.
pub(super) async fn execute(
    machine: &Arc<Machine>,
    node: &Node,
    arguments: &Value,
    permission: WritePermission,
) -> Result<Value> {
    let info = ImageInfo::read(&arguments["image_info"])?;
    // Ironic sends it in both places; older conductors in the second alone.
    let drive = match config_drive::read(&arguments["configdrive"])? {
        Some(drive) => Some(drive),
        None => config_drive::read(&arguments["image_info"]["configdrive"])?,
    };
    let disk = root_disk::find(machine, node).await?;

    let params = &machine.settings.params;
    let client = image_server::client(machine, &info)?;
    let mut source = ImageSource {
        urls: info.urls.clone(),
        digest: None,
        authorization: image_server::authorization(params, &info)?,
        patience: image_server::patience(params),
        formats: image_server::formats(params, &info),
    };
    let (md5_enabled, rebuild) = (*params.md5_enabled, *params.config_drive_rebuild);
    let (id, path) = (info.id.clone(), disk.clone());
    blocking(move || {
        // Everything that can be known to be wrong is looked at before the
        // disk is touched: the config drive too.
        let drive = drive.map(|drive| drive.load(&client)).transpose()?;
        source.digest = checksum::resolve(&info.checksum, &info.urls[0], &client, md5_enabled)?;
        let target = Target::open(&path, &permission)?;
        let mut proven = write_image(&source, target, &client)?;
        if let Some(drive) = drive {
            proven.write_config_drive(&drive, rebuild)?;
        }
        proven.commit().map(drop)
    })
    .await?;
    machine.set_written_disk(&disk);
    let root_uuid = mbr::signature(&disk).unwrap_or_default();
    Ok(Value::String(format!(
        "write_image: image ({id}) written to device {} root_uuid={root_uuid}",
        disk.display()
    )))
}
