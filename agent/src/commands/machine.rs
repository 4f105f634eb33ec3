//! What the commands work on.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::watch;

use crate::devices_settled::DevicesSettled;
use crate::early::Ending;
use crate::failure::{Class, Failure, Result};
use crate::http_client::HttpOptions;
use crate::settings::Settings;
use crate::state_file::StateFile;

/// The machine that commands work on, as far as they need to know it.
pub struct Machine {
    /// What this boot was told.
    pub settings: Arc<Settings>,
    /// For images and config drives.
    pub client: reqwest::Client,
    /// What that client was made of.
    pub http: HttpOptions,
    /// Since when the devices of the boot have their drivers.
    pub devices_settled: DevicesSettled,
    /// Takes the ending that a command asks for.
    pub ending: watch::Sender<Option<Ending>>,
    /// Holds the disk that this boot has written, for the commands that follow;
    /// a file, since they may come to a restarted agent.
    pub written_disk: StateFile,
}

impl Machine {
    /// The disk that was written in this boot.
    pub(super) fn written_disk(&self) -> Option<PathBuf> {
        let path = self.written_disk.load().ok()??;
        Some(PathBuf::from(OsString::from_vec(path)))
    }

    /// Remembers the disk that was written.
    pub(super) fn set_written_disk(&self, disk: &Path) {
        self.written_disk.store_or_warn(disk.as_os_str().as_bytes());
    }
}

/// Runs blocking work on a thread of its own, so that heartbeats go on.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| {
            Err(Failure::new(
                Class::CommandExecutionError,
                format!("the thread of this command ended: {error}"),
            ))
        })
}
