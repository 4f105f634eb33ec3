//! `standby.prepare_image`: the step `write_image` under its older name, from the time
//! before Ironic had steps.

use std::sync::Arc;

use landfall_devices::permission::WritePermission;
use landfall_report::failure::Result;
use serde_json::Value;

use super::write_image;
use crate::commands::image_info::ImageInfo;
use crate::commands::machine::{Machine, PreparedImage};

/// Writes the image. Skips the write if the last `prepare_image` wrote the same image
/// with the same config drive and no step has run since, because a conductor that missed
/// the answer sends the command again.
pub(super) async fn execute(
    machine: &Arc<Machine>,
    info: ImageInfo,
    config_drive: Value,
) -> Result<Value> {
    let permission = WritePermission::by_boot()?;
    if let Some(prepared) = machine.prepared()
        && prepared.info == info
        && prepared.config_drive == config_drive
    {
        tracing::info!("image {} is on the disk already", info.id);
        return Ok(Value::String(prepared.result));
    }
    machine.set_prepared(None);
    let node = machine.node();
    let result =
        write_image::write(machine, &node, info.clone(), &config_drive, permission).await?;
    machine.set_prepared(Some(PreparedImage {
        info,
        config_drive,
        result: result.clone(),
    }));
    Ok(Value::String(result))
}
