//! Turns options into an installation. All inputs are read, fetched and checked
//! here; nothing is written.

use std::env::consts::ARCH;
use std::fs::{self, File};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::time::Duration;

use crate::disk::fetch::Patience;
use crate::disk::saved_partitions::PartitionFilter;
use crate::disk::write_image::WriteOptions;
use crate::failure::{Class, Failure, Result};
use crate::handover::install_coreos::CoreosChanges;
use crate::installation::options::{FetchRetries, InstallOptions};
use crate::installation::own_image::FindOwnImage;
use crate::installation::{
    BootEntry, Installation, Servers, ignition_source, image_choice, keyfile_source,
};
use crate::sys::block_ioctl;

impl InstallOptions {
    /// Prepares the installation. `servers` fetches all URLs in the options.
    /// `own_image` finds the image if the options name none.
    ///
    /// # Errors
    /// If anything in the options is invalid or not available. The disk has only
    /// been asked for its sector size by then.
    pub fn prepare(&self, servers: &Servers, own_image: FindOwnImage<'_>) -> Result<Installation> {
        if self.secure_ipl {
            return Err(Failure::invalid_params(format!(
                "--secure-ipl: expected a machine of architecture s390x, found {ARCH}"
            )));
        }
        let disk = self
            .dest_device
            .clone()
            .ok_or_else(|| Failure::invalid_params("expected a destination device, found none"))?;
        let sector = sector_size(&disk)?;
        let options = self.write_options()?;
        let mut changes = CoreosChanges {
            ignition: None,
            append_kargs: self.append_karg.clone(),
            delete_kargs: self.delete_karg.clone(),
            firstboot_args: self.firstboot_args.clone(),
            network_keyfiles: keyfile_source::read(self)?,
            platform: self.platform.clone(),
            consoles: self.console.clone(),
        };
        changes.check()?;
        changes.ignition = ignition_source::read(self, servers)?;
        let image = image_choice::choose(self, sector, servers, own_image)?;
        Ok(Installation {
            image,
            disk,
            options,
            changes,
            boot_entry: BootEntry::Wanted,
        })
    }

    fn write_options(&self) -> Result<WriteOptions> {
        let mut saved = Vec::new();
        for text in &self.save_partlabel {
            saved.extend(PartitionFilter::parse_labels(text).map_err(|reason| {
                Failure::invalid_params(format!("--save-partlabel: {reason}"))
            })?);
        }
        for text in &self.save_partindex {
            saved.extend(PartitionFilter::parse_indexes(text).map_err(|reason| {
                Failure::invalid_params(format!("--save-partindex: {reason}"))
            })?);
        }
        Ok(WriteOptions {
            saved,
            preserve_on_error: self.preserve_on_error,
            verify: self.verify,
            ..WriteOptions::default()
        })
    }

    /// How long to retry servers. A broken download resumes where it stopped; that
    /// counts as a retry unless it makes progress.
    pub(super) fn patience(&self) -> Patience {
        let usual = Patience::default();
        match self.fetch_retries {
            // coreos-installer gives up at once. But a server or a link that is
            // down for a moment should not fail an installation.
            None => Patience {
                give_up: usual.stall,
                ..usual
            },
            Some(FetchRetries::Times(retries)) => Patience {
                give_up: Duration::ZERO,
                retries,
                ..usual
            },
            Some(FetchRetries::Infinite) => Patience {
                give_up: Duration::MAX,
                ..usual
            },
        }
    }
}

/// The logical sector size of the disk in bytes; a stream has one image for each
/// size.
fn sector_size(disk: &Path) -> Result<u32> {
    let wrong = |reason: String| {
        let details = format!("{}: {reason}", disk.display());
        Failure::new(Class::DeviceNotFound, details)
    };
    let metadata = fs::metadata(disk).map_err(|error| wrong(error.to_string()))?;
    if !metadata.file_type().is_block_device() {
        return Err(wrong("not a block device".to_owned()));
    }
    File::open(disk)
        .and_then(|file| block_ioctl::logical_sector_size(&file))
        .map_err(|error| wrong(format!("asking for the sector size: {error}")))
}
