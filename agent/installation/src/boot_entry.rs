//! Makes the boot entry of an installed disk, and decides whether a failure is an error
//! or a warning.

use std::path::Path;

use landfall_devices::permission::WritePermission;
use landfall_disk::critical_section::CriticalSection;
use landfall_handover::efi_entry::{self, NoEntry};
use landfall_report::failure::{Failure, Result};
use landfall_report::status::report_fault;

/// What to do with the firmware's boot entries once a disk is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BootEntry {
    /// Make an entry for the written disk, if the firmware is UEFI. If that fails,
    /// the command fails, as Ironic expects of `install_bootloader`.
    Required,
    /// Make an entry. A failure is only a warning if the image has the fallback loader,
    /// which firmware starts without an entry: the disk boots, and writing it again would
    /// fail in the same way.
    Wanted,
    /// Make an entry. Every failure is only a warning.
    Optional,
    /// Make no entry: the disk is for another machine.
    Leave,
}

impl BootEntry {
    /// The value for an installation; `ignore_failure` is the setting
    /// `ignore_bootloader_failure`.
    pub fn new(ignore_failure: bool) -> Self {
        if ignore_failure {
            Self::Optional
        } else {
            Self::Wanted
        }
    }

    /// Whether the agent rejects an image that this machine's firmware cannot boot. It
    /// does so before it writes the image.
    pub fn needs_efi(self) -> bool {
        matches!(self, Self::Required | Self::Wanted) && efi_entry::booted_by_uefi()
    }

    /// Makes the boot entry. Does nothing for [`Self::Leave`], and on a machine that was
    /// not booted by UEFI. `kept` is `WrittenImage::kept`. While `_section` is open, the
    /// agent does not end the boot: if only some of the firmware's variables were
    /// written, the firmware might not boot the disk.
    ///
    /// # Errors
    /// If the entry cannot be made, for [`Self::Required`]; for [`Self::Wanted`] only if
    /// the image has no fallback loader.
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
        // The text is repeated below, because docs/messages.md is generated from the
        // string literals of these macros.
        tracing::warn!(
            "{disk} is complete, continuing without a boot entry in the firmware: {} -- {hint}",
            failure.details
        );
        report_fault(
            "installation",
            &format!(
                "{disk} is complete, continuing without a boot entry in the firmware: {} -- {hint}",
                failure.details
            ),
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use landfall_report::failure::Class;
    use landfall_report::status;

    use super::*;

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
            let failure = Failure::new(Class::DeploymentError, "no space").hint("remove entries");
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
                let hint = failure.hint.unwrap_or_default();
                assert!(hint.starts_with("remove entries; with ipa-"), "{hint}");
            } else {
                // The status screen shows the fault as an error, although it is only a
                // warning in the log.
                let error = status::now().last_error.unwrap();
                assert!(error.text.contains("without a boot entry"), "{error:?}");
                assert_eq!(error.remedy.as_deref(), Some("remove entries"));
                status::retry_succeeded("installation");
            }
        }
    }
}
