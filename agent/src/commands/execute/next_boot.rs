//! How this boot ends if the installed system boots next.

use std::path::PathBuf;

use landfall_devices::permission::WritePermission;
use landfall_handover::kexec;
use landfall_init::Ending;

use super::nothing_written;
use crate::commands::machine::blocking;

/// Chooses how the machine starts the installed system on `disk`: by kexec if `kexec` is
/// set and the kernel of that system can be loaded, otherwise by a reboot through the
/// firmware. Set `kexec` only in the ramdisk: in a live system, systemd shuts the machine
/// down.
pub async fn into_installed_system(kexec: bool, disk: Option<PathBuf>) -> Ending {
    if !kexec {
        return Ending::Reboot;
    }
    let loaded = match disk {
        Some(disk) => {
            let load = move || {
                let permission = WritePermission::by_boot()?;
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
