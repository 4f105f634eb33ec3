//! Installs an image with its Ignition config, kernel arguments and boot entry. The
//! step `install_coreos`, the sub-command `install` and the kernel arguments
//! `coreos.inst.*` share this code.
//!
//! Every error that can be detected in advance is detected before the disk is
//! touched. The partition table is written last, when everything else is on the
//! disk.

mod boot_line;
mod config_file;
mod ignition_source;
mod image_choice;
mod keyfile_source;
pub mod options;
mod own_image;
mod prepare;
mod servers;
pub(crate) mod stream;

use std::path::{Path, PathBuf};

use crate::critical_section::{self, CriticalSection};
use crate::disk::proven_image::WrittenImage;
use crate::disk::target::Target;
use crate::disk::write_image::{ImageSource, WriteOptions, check_image, write_image_with};
use crate::failure::{Failure, Result};
use crate::handover::efi_entry::{self, NoEntry};
use crate::handover::install_coreos::{self, CoreosChanges};
use crate::permission::WritePermission;

pub use options::InstallOptions;
pub use own_image::OwnImage;
pub use servers::Servers;

/// What to do with the firmware's boot entries once a disk is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BootEntry {
    /// Make an entry for the written disk, if the firmware is UEFI. If that fails,
    /// the command fails, as Ironic expects of `install_bootloader`.
    Required,
    /// Make an entry. A failure is only a warning if the image has the loader that
    /// firmware starts without an entry: the disk boots, and writing it again would
    /// fail in the same way.
    Wanted,
    /// Make an entry. Every failure is only a warning.
    Optional,
    /// Make no entry: the disk is for another machine.
    Leave,
}

impl BootEntry {
    /// For an installation; `ignore_failure` is the setting
    /// `ignore_bootloader_failure`.
    pub fn new(ignore_failure: bool) -> Self {
        if ignore_failure {
            Self::Optional
        } else {
            Self::Wanted
        }
    }

    /// Whether the agent rejects an image that this machine's firmware cannot boot
    /// before it writes the image.
    pub fn needs_efi(self) -> bool {
        matches!(self, Self::Required | Self::Wanted) && efi_entry::booted_by_uefi()
    }

    /// Makes the boot entry; does nothing on a machine that was not booted by UEFI.
    /// For `kept` see [`WrittenImage::kept`]. While `_section` is open, the agent
    /// does not end the boot: with only some of its variables, the firmware might
    /// not boot the disk.
    ///
    /// # Errors
    /// If there is no entry and the disk needs one.
    pub fn carry_out(
        self,
        disk: &Path,
        kept: &[u32],
        permission: &WritePermission,
        _section: &CriticalSection,
    ) -> Result<()> {
        if self == Self::Leave {
            return Ok(());
        }
        match efi_entry::make_boot_entry(disk, kept, permission) {
            Ok(_) => Ok(()),
            Err(reason) => self.judge(disk, reason),
        }
    }

    fn judge(
        self,
        disk: &Path,
        NoEntry {
            failure,
            lacks_fallback,
        }: NoEntry,
    ) -> Result<()> {
        let disk = disk.display();
        let is_failure = match self {
            Self::Required => true,
            Self::Wanted => lacks_fallback,
            Self::Optional | Self::Leave => false,
        };
        if is_failure {
            let details = format!(
                "{disk} is complete, but this machine's firmware has no boot entry for it: {}",
                failure.details
            );
            let hint = failure
                .hint
                .map_or_else(String::new, |hint| format!("{hint}; "));
            return Err(Failure::new(failure.class, details).hint(format!(
                "{hint}with ipa-ignore-bootloader-failure=1 the agent continues without an entry"
            )));
        }
        let hint = failure.hint.as_deref().unwrap_or(
            "if this machine does not boot from the disk, choose it in the firmware's setup",
        );
        tracing::warn!(
            "{disk} is complete, continuing without a boot entry in the firmware: {} -- {hint}",
            failure.details
        );
        Ok(())
    }
}

