//! The deploy steps: what Ironic says of an image, a disk and a first boot,
//! brought to what `disk` and `handover` do.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use super::command::Node;
use super::machine::{Machine, blocking};
use super::{coreos_step, image_info, root_disk};
use crate::disk::config_drive::{ConfigDrive, write_config_drive};
use crate::disk::target::Target;
use crate::disk::write_image::write_image;
use crate::failure::{Class, Failure, Result};
use crate::handover::efi_entry::make_boot_entry;
use crate::permission::WritePermission;

/// Executes one step. Returns its result as Ironic stores it.
pub(super) async fn execute_step(
    machine: &Arc<Machine>,
    node: &Node,
    step: &Value,
) -> Result<Value> {
    // The parser has seen that there is a name.
    let name = step["step"].as_str().unwrap_or_default();
    let permission = WritePermission::in_ramdisk()?;
    match name {
        "write_image" => write_image_step(machine, node, &step["args"], permission).await,
        "install_coreos" => coreos_step::install_coreos(machine, node, permission).await,
        _ => Err(Failure::new(
            Class::HardwareManagerMethodNotFound,
            format!("Could not find method: {name}"),
        )),
    }
}

async fn write_image_step(
    machine: &Arc<Machine>,
    node: &Node,
    arguments: &Value,
    permission: WritePermission,
) -> Result<Value> {
    let info = image_info::ImageInfo::read(&arguments["image_info"])?;
    // Ironic sends it in both places; older conductors in the second alone.
    let config_drive = match ConfigDrive::from_json(&arguments["configdrive"])? {
        Some(drive) => Some(drive),
        None => ConfigDrive::from_json(&arguments["image_info"]["configdrive"])?,
    };
    let disk = root_disk::find(machine, node).await?;

    let client = machine.client.clone();
    let (id, path) = (info.id.clone(), disk.clone());
    blocking(move || {
        // Everything that can be known to be wrong is looked at before the
        // disk is touched: the config drive too.
        let drive = config_drive.map(|drive| drive.load(&client)).transpose()?;
        let source = info.source(&client)?;
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
    let root_uuid = mbr_identifier(&disk).unwrap_or_default();
    Ok(Value::String(format!(
        "write_image: image ({id}) written to device {} root_uuid={root_uuid}",
        disk.display()
    )))
}

/// `standby.get_partition_uuids` for a whole disk image: the identifier in its
/// MBR is all that the original tells.
pub(super) fn partition_uuids(disk: &Path) -> Result<Value> {
    Ok(json!({"root uuid": mbr_identifier(disk)?}))
}

fn mbr_identifier(disk: &Path) -> Result<String> {
    use std::os::unix::fs::FileExt as _;
    let mut bytes = [0; 4];
    std::fs::File::open(disk)
        .and_then(|file| file.read_exact_at(&mut bytes, 440))
        .map_err(|error| {
            Failure::new(
                Class::BlockDeviceError,
                format!("reading the MBR of {}: {error}", disk.display()),
            )
        })?;
    Ok(format!("0x{:08x}", u32::from_le_bytes(bytes)))
}

/// `image.install_bootloader`: on UEFI a boot entry for what the image brings;
/// on BIOS the image's own boot code is all there is to it.
pub(super) fn install_bootloader(disk: &Path, target_mode: &str, ignore: bool) -> Result<Value> {
    let permission = WritePermission::in_ramdisk()?;
    match make_boot_entry(disk, &permission) {
        Ok(_) => {}
        Err(failure) if ignore => tracing::warn!("{failure}; ignored as asked"),
        Err(failure) => return Err(failure),
    }
    tracing::debug!("install_bootloader for {target_mode} done");
    Ok(Value::Null)
}
