//! Turns options into the parts of an installation. Nothing is written here.

use std::fs::{self, File};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use landfall_disk::image::write_image::WriteOptions;
use landfall_disk::tables::saved_partitions::{FilterError, PartitionFilter};
use landfall_download::fetch::RetryPolicy;
use landfall_handover::install_coreos::CoreosChanges;
use landfall_report::failure::{Failure, Result};
use landfall_sys::block_ioctl;

use crate::options::{FetchRetries, InstallOptions};
use crate::{Servers, ignition_source, keyfile_source};

impl InstallOptions {
    pub(super) fn refuse_secure_ipl(&self) -> Result<()> {
        if self.secure_ipl {
            return Err(Failure::invalid_params(
                "--secure-ipl is not supported: only s390x machines have a secure IPL",
            )
            .hint("remove the option"));
        }
        Ok(())
    }

    pub(super) fn disk(&self) -> Result<PathBuf> {
        let disk = self.dest_device.clone();
        disk.ok_or_else(|| Failure::invalid_params("expected a destination device, found none"))
    }

    /// The changes to the boot partition, with the content of all files in them.
    pub(super) fn changes(&self, servers: &Servers) -> Result<CoreosChanges> {
        let mut changes = CoreosChanges {
            ignition: None,
            append_kargs: self.append_karg.clone(),
            delete_kargs: self.delete_karg.clone(),
            firstboot_args: self.firstboot_args.clone(),
            network_keyfiles: keyfile_source::read(self)?,
            platform: self.platform.clone(),
            consoles: self.console.clone(),
        };
        // Check before the Ignition config is fetched, which may take long.
        changes.check()?;
        changes.ignition = ignition_source::read(self, servers)?;
        Ok(changes)
    }

    pub(super) fn write_options(&self) -> Result<WriteOptions> {
        let wrong = |option: &'static str| {
            move |reason: FilterError| Failure::invalid_params(format!("--{option}: {reason}"))
        };
        let mut saved = Vec::new();
        for text in &self.save_partlabel {
            saved.extend(PartitionFilter::parse_labels(text).map_err(wrong("save-partlabel"))?);
        }
        for text in &self.save_partindex {
            saved.extend(PartitionFilter::parse_indexes(text).map_err(wrong("save-partindex"))?);
        }
        Ok(WriteOptions {
            saved,
            preserve_on_error: self.preserve_on_error,
            verify: self.verify,
            ..WriteOptions::default()
        })
    }

    /// How long to retry servers. A broken download resumes where it stopped. Each
    /// resumption that receives no new data counts as a retry.
    pub(super) fn retry_policy(&self) -> RetryPolicy {
        let usual = RetryPolicy::default();
        match self.fetch_retries {
            // Unlike coreos-installer, the agent retries by default, because a server or
            // a link that is down for a moment should not fail an installation.
            None => RetryPolicy {
                give_up: usual.stall,
                ..usual
            },
            Some(FetchRetries::Times(retries)) => RetryPolicy {
                give_up: Duration::ZERO,
                retries,
                ..usual
            },
            Some(FetchRetries::Infinite) => RetryPolicy {
                give_up: Duration::MAX,
                ..usual
            },
        }
    }
}

/// The logical sector size of the disk in bytes; a stream has one image for each
/// size.
pub(super) fn sector_size(disk: &Path) -> Result<u32> {
    let wrong = |reason: String| {
        let details = format!("{}: {reason}", disk.display());
        Failure::device_not_found(details)
    };
    let metadata = fs::metadata(disk).map_err(|error| wrong(error.to_string()))?;
    if !metadata.file_type().is_block_device() {
        return Err(wrong("not a block device".to_owned()));
    }
    File::open(disk)
        .and_then(|file| block_ioctl::logical_sector_size(&file))
        .map_err(|error| wrong(format!("cannot get the sector size: {error}")))
}
