//! The step `write_image`: an image as it is, with a config drive beside it.

use std::sync::Arc;

use serde_json::Value;

use super::{checksum, config_drive, root_disk};
use crate::commands::command::Node;
use crate::commands::image_info::{ImageInfo, authorization};
use crate::commands::machine::{Machine, blocking};
use crate::disk::config_drive::write_config_drive;
use crate::disk::fetch::Patience;
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

    let client = machine.client.clone();
    let (id, path) = (info.id.clone(), disk.clone());
    let md5_enabled = *machine.settings.params.md5_enabled;
    blocking(move || {
        // Everything that can be known to be wrong is looked at before the
        // disk is touched: the config drive too.
        let drive = drive.map(|drive| drive.load(&client)).transpose()?;
        let source = source(info, &client, md5_enabled)?;
        let target = Target::open(&path, &permission)?;
        let mut proven = write_image(&source, target, &client)?;
        if let Some(drive) = drive {
            let (target, table) = proven.disk_and_table()?;
            write_config_drive(target, table, &drive)?;
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

/// The source for the disk pipeline; fetches the checksum if that is a URL.
fn source(info: ImageInfo, client: &reqwest::Client, md5_enabled: bool) -> Result<ImageSource> {
    Ok(ImageSource {
        digest: checksum::resolve(&info.checksum, &info.urls[0], client, md5_enabled)?,
        urls: info.urls,
        authorization: info
            .authorization
            .as_deref()
            .map(authorization)
            .transpose()?,
        patience: Patience::default(),
    })
}
