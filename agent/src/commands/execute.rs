//! Does what a command says: the switchboard to everything below.

use std::sync::Arc;

use serde_json::{Value, json};

use super::command::Command;
use super::dispatch::Executor;
use super::machine::{Machine, blocking};
use super::{deploy, power, steps};
use crate::early::Ending;
use crate::failure::{Class, Failure, Result};
use crate::memory_use;

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
