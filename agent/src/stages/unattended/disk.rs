//! Finds the disk of an unattended installation, and waits for it if necessary.

use std::path::{Path, PathBuf};

use landfall_devices::identity::ChosenDisk;
use landfall_inventory::given_hints::{GivenHints, Overrider};
use landfall_inventory::named_disk;
use landfall_inventory::report_types::Disk;
use landfall_inventory::root_device::{choose, no_disk, report_untouchable, sets_below};
use landfall_inventory::root_device_hints::SkipList;
use landfall_report::failure::{Failure, Result};
use landfall_report::status::{RootDisk, chose_root_disk};
use landfall_sys::system_path::SystemPath;

use super::Boot;
use crate::commands::blocking;

impl Boot {
    /// The disk with the name `named`. If there is no name and `uses_hints` is set, the
    /// disk that the root device hints in the ramdisk for this host select. Also
    /// records in the status which disk was chosen, and why.
    pub(super) async fn disk(
        &self,
        named: Option<PathBuf>,
        uses_hints: bool,
    ) -> Result<ChosenDisk> {
        let embedded = &self.settings.embedded;
        if let Some(path) = named {
            if let Ok(Some((host, hints))) = embedded.root_device_hints() {
                tracing::info!(
                    "the root device hints in the ramdisk for {host} are ignored ({hints}): the installation names {}",
                    path.display()
                );
            }
            let disk = self.named_disk(&path).await?;
            chose_root_disk(RootDisk {
                path: disk.path.display().to_string(),
                why: format!("coreos.inst.install_dev={}", path.display()),
                ..RootDisk::default()
            });
            return Ok(disk);
        }
        let given = match uses_hints {
            true => GivenHints::in_ramdisk(embedded, Overrider::Arguments)?,
            false => None,
        };
        match given {
            Some(given) => self.hinted_disk(given).await,
            None => Err(Failure::invalid_params(
                "expected coreos.inst.install_dev=DISK, or coreos.inst.image_url=URL and root device hints of this host in the ramdisk, found neither",
            )),
        }
    }

    async fn named_disk(&self, path: &Path) -> Result<ChosenDisk> {
        let path = path.to_string_lossy().into_owned();
        let arrival = self.disk_arrival().await;
        blocking(move || {
            let root = SystemPath::live();
            let is_there = |disks: &[_]| named_disk::find(&root, &path, disks).is_ok();
            let disks = arrival
                .wait(&root, is_there)
                .map_err(|error| Failure::other(format!("cannot wait for {path}: {error}")))?;
            report_untouchable(&disks);
            named_disk::find(&root, &path, &disks).and_then(Disk::chosen)
        })
        .await
    }

    async fn hinted_disk(&self, given: GivenHints) -> Result<ChosenDisk> {
        tracing::info!("{given}");
        let mut arrival = self.disk_arrival().await;
        // Wait for all disks: one that appears later may also match, and take precedence.
        if !given.hints.name_a_disk() {
            arrival = arrival.of_all_disks();
        }
        let remedy = given.source.remedy();
        let (disk, rejected) = blocking(move || {
            let root = SystemPath::live();
            let sets = sets_below(&root);
            let keep = SkipList::default();
            let is_there = |disks: &[Disk]| choose(disks, Some(&given), &keep, &sets).is_ok();
            let disks = arrival
                .wait(&root, is_there)
                .map_err(|error| Failure::other(format!("cannot wait for a disk: {error}")))?;
            report_untouchable(&disks);
            if disks.is_empty() {
                return Err(no_disk(&root));
            }
            let choice = choose(&disks, Some(&given), &keep, &sets)?;
            Ok((choice.disk.chosen()?, choice.rejected))
        })
        .await?;
        chose_root_disk(RootDisk {
            path: disk.path.display().to_string(),
            why: "matches the root device hints of this host in the ramdisk".to_owned(),
            rejected,
            remedy: Some(format!("to choose another disk, {remedy}")),
        });
        Ok(disk)
    }
}
