//! An image with all that belongs to it, from its source to a disk that boots:
//! what the step `install_coreos`, the sub-command `install` and the kernel
//! arguments `coreos.inst.*` have in common.
//!
//! Everything that can be known to be wrong is looked at before the disk is
//! touched, and whatever is to be on the disk is there before its table.

mod boot_line;
mod config_file;
mod digest_argument;
mod ignition_source;
mod image_choice;
mod keyfile_source;
pub mod options;
mod own_image;
mod prepare;
pub(crate) mod stream;

use std::path::{Path, PathBuf};

use crate::disk::proven_image::WrittenImage;
use crate::disk::target::Target;
use crate::disk::write_image::{ImageSource, WriteOptions, write_image_with};
use crate::failure::Result;
use crate::handover::efi_entry;
use crate::handover::install_coreos::{self, CoreosChanges};
use crate::permission::WritePermission;

pub use digest_argument::image_digest;
pub use options::InstallOptions;
pub use own_image::OwnImage;

/// What becomes of the firmware's boot entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BootEntry {
    /// One for the written disk, where the firmware is UEFI.
    Make,
    /// The same, but a firmware that refuses is a warning.
    MakeIfPossible,
    /// Nothing: this firmware is not for the written disk.
    Leave,
}

impl BootEntry {
    /// As the setting `ignore_bootloader_failure` says.
    pub fn new(ignore_failure: bool) -> Self {
        if ignore_failure {
            Self::MakeIfPossible
        } else {
            Self::Make
        }
    }

    /// Does it. Nothing to do on a machine that was not booted by UEFI. `kept`:
    /// see [`WrittenImage::kept`].
    ///
    /// # Errors
    /// If the entry cannot be made, and must be.
    pub fn carry_out(self, disk: &Path, kept: &[u32], permission: &WritePermission) -> Result<()> {
        if self == Self::Leave {
            return Ok(());
        }
        match (self, efi_entry::make_boot_entry(disk, kept, permission)) {
            (_, Ok(_)) => Ok(()),
            (Self::MakeIfPossible, Err(failure)) => {
                tracing::warn!("{failure}; ignored as asked");
                Ok(())
            }
            (_, Err(failure)) => Err(failure),
        }
    }
}

/// What to install, and where.
#[derive(Debug, Clone)]
pub struct Installation {
    /// The image.
    pub image: ImageSource,
    /// The whole disk that it goes to.
    pub disk: PathBuf,
    /// What of the disk stays, and how sure to be of the rest.
    pub options: WriteOptions,
    /// What to change in the image's boot partition. An image without one is
    /// fine as long as this is empty.
    pub changes: CoreosChanges,
    /// What becomes of the firmware's boot entries.
    pub boot_entry: BootEntry,
}

impl Installation {
    /// Does all of it. `client` is for the image's servers.
    ///
    /// # Errors
    /// If anything asked for cannot be had: before the disk is touched where
    /// that can be known, else with a disk that does not boot. After the table
    /// is written only the boot entry can fail.
    pub fn carry_out(
        &self,
        client: &reqwest::Client,
        permission: &WritePermission,
    ) -> Result<WrittenImage> {
        self.changes.check()?;
        let target = Target::open(&self.disk, permission)?;
        let mut proven = write_image_with(&self.image, &self.options, target, client)?;
        if !self.changes.is_empty() {
            // The config comes before the table: a disk that boots has both.
            proven = proven.with_partitions(permission, |disk, table| {
                install_coreos::install_coreos(disk, table, &self.changes, permission)
            })?;
        }
        let written = proven.commit()?;
        self.boot_entry
            .carry_out(&self.disk, &written.kept, permission)?;
        Ok(written)
    }
}