#[derive(Debug, Clone)]
pub struct Installation {
    pub image: ImageSource,
    /// A whole disk, not a partition.
    pub disk: PathBuf,
    /// Which partitions to keep, and how strictly to check what is written.
    pub options: WriteOptions,
    /// Changes to the image's boot partition. An image without one is accepted only
    /// if this is empty.
    pub changes: CoreosChanges,
    pub boot_entry: BootEntry,
}

impl Installation {
    /// Does everything that needs no write: checks that nothing uses the disk,
    /// reads the whole image and compares its digest.
    ///
    /// # Errors
    /// Everything that makes [`Self::carry_out`] fail before it touches the disk,
    /// and faults that show only at the end of the image.
    pub fn check(&self, client: &reqwest::Client) -> Result<()> {
        self.changes.check()?;
        let target = Target::open_to_check(&self.disk)?;
        let options = self.write_options();
        if options.needs_partitions || options.needs_efi {
            target.refuse_without_partitions()?;
        }
        check_image(&self.image, &options, target, client)
    }

    fn write_options(&self) -> WriteOptions {
        WriteOptions {
            needs_efi: self.boot_entry.needs_efi(),
            needs_partitions: !self.changes.is_empty(),
            ..self.options.clone()
        }
    }

    /// Writes the image and makes the boot entry. `client` fetches the image.
    ///
    /// # Errors
    /// As [`Installation::write`] and [`BootEntry::carry_out`]. If the latter
    /// fails, the disk is complete.
    pub fn carry_out(
        &self,
        client: &reqwest::Client,
        permission: &WritePermission,
    ) -> Result<WrittenImage> {
        let (written, section) = self.write(client, permission)?;
        self.boot_entry
            .carry_out(&self.disk, &written.kept, permission, &section)?;
        Ok(written)
    }

    /// Does everything except the boot entry; the disk is complete afterwards.
    /// Returns the critical section that began before the commit; the caller makes
    /// the boot entry in it.
    ///
    /// # Errors
    /// If anything that was asked for is not possible. Nothing has touched the disk
    /// if that could be detected in advance; otherwise the disk does not boot.
    pub fn write(
        &self,
        client: &reqwest::Client,
        permission: &WritePermission,
    ) -> Result<(WrittenImage, CriticalSection)> {
        self.changes.check()?;
        let target = Target::open(&self.disk, permission)?;
        let options = self.write_options();
        if options.needs_partitions || options.needs_efi {
            target.refuse_without_partitions()?;
        }
        let mut proven = write_image_with(&self.image, &options, target, client)?;
        if !self.changes.is_empty() {
            // The config is written before the partition table, so a disk that
            // boots has both.
            proven = proven.with_partitions(permission, |disk, table| {
                install_coreos::install_coreos(disk, table, &self.changes, permission)
            })?;
        }
        let section = critical_section::enter();
        Ok((proven.commit_within(&section)?, section))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Class;

    #[test]
    fn a_disk_that_boots_without_an_entry_is_installed() {
        for (entry, lacks_fallback, fails) in [
            (BootEntry::Required, false, true),
            (BootEntry::Required, true, true),
            (BootEntry::Wanted, false, false),
            (BootEntry::Wanted, true, true),
            (BootEntry::Optional, false, false),
            (BootEntry::Optional, true, false),
        ] {
            let failure = Failure::new(Class::DeploymentError, "no space");
            let reason = NoEntry {
                failure,
                lacks_fallback,
            };
            let outcome = entry.judge(Path::new("/dev/sda"), reason);
            assert_eq!(outcome.is_err(), fails, "{entry:?} {lacks_fallback}");
            if let Err(failure) = outcome {
                let details = &failure.details;
                assert!(details.contains("/dev/sda is complete"), "{details}");
                assert!(details.contains("no space"), "{details}");
            }
        }
    }
}
