//! Turns options into an installation. All inputs are read, fetched and checked
//! here; nothing is written.

use std::env::consts::ARCH;
use std::fs::{self, File};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::time::Duration;

use crate::disk::fetch::{Patience, is_medium_of};
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
        refuse_medium(&disk, &image.request.urls)?;
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

/// Fails if the disk is the medium that holds the image.
fn refuse_medium(disk: &Path, urls: &[String]) -> Result<()> {
    if !is_medium_of(disk, urls) {
        return Ok(());
    }
    Err(Failure::invalid_params(format!(
        "{} is the medium that the image is on, expected another disk",
        disk.display()
    )))
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

#[cfg(test)]
mod tests {
    use landfall_media_reader::coreos_image;

    use super::*;
    use crate::disk::fetch::medium_url;

    #[test]
    fn the_medium_of_the_image_is_not_its_target() {
        let directory = tempfile::tempdir().unwrap();
        // `/tmp` may be a link, and the function under test resolves links.
        let directory = directory.path().canonicalize().unwrap();
        let (stick, link) = (directory.join("sda"), directory.join("by-id"));
        fs::write(&stick, "").unwrap();
        std::os::unix::fs::symlink(&stick, &link).unwrap();
        let of_stick = [medium_url(&stick, coreos_image::FILE)];
        for disk in [&stick, &link] {
            let failure = refuse_medium(disk, &of_stick).unwrap_err();
            assert!(failure.details.contains("is the medium"), "{failure}");
        }
        refuse_medium(&directory.join("sdb"), &of_stick).unwrap();
        refuse_medium(&stick, &["http://h/a".to_owned()]).unwrap();
    }
}
