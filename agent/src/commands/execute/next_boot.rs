//! How this boot ends where the installed system comes next.

use std::path::PathBuf;

use super::nothing_written;
use crate::commands::machine::blocking;
use crate::early::Ending;
use crate::handover::kexec;
use crate::permission::WritePermission;

/// Through the firmware; or, where `kexec` asks for it and it can be, straight
/// into the kernel of what was installed on `disk`. For our ramdisk: a live
/// system is ended by its systemd.
pub async fn into_installed_system(kexec: bool, disk: Option<PathBuf>) -> Ending {
    if !kexec {
        return Ending::Reboot;
    }
    let loaded = match disk {
        Some(disk) => {
            let load = move || {
                let permission = WritePermission::in_ramdisk()?;
                kexec::load_installed_system(&disk, &permission)
            };
            blocking(load).await
        }
        None => Err(nothing_written()),
    };
    match loaded {
        Ok(()) => Ending::Kexec,
        Err(failure) => {
            tracing::warn!("landfall.kexec: {failure}; rebooting by the firmware instead");
            Ending::Reboot
        }
    }
}
