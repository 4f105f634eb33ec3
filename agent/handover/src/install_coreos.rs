//! Adapts a written CoreOS image to this host: Ignition config, platform, consoles,
//! kernel arguments and network of the first boot. All of them are files in the
//! boot partition.

use std::fs::File;
use std::path::Path;
use std::time::Instant;

use landfall_devices::permission::WritePermission;
use landfall_disk::tables::gpt::Table;
use landfall_report::failure::Result;
use nix::mount::MsFlags;

use crate::boot_files::BootFiles;
use crate::console::{self, Console};
use crate::file_in_boot::problem;
use crate::ignition_file::Spec;
use crate::kernel_args::{self, METAL, Step};
use crate::platform_table::PlatformTable;
use crate::{
    boot_loader_entry, boot_partition, firstboot_keyfiles, firstboot_network, grub_console,
    ignition_file, written_disk,
};

/// The changes to make; the default changes nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CoreosChanges {
    /// The Ignition config, written byte for byte.
    pub ignition: Option<Vec<u8>>,
    /// Permanent kernel arguments to add at the end.
    pub append_kargs: Vec<String>,
    /// Permanent kernel arguments to delete. The agent deletes them before it adds
    /// others.
    pub delete_kargs: Vec<String>,
    /// Kernel arguments of the first boot only.
    pub firstboot_args: Option<String>,
    /// NetworkManager keyfiles for the first boot: name and content.
    pub network_keyfiles: Vec<(String, Vec<u8>)>,
    /// The Ignition platform to set instead of `metal`, with its consoles.
    pub platform: Option<String>,
    /// The consoles that replace those of the platform. The last one becomes the kernel's
    /// `/dev/console`.
    pub consoles: Vec<Console>,
}

impl CoreosChanges {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Rejects changes that cannot be made. Needs no disk, so it can run before the image
    /// is fetched. The error names the first fault. Returns the spec version of the
    /// Ignition config, because an image may not support that version.
    pub fn check(&self) -> Result<Option<Spec>> {
        let spec = match &self.ignition {
            Some(config) => Some(ignition_file::check(config)?),
            None => None,
        };
        kernel_args::check_appended(&self.append_kargs)?;
        kernel_args::check_deleted(&self.delete_kargs)?;
        if let Some(platform) = &self.platform {
            kernel_args::check_platform(platform)?;
        }
        if let Some(arguments) = &self.firstboot_args {
            firstboot_network::line(arguments)?;
        }
        firstboot_keyfiles::check(&self.network_keyfiles)?;
        Ok(spec)
    }

    /// The steps on the kernel arguments, in coreos-installer's order: first the
    /// platform, then the consoles (`consoles`, or else those of the platform), then the
    /// arguments to delete and to append.
    fn steps(&self, table: &PlatformTable) -> Vec<Step> {
        let mut steps = Vec::new();
        let other_platform = self.platform.as_deref().filter(|name| *name != METAL);
        if let Some(platform) = other_platform {
            steps.push(Step::Platform(platform.to_owned()));
        }
        let consoles = if self.consoles.is_empty() {
            other_platform.map(|name| table.platform(name).kernel_arguments)
        } else {
            Some(self.consoles.iter().map(Console::kernel_argument).collect())
        };
        if let Some(append) = consoles {
            let delete = table.platform(METAL).kernel_arguments;
            steps.push(Step::Change { delete, append });
        }
        if !self.append_kargs.is_empty() || !self.delete_kargs.is_empty() {
            steps.push(Step::Change {
                delete: self.delete_kargs.clone(),
                append: self.append_kargs.clone(),
            });
        }
        steps
    }

    /// The new commands of GRUB's console block; `None` leaves the block unchanged.
    fn grub_commands(&self, table: &PlatformTable) -> Option<Vec<String>> {
        if !self.consoles.is_empty() {
            return Some(console::grub_commands(&self.consoles));
        }
        let commands = table.platform(self.platform.as_deref()?).grub_commands;
        (commands != table.platform(METAL).grub_commands).then_some(commands)
    }
}

