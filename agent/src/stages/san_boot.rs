//! The stage that connects the disks in a storage network that the firmware's tables
//! describe. The machine boots from these disks, or will boot from them.
//!
//! In a live system the programs of that system do this.

use std::sync::Arc;
use std::time::Duration;

use landfall_boot_params::NetArgs;
use landfall_nvme_boot::{FabricsDevice, Pace};
use landfall_report::status::begin_step;
use landfall_sys::system_path::SystemPath;
use tokio::sync::oneshot;

use super::{Boot, warn_all};

const PACE: Pace = Pace {
    first: Duration::from_secs(1),
    longest: Duration::from_secs(15),
    // A switch that first checks its topology (spanning tree, 30 s), and DHCP after it,
    // take less time than this in total.
    wait: Duration::from_secs(60),
    wait_for_paths: Duration::from_secs(10),
    // After the boot has continued, a disk may still appear in time for an inventory or
    // a step that waits for the disk. The storage has this time to start after a power
    // cut of the whole room.
    limit: Duration::from_secs(600),
};

/// Adds to the arguments the NICs over which the firmware has booted, with the network
/// settings in the firmware's tables. Reports the faults of the tables.
pub(super) fn add_nics(args: &mut NetArgs, machine: &SystemPath) {
    let (tables, faults) = landfall_nvme_boot::read_tables(&machine.join("sys"));
    if tables.is_empty() && faults.is_empty() {
        return;
    }
    if args.ignores_nbft {
        tracing::info!(
            "rd.nvmf.nonbft or rd.nonvmf is given, so the firmware's tables of an NVMe boot are ignored"
        );
        return;
    }
    warn_all(&faults);
    args.firmware.nvme = landfall_nvme_boot::firmware_nics(&tables);
}

impl Boot {
    /// Connects the disks that the tables name. The boot continues if a storage does not
    /// answer.
    pub(super) async fn connect_storage_networks(&self) {
        if self.live.is_some() {
            return;
        }
        self.connect_nvme().await;
        self.log_in_to_boot_targets().await;
    }

    async fn connect_nvme(&self) {
        if NetArgs::from_command_line(&self.settings.command_line).ignores_nbft {
            return;
        }
        let (tables, _) = landfall_nvme_boot::read_tables(&SystemPath::live().join("sys"));
        let (connections, faults) = landfall_nvme_boot::connections(&tables);
        warn_all(&faults);
        if connections.is_empty() {
            return;
        }
        begin_step("connecting the disks of the storage network");
        if !FabricsDevice::load_driver() {
            for connection in connections {
                tracing::error!(
                    "{connection} is not connected: this ramdisk has no driver for NVMe/TCP -- build it with a kernel and a module set that have nvme-tcp"
                );
            }
            return;
        }
        let (go_on, may_go_on) = oneshot::channel::<()>();
        let attempts = landfall_nvme_boot::connect_all(
            connections,
            self.network.clone(),
            Arc::new(FabricsDevice),
            PACE,
            || drop(go_on),
        );
        tokio::spawn(attempts);
        // Returns when the attempts have ended or take too long, because `go_on` is
        // dropped then.
        let _ = may_go_on.await;
    }
}
