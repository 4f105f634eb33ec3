//! What the commands work on.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::watch;

use super::command::Node;
use super::departure::Departure;
use super::image_info::ImageInfo;
use crate::devices_settled::DevicesSettled;
use crate::failure::{Class, Failure, Result};
use crate::http_client::HttpOptions;
use crate::live_system::LiveSystem;
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
    /// Takes what a command asks to come after it.
    pub departure: watch::Sender<Option<Departure>>,
    /// The services of the live system that this is; `None` in our ramdisk.
    pub live: Option<LiveSystem>,
    /// The node that this machine is, as Ironic has told last.
    pub node: Mutex<Node>,
    /// What `standby.prepare_image` has written last.
    pub prepared: Mutex<Option<PreparedImage>>,
    /// Holds the disk that this boot has written, for the commands that follow;
    /// a file, since they may come to a restarted agent.
    pub written_disk: StateFile,
}

impl Machine {
    /// The node as it was told last, for commands that do not bring it.
    pub(super) fn node(&self) -> Node {
        lock(&self.node).clone()
    }

    /// Remembers the node that a command has brought.
    pub(super) fn set_node(&self, node: &Node) {
        *lock(&self.node) = node.clone();
    }

    /// What is on the disk, if nothing but `prepare_image` has written there.
    pub(super) fn prepared(&self) -> Option<PreparedImage> {
        lock(&self.prepared).clone()
    }

    /// Remembers what is on the disk; `None` once something else may be.
    pub(super) fn set_prepared(&self, prepared: Option<PreparedImage>) {
        *lock(&self.prepared) = prepared;
    }

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

/// An image on the disk.
#[derive(Debug, Clone, PartialEq)]
pub struct PreparedImage {
    /// Where it came from.
    pub(super) info: ImageInfo,
    /// What went beside it.
    pub(super) config_drive: Value,
    /// What was said of it.
    pub(super) result: String,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs blocking work on a thread of its own, so that heartbeats go on.
///
/// # Errors
/// Those of the work, or that it panicked.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| {
            Err(Failure::new(
                Class::CommandExecutionError,
                format!("the thread of this work ended: {error}"),
            ))
        })
}
