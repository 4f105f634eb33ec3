//! A completely installed disk, and whether it has its boot entry.
//!
//! The state file lets a restarted agent continue after the installation. The agent must
//! not install again, and it must not report success while the firmware has no boot entry
//! for the disk.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use landfall_devices::permission::WritePermission;
use landfall_disk::critical_section::{self, CriticalSection};
use landfall_installation::BootEntry;
use landfall_report::failure::Result;
use landfall_report::status::report_complete_disk;
use landfall_sys::state_file::StateFile;
use serde::{Deserialize, Serialize};

use crate::commands::blocking;

#[derive(Debug)]
pub(super) struct CompleteDisk {
    state: StateFile,
    record: Record,
    /// The critical section of the commit, until the boot entry is made.
    section: Option<CriticalSection>,
}

/// The content of the state file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    /// The path of the disk. An `OsString`, because serde refuses a path that is not UTF-8.
    disk: OsString,
    /// `WrittenImage::kept`
    kept: Vec<u32>,
    /// The boot entry is made or not needed, or its failure was only a warning.
    has_entry: bool,
}

impl CompleteDisk {
    /// Records that the installation is complete. Call this before the boot entry is
    /// made. Otherwise, if the firmware makes the agent crash, the restarted agent would
    /// install again.
    pub(super) fn record(
        state: StateFile,
        disk: PathBuf,
        kept: Vec<u32>,
        section: CriticalSection,
    ) -> Self {
        let record = Record {
            disk: disk.into_os_string(),
            kept,
            has_entry: false,
        };
        let complete = Self {
            state,
            record,
            section: Some(section),
        };
        complete.store();
        complete
    }

    /// The disk that this boot has installed before the agent was restarted.
    pub(super) fn of_earlier_agent(state: &StateFile) -> Option<Self> {
        let bytes = state.load().ok()??;
        let record = serde_json::from_slice(&bytes).ok()?;
        report_complete_disk();
        Some(Self {
            state: state.clone(),
            record,
            section: None,
        })
    }

    pub(super) fn path(&self) -> &Path {
        Path::new(&self.record.disk)
    }

    /// See [`BootEntry::carry_out`]. Does nothing if an earlier agent has made the entry.
    pub(super) async fn make_boot_entry(
        &mut self,
        entry: BootEntry,
        permission: WritePermission,
    ) -> Result<()> {
        self.make_boot_entry_by(move |disk, kept, section| {
            entry.carry_out(disk, kept, &permission, section)
        })
        .await
    }

    async fn make_boot_entry_by(
        &mut self,
        make: impl FnOnce(&Path, &[u32], &CriticalSection) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        if self.record.has_entry {
            return Ok(());
        }
        let (record, section) = (self.record.clone(), self.section.take());
        let section = blocking(move || {
            let section = section.unwrap_or_else(critical_section::enter);
            make(Path::new(&record.disk), &record.kept, &section)?;
            Ok(section)
        })
        .await?;
        self.record.has_entry = true;
        self.store();
        drop(section);
        Ok(())
    }

    fn store(&self) {
        if let Ok(bytes) = serde_json::to_vec(&self.record) {
            self.state.store_or_warn(&bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;

    use landfall_report::failure::Failure;
    use landfall_report::status::{self, DiskState};

    use super::*;

    /// A restarted agent reports success and reboots only after it has made the boot
    /// entry. Without the entry the host could not boot its disk.
    #[tokio::test]
    async fn a_boot_entry_that_failed_is_still_to_be_made_after_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateFile::new(directory.path(), "unattended-installation");
        assert!(CompleteDisk::of_earlier_agent(&state).is_none());
        let disk = PathBuf::from(OsString::from_vec(b"/dev/disk/\xff".to_vec()));
        let section = critical_section::enter();
        let mut complete = CompleteDisk::record(state.clone(), disk.clone(), vec![3], section);
        let fails = |_: &Path, _: &[u32], _: &CriticalSection| Err(Failure::deployment("no room"));
        complete.make_boot_entry_by(fails).await.unwrap_err();

        let mut restarted = CompleteDisk::of_earlier_agent(&state).unwrap();
        assert_eq!(status::now().disk_state, Some(DiskState::Complete));
        restarted.make_boot_entry_by(fails).await.unwrap_err();

        let mut restarted = CompleteDisk::of_earlier_agent(&state).unwrap();
        assert_eq!(restarted.path(), disk);
        let succeeds = move |found: &Path, kept: &[u32], _: &CriticalSection| {
            assert_eq!((found, kept), (disk.as_path(), &[3][..]));
            Ok(())
        };
        restarted.make_boot_entry_by(succeeds).await.unwrap();

        // With an entry there is nothing left to do.
        let mut restarted = CompleteDisk::of_earlier_agent(&state).unwrap();
        restarted.make_boot_entry_by(fails).await.unwrap();
    }
}
