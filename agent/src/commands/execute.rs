//! Carries out commands. This module calls the crates that change the disks, the firmware
//! and the installed system.

mod assisted_install;
mod bootloader;
mod checksum;
mod collect_logs;
mod config_drive;
mod create_raid;
mod default_image;
mod erasable;
mod erase_devices;
mod erase_metadata;
mod firmware_traces;
mod first_boot_network;
mod flow;
mod hardware_info;
mod image_server;
mod inject_files;
mod install_coreos;
mod next_boot;
mod prepare_image;
mod raid_config;
mod rescue;
mod root_disk;
mod software_raid;
mod write_image;

pub use collect_logs::logs_for_inspection;
pub use first_boot_network::{FirstBootNetwork, choice_of_this_boot};
pub use next_boot::into_installed_system;

use std::sync::Arc;

use landfall_devices::permission::WritePermission;
use landfall_disk::device::flush;
use landfall_disk::tables::mbr;
use landfall_init::Ending;
use landfall_report::failure::{Failure, Result};
use landfall_report::status::begin_step;
use landfall_sys::freed_memory;
use landfall_sys::memory_use;
use serde_json::{Value, json};

use super::command::Command;
use super::departure::Departure;
use super::dispatch::Executor;
use super::machine::{Machine, blocking};
use super::node::Node;
use super::steps::{self, Step, StepSettings};

/// The status of the agent between two commands.
pub const WAITING: &str = "waiting for commands from Ironic";

impl Machine {
    /// Returns a function that executes commands on this machine.
    pub fn executor(self) -> Executor {
        let machine = Arc::new(self);
        Arc::new(move |command| {
            let machine = Arc::clone(&machine);
            Box::pin(async move {
                begin_step(format!("running {}", command.name()));
                let result = machine.execute(command).await;
                begin_step(WAITING);
                result
            })
        })
    }

    async fn execute(self: Arc<Self>, command: Command) -> Result<Value> {
        match command {
            Command::GetSteps { kind, node } => {
                self.set_node(&node);
                Ok(steps::list(kind, self.step_settings()))
            }
            Command::ExecuteStep {
                kind,
                node,
                step,
                arguments,
                version,
            } => {
                self.set_node(&node);
                self.set_prepared(None);
                steps::check_version(version.as_ref())?;
                let name = steps::name(kind, &step)?;
                let result = self.step(name, &node, Value::Object(arguments)).await;
                freed_memory::give_back();
                report_memory();
                let result = result.map_err(|failure| steps::failed(kind, name, failure))?;
                let word = kind.word();
                Ok(json!({format!("{word}_result"): result, format!("{word}_step"): step}))
            }
            Command::GetPartitionUuids => match self.written_disk() {
                // Ironic's agent also reports only this value for a whole-disk image.
                Some(disk) => {
                    blocking(move || Ok(json!({"root uuid": mbr::signature(&disk)?}))).await
                }
                None => Ok(json!({})),
            },
            Command::InstallBootloader {
                root_uuid,
                target_boot_mode,
                ignore_failure,
            } => {
                let ignore = ignore_failure || *self.settings.params.ignore_bootloader_failure;
                let disk = self.written_disk().ok_or_else(nothing_written)?;
                let root = root_uuid.unwrap_or_default();
                blocking(move || bootloader::install(&disk, &root, &target_boot_mode, ignore)).await
            }
            Command::PrepareImage { info, config_drive } => {
                prepare_image::execute(&self, *info, config_drive).await
            }
            Command::Sync => {
                blocking(flush::sync_disks).await?;
                Ok(Value::Null)
            }
            Command::RunImage => {
                let kexec = *self.settings.params.kexec && self.live.is_none();
                let ending = into_installed_system(kexec, self.written_disk()).await;
                self.end(ending).await
            }
            Command::PowerOff => self.end(Ending::PowerOff).await,
            Command::CollectSystemLogs => {
                let logs = blocking(|| Ok(collect_logs::collect())).await?;
                Ok(json!({"system_logs": logs}))
            }
            Command::FinalizeRescue(password) => {
                WritePermission::by_boot()?;
                if self.live.is_some() {
                    return Err(rescue::refusal_in_live_system());
                }
                blocking(move || rescue::finalize(&password)).await?;
                self.depart(Departure::Rescue)
            }
            Command::Lockdown => {
                WritePermission::by_boot()?;
                self.depart(Departure::Boot(Ending::LockDown))
            }
            Command::GetHardwareInfo => self.hardware_info().await,
            Command::SetNodeInfo { node } => {
                self.set_node(&node);
                Ok(Value::Null)
            }
            Command::StartFlow { tasks } => flow::execute(&self, tasks).await,
        }
    }

