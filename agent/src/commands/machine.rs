//! The machine that commands work on.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use landfall_devices::devices_settled::DevicesSettled;
use landfall_http_client::HttpOptions;
use landfall_inventory::disk_arrival::DiskArrival;
use landfall_live_system::LiveSystem;
use landfall_report::failure::{Failure, Result};
use landfall_settings::Settings;
use landfall_sys::state_file::StateFile;
use landfall_sys::system_path::SystemPath;
use serde_json::Value;
use tokio::sync::watch;

use super::departure::Departure;
use super::image_info::ImageInfo;
use super::node::Node;

/// Everything that commands need to know about this machine.
pub struct Machine {
    /// The settings of this boot.
    pub settings: Arc<Settings>,
    /// Downloads images and config drives.
    pub client: reqwest::Client,
    /// The options from which `client` was built.
    pub http: HttpOptions,
    /// Says when the devices that are present at boot have their drivers.
    pub devices_settled: DevicesSettled,
    /// Sends to the server what to do after the last command.
    pub departure: watch::Sender<Option<Departure>>,
    /// The services of the live system, or `None` in our ramdisk.
    pub live: Option<LiveSystem>,
    /// The node of this machine as Ironic sent it last.
    pub node: Mutex<Node>,
    /// The image that `standby.prepare_image` wrote last.
    pub prepared: Mutex<Option<PreparedImage>>,
    /// The path of the disk that was written in this boot, for later commands. It is kept
    /// in a file, because the agent may be restarted before those commands.
    pub written_disk: StateFile,
}

impl Machine {
    /// Waits until the devices have their drivers. Returns a value with which the caller
    /// can wait for the disks.
    pub(super) async fn disk_arrival(&self) -> DiskArrival {
        let params = &self.settings.params;
        DiskArrival::begin(
            self.devices_settled.clone(),
            *params.disk_wait_attempts,
            *params.disk_wait_delay,
        )
        .await
    }

    /// Waits until no further disk is expected or the time is over, because a step that
    /// works on all disks must not miss disks that appear late.
    ///
    /// # Errors
    /// If the kernel's events cannot be received.
    pub(super) async fn all_disks(&self) -> Result<()> {
        let arrival = self.disk_arrival().await.of_all_disks();
        blocking(move || {
            let waited = arrival.wait(&SystemPath::live(), |_| true);
            waited
                .map(drop)
                .map_err(|error| Failure::other(format!("cannot wait for a disk: {error}")))
        })
        .await
    }

    /// The node as Ironic sent it last, for commands that do not contain it.
    pub(super) fn node(&self) -> Node {
        lock(&self.node).clone()
    }

    pub(super) fn set_node(&self, node: &Node) {
        *lock(&self.node) = node.clone();
    }

    /// The image on the disk. `None` if `prepare_image` has not written it, and after any
    /// later step, because the step may have written other data.
    pub(super) fn prepared(&self) -> Option<PreparedImage> {
        lock(&self.prepared).clone()
    }

    /// Sets the image on the disk. `None` means that other data may have been
    /// written.
    pub(super) fn set_prepared(&self, prepared: Option<PreparedImage>) {
        *lock(&self.prepared) = prepared;
    }

    pub(super) fn written_disk(&self) -> Option<PathBuf> {
        let path = self.written_disk.load().ok()??;
        Some(PathBuf::from(OsString::from_vec(path)))
    }

    pub(super) fn set_written_disk(&self, disk: &Path) {
        self.written_disk.store_or_warn(disk.as_os_str().as_bytes());
    }
}

/// An image that has been written to the disk.
#[derive(Debug, Clone, PartialEq)]
pub struct PreparedImage {
    pub(super) info: ImageInfo,
    /// The config drive that was written with it.
    pub(super) config_drive: Value,
    /// The result of the command that wrote the image, as Ironic received it.
    pub(super) result: String,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs blocking work on a separate thread, so that heartbeats continue.
///
/// # Errors
/// If the work fails or panics.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| {
            Err(Failure::other(format!(
                "a worker thread of the agent ended: {error}"
            )))
        })
}
