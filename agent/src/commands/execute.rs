//! Does what a command says: the switchboard to everything below.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::watch;

use super::command::Command;
use super::dispatch::Executor;
use super::{deploy, power, steps};
use crate::early::Ending;
use crate::failure::{Class, Failure, Result};
use crate::memory_use;
use crate::settings::Settings;
use crate::state_file::StateFile;

/// The machine that commands work on, as far as they need to know it.
pub struct Machine {
    /// What this boot was told.
    pub settings: Arc<Settings>,
    /// For images and config drives.
    pub client: reqwest::Client,
    /// True once the devices of the boot have their drivers.
    pub devices_settled: watch::Receiver<bool>,
    /// Takes the ending that a command asks for.
    pub ending: watch::Sender<Option<Ending>>,
    /// Holds the disk that this boot has written, for the commands that follow;
    /// a file, since they may come to a restarted agent.
    pub written_disk: StateFile,
}

impl Machine {
    /// Executes commands on this machine.
    pub fn executor(self) -> Executor {
        let machine = Arc::new(self);
        Arc::new(move |command| {
            let machine = Arc::clone(&machine);
            Box::pin(async move { machine.execute(command).await })
        })
    }

    async fn execute(self: Arc<Self>, command: Command) -> Result<Value> {
        match command {
            Command::GetDeploySteps { .. } => Ok(steps::deploy_steps()),
            Command::ExecuteDeployStep {
                node,
                step,
                version,
            } => {
                steps::check_version(version.as_ref())?;
                let result = deploy::execute_step(&self, &node, &step).await;
                report_memory();
                Ok(json!({"deploy_result": result?, "deploy_step": step}))
            }
            Command::GetPartitionUuids => match self.written_disk() {
                Some(disk) => blocking(move || deploy::partition_uuids(&disk)).await,
                None => Ok(json!({})),
            },
            Command::InstallBootloader {
                target_boot_mode,
                ignore_failure,
            } => {
                let ignore = ignore_failure || *self.settings.params.ignore_bootloader_failure;
                let disk = self.written_disk().ok_or_else(nothing_written)?;
                blocking(move || deploy::install_bootloader(&disk, &target_boot_mode, ignore)).await
            }
            Command::Sync => {
                blocking(power::sync_disks).await?;
                Ok(Value::Null)
            }
            Command::RunImage => self.end(Ending::Reboot).await,
            Command::PowerOff => self.end(Ending::PowerOff).await,
        }
    }

    /// Asks for the end of this boot. The command has succeeded with that: the
    /// answer goes out before the machine does.
    async fn end(&self, ending: Ending) -> Result<Value> {
        blocking(power::sync_disks).await?;
        self.ending.send_replace(Some(ending));
        Ok(Value::Null)
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

fn nothing_written() -> Failure {
    Failure::new(
        Class::DeviceNotFound,
        "no image has been written in this boot, so there is no disk to boot from",
    )
}

fn report_memory() {
    if let Some((resident, peak)) = memory_use::resident_and_peak_kib() {
        tracing::info!("agent memory {resident} KiB resident, peak {peak} KiB");
    }
}
