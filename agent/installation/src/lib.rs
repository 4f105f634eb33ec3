//! Installs an image with its Ignition config, kernel arguments and boot entry. The
//! step `install_coreos`, the sub-command `install` and the kernel arguments
//! `coreos.inst.*` share this code.
//!
//! [`Installation::prepare`] reads, fetches and checks all that the options name. (The
//! step `install_coreos` does not use it, but makes its `Installation` from the fields of
//! the node.) [`Installation::carry_out`] writes. Every error that can be detected in
//! advance is detected before the disk is touched. The partition table is written last,
//! when everything else is on the disk.

mod boot_entry;
mod boot_line;
mod config_file;
mod ignition_source;
mod image_choice;
mod keyfile_source;
mod options;
mod own_image;
mod prepare;
mod servers;
mod storage_network;
pub mod stream;

use landfall_devices::identity::ChosenDisk;
use landfall_devices::permission::WritePermission;
use landfall_disk::critical_section::{self, CriticalSection};
use landfall_disk::device::target::{Target, refuse_medium_of_image};
use landfall_disk::image::proven_image::{ProvenImage, WrittenImage};
use landfall_disk::image::write_image::{ImageSource, WriteOptions, check_image, write_image_with};
use landfall_disk::software_raid::system_partitions;
use landfall_handover::install_coreos::{self, CoreosChanges};
use landfall_handover::{array_root, efi_entry, iscsi_root, multipath, nvme_boot_root};
use landfall_report::failure::Result;
use own_image::FindOwnImage;

pub use boot_entry::BootEntry;
pub use keyfile_source::keyfiles_of_live_system;
pub use options::InstallOptions;
pub use own_image::OwnImage;
pub use servers::Servers;
use storage_network::StorageNetwork;

#[derive(Debug, Clone)]
pub struct Installation {
    pub image: ImageSource,
    /// A whole disk, not a partition.
    pub disk: ChosenDisk,
    /// Which partitions to keep, and what to verify.
    pub options: WriteOptions,
    /// Changes to the image's boot partition. If this is not empty, the image must have a
    /// boot partition.
    pub changes: CoreosChanges,
    pub boot_entry: BootEntry,
}

impl Installation {
    /// Reads, fetches and checks everything that the options name. `servers` has the
    /// client for all URLs in the options. `own_image` finds the image on the boot
    /// medium, for options that name no other image.
    ///
    /// # Errors
    /// If anything in the options is invalid or not available. The disk is unchanged: the
    /// agent has only read its sector size.
    pub fn prepare(
        options: &InstallOptions,
        servers: &Servers,
        own_image: FindOwnImage<'_>,
    ) -> Result<Self> {
        options.refuse_secure_ipl()?;
        let path = options.disk()?;
        let sector = prepare::sector_size(&path)?;
        let disk = ChosenDisk::by_path(&path)?;
        let write_options = options.write_options()?;
        let changes = options.changes(servers)?;
        let image = image_choice::choose(options, sector, servers, own_image)?;
        Ok(Self {
            image,
            disk,
            options: write_options,
            changes,
            boot_entry: BootEntry::Wanted,
        })
    }

    /// Does everything that needs no write: checks that nothing uses the disk, reads the
    /// whole image and compares its digest.
    ///
    /// # Errors
    /// Everything that makes [`Self::carry_out`] fail before it touches the disk,
    /// and faults that show only at the end of the image.
    pub fn check(&self, client: &reqwest::Client) -> Result<()> {
        self.check_changes()?;
        refuse_medium_of_image(&self.disk.path, &self.image.request.urls)?;
        let target = Target::open_chosen_to_check(&self.disk)?;
        system_partitions::refuse_unbootable(target.path(), efi_entry::booted_by_uefi())?;
        check_image(&self.image, &self.write_options(), target, client)
    }

    /// Rejects changes that cannot be made, and warns of a config that the first boot
    /// probably rejects.
    fn check_changes(&self) -> Result<()> {
        let spec = self.changes.check()?;
        if let Some(other_spec) = spec.and_then(|spec| spec.warning()) {
            tracing::warn!("{other_spec}");
        }
        Ok(())
    }

    /// Whether the image has the partitions of CoreOS. If there are changes to make, the
    /// agent has already rejected an image without these partitions (`needs_partitions`).
    fn is_for_coreos(&self, image: &ProvenImage) -> bool {
        !self.changes.is_empty()
            || ["boot", "root"]
                .iter()
                .all(|name| image.has_partition(name))
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
    /// See [`Installation::write`] and [`BootEntry::carry_out`]. If only the boot entry
    /// fails, the disk is complete.
    pub fn carry_out(
        &self,
        client: &reqwest::Client,
        permission: &WritePermission,
    ) -> Result<WrittenImage> {
        let (written, section) = self.write(client, permission)?;
        self.boot_entry
            .carry_out(&written.disk, &written.kept, permission, &section)?;
        Ok(written)
    }

    /// Writes the image and the changes to its boot partition, but makes no boot entry.
    /// The disk is complete afterwards. Returns the critical section that began before
    /// the commit; the caller makes the boot entry in it.
    ///
    /// # Errors
    /// If any part of the installation is not possible. If that could be detected in
    /// advance, the disk is unchanged; otherwise the disk does not boot.
    pub fn write(
        &self,
        client: &reqwest::Client,
        permission: &WritePermission,
    ) -> Result<(WrittenImage, CriticalSection)> {
        self.check_changes()?;
        refuse_medium_of_image(&self.disk.path, &self.image.request.urls)?;
        let mut target = Target::open_chosen(&self.disk, permission)?;
        system_partitions::copy_with(&mut target, efi_entry::booted_by_uefi(), permission)?;
        let several_paths = target.has_several_paths();
        let array = system_partitions::array_uuid(target.path());
        let network = StorageNetwork::of(target.path());
        let mut proven = write_image_with(&self.image, &self.write_options(), target, client)?;
        let mut changes = self.changes.clone();
        if several_paths && self.is_for_coreos(&proven) {
            changes = multipath::for_several_paths(&changes);
        }
        if network.nvme && self.is_for_coreos(&proven) {
            changes = nvme_boot_root::for_nvme_boot(&changes);
        }
        if network.iscsi && self.is_for_coreos(&proven) {
            changes = iscsi_root::for_firmware_target(&changes);
        }
        if let Some(array) = array.filter(|_| self.is_for_coreos(&proven)) {
            changes = array_root::for_array(&changes, array);
        }
        if !changes.is_empty() {
            // The changes are made before the partition table is written, so a disk that
            // boots has all of them.
            proven = proven.with_partitions(permission, |disk, table| {
                install_coreos::install_coreos(disk, table, &changes, permission)
            })?;
        }
        let section = critical_section::enter();
        Ok((proven.commit_within(&section)?, section))
    }
}