/// Makes the changes in the boot partition of this disk and flushes them to the disk.
///
/// # Errors
/// If the disk has no boot partition, or a change cannot be made.
pub fn install_coreos(
    disk: &Path,
    table: &Table,
    changes: &CoreosChanges,
    _permission: &WritePermission,
) -> Result<()> {
    let spec = changes.check()?;
    if changes.is_empty() {
        return Ok(());
    }
    let started = Instant::now();
    let boot = boot_partition::find(disk, table)?;
    let node = written_disk::node(disk, boot.partition.number)?;
    let mount_point = Path::new(written_disk::BOOT_MOUNT_POINT);
    change_mounted(&node, boot.file_system.kind, mount_point, changes)?;
    for other in boot_partition::on_other_disks(disk) {
        tracing::warn!(
            "{} also holds a file system labelled boot: CoreOS may refuse to boot until that disk is wiped",
            other.display()
        );
    }
    tracing::info!(
        "{}: {} ({:.1} s)",
        node.display(),
        summary(changes, spec.as_ref()),
        started.elapsed().as_secs_f64()
    );
    Ok(())
}

fn change_mounted(
    node: &Path,
    kind: &str,
    mount_point: &Path,
    changes: &CoreosChanges,
) -> Result<()> {
    let mounted = written_disk::mount(node, mount_point, kind, MsFlags::empty())?;
    apply(mount_point, changes)?;
    File::open(mount_point)
        .and_then(|root| nix::unistd::syncfs(root).map_err(Into::into))
        .map_err(|e| problem(node, &format!("cannot flush: {e}")))?;
    mounted
        .unmount()
        .map_err(|e| problem(node, &format!("cannot unmount it: {e}")))
}

/// Makes the changes in a boot file system. Everything that can be rejected is checked
/// before the first write. The Ignition config is written last: after an interruption
/// the system comes up without its config, and the operator notices that. A system that
/// has its config but not its network might go unnoticed.
///
/// The changes must have passed [`CoreosChanges::check`].
///
/// # Errors
/// If a change cannot be made.
pub fn apply(boot: &(impl BootFiles + ?Sized), changes: &CoreosChanges) -> Result<()> {
    let table = if changes.platform.is_some() || !changes.consoles.is_empty() {
        PlatformTable::read(boot)?
    } else {
        PlatformTable::default()
    };
    let steps = changes.steps(&table);
    let kargs = if steps.is_empty() {
        None
    } else {
        Some(boot_loader_entry::prepare(boot, &steps)?)
    };
    let grub = match changes.grub_commands(&table) {
        Some(commands) => Some(grub_console::prepare(boot, &commands)?),
        None => None,
    };
    let firstboot = match &changes.firstboot_args {
        Some(arguments) => {
            firstboot_network::check(boot)?;
            Some(firstboot_network::line(arguments)?)
        }
        None => None,
    };
    if changes.ignition.is_some() {
        ignition_file::check_absent(boot)?;
    }
    if !changes.network_keyfiles.is_empty() {
        firstboot_keyfiles::check_absent(boot, &changes.network_keyfiles)?;
    }

    if let Some(edit) = kargs {
        edit.write(boot)?;
    }
    if let Some(edit) = grub {
        edit.write(boot)?;
    }
    firstboot_keyfiles::write(boot, &changes.network_keyfiles)?;
    if let Some(line) = firstboot {
        firstboot_network::append(boot, &line)?;
    }
    if let Some(config) = &changes.ignition {
        ignition_file::write(boot, config)?;
    }
    Ok(())
}

/// A summary of the changes for the console, without the contents of the Ignition config
/// and of the keyfiles, which may have secrets. `spec` is the version of the Ignition
/// config, if the caller knows it.
pub fn summary(changes: &CoreosChanges, spec: Option<&Spec>) -> String {
    let mut parts = Vec::new();
    if let Some(config) = &changes.ignition {
        let spec = spec.map(Spec::to_string).unwrap_or_default();
        parts.push(format!("Ignition config{spec} of {} bytes", config.len()));
    }
    if let Some(platform) = &changes.platform {
        parts.push(format!("platform {platform}"));
    }
    if !changes.consoles.is_empty() {
        let consoles = changes.consoles.iter().map(Console::to_string);
        let consoles = consoles.collect::<Vec<_>>().join(" ");
        parts.push(format!("consoles {consoles}"));
    }
    for (what, arguments) in [
        ("added", &changes.append_kargs),
        ("deleted", &changes.delete_kargs),
    ] {
        if !arguments.is_empty() {
            parts.push(format!("kernel arguments {what}: {}", arguments.join(" ")));
        }
    }
    if let Some(arguments) = &changes.firstboot_args {
        parts.push(format!("first-boot arguments: {arguments}"));
    }
    if !changes.network_keyfiles.is_empty() {
        let names = changes.network_keyfiles.iter().map(|(name, _)| &name[..]);
        parts.push(format!(
            "network keyfiles: {}",
            names.collect::<Vec<_>>().join(" ")
        ));
    }
    parts.join("; ")
}

#[cfg(test)]
mod tests;