    /// Executes one step and returns its result in the form that Ironic stores. A step
    /// works in the same way in cleaning, deployment and service, as with Ironic's agent.
    async fn step(self: &Arc<Self>, name: &str, node: &Node, arguments: Value) -> Result<Value> {
        // Look the step up first: an unknown step must be reported as unknown even on a
        // machine without write permission.
        let step = Step::by_name(name).ok_or_else(|| steps::unknown(name))?;
        let permission = WritePermission::by_boot();
        begin_step(format!("running the step {name}"));
        match step {
            Step::EraseDevicesMetadata => erase_metadata::execute(self, node, permission?).await,
            Step::EraseDevices => erase_devices::execute(self, node, permission?).await,
            Step::EraseDevicesExpress => {
                erase_devices::execute_express(self, node, permission?).await
            }
            Step::ErasePstore => firmware_traces::erase_pstore(permission?).await,
            Step::CleanUefiNvram => {
                firmware_traces::clean_uefi_nvram(&arguments, permission?).await
            }
            Step::DeleteConfiguration => software_raid::execute(self, node, permission?).await,
            Step::CreateConfiguration => create_raid::execute(self, node, permission?).await,
            Step::ApplyConfiguration => {
                create_raid::apply(self, node, &arguments, permission?).await
            }
            Step::WriteImage => write_image::execute(self, node, &arguments, permission).await,
            Step::InjectFiles => inject_files::execute(self, node, &arguments, permission?).await,
            Step::InstallCoreos => install_coreos::execute(self, node, permission?).await,
            Step::StartAssistedInstall => {
                assisted_install::execute(self.live.as_ref(), permission?).await
            }
        }
    }

    fn step_settings(&self) -> StepSettings {
        StepSettings {
            inject_files_priority: *self.settings.params.inject_files_priority,
            live_system: self.live.is_some(),
        }
    }

    /// Requests the end of this boot. The command succeeds at once, because its answer
    /// must be sent before the machine stops.
    async fn end(&self, ending: Ending) -> Result<Value> {
        // The agent must not switch off a developer's machine.
        WritePermission::by_boot()?;
        blocking(flush::sync_disks).await?;
        self.depart(Departure::Boot(ending))
    }

    /// Stops serving commands. Ironic still gets the answer to this command: the server
    /// finishes the requests in progress before it stops.
    fn depart(&self, departure: Departure) -> Result<Value> {
        self.departure.send_replace(Some(departure));
        Ok(Value::Null)
    }

    /// Collects a new inventory and returns it.
    async fn hardware_info(&self) -> Result<Value> {
        let bootif = &self.settings.params.boot_interface;
        let bootif = bootif.as_ref().map(|nic| nic.text.clone());
        let hide_bmc_nics = !*self.settings.params.bmc_nics;
        blocking(move || hardware_info::collect(bootif.as_deref(), hide_bmc_nics)).await
    }
}

fn nothing_written() -> Failure {
    Failure::device_not_found(
        "no image has been written in this boot, so there is no disk to boot from",
    )
}

fn report_memory() {
    if let Some((resident, peak)) = memory_use::resident_and_peak_kib() {
        tracing::info!("agent memory {resident} KiB resident, peak {peak} KiB");
    }
}
