//! Waits for slow hardware: for the time that an operator has set, and for the disks.
//! Also reports the devices that have no driver or no firmware.

use std::collections::BTreeSet;
use std::time::Duration;

use landfall_boot_params::BootParams;
use landfall_devices::devices_settled::DevicesSettled;
use landfall_devices::driver_faults;
use landfall_inventory::disk_arrival::DiskArrival;
use landfall_report::status::begin_step;
use landfall_sys::system_path::SystemPath;

use super::Boot;
use crate::commands;

/// How long the first look waits for the drivers of the devices.
const SETTLE_LIMIT: Duration = Duration::from_secs(30);

/// The pauses before each check of the devices. Later checks are needed because some
/// drivers request their firmware only when the network switches the NIC on, and some try
/// other files for seconds.
const LOOKS: [Duration; 3] = [
    Duration::ZERO,
    Duration::from_secs(15),
    Duration::from_secs(60),
];

/// Reports each device without a driver, and each driver that did not find its firmware.
/// It reports each of them once, in the background.
pub(super) fn report_driver_faults(mut settled: DevicesSettled) {
    tokio::spawn(async move {
        // Without the signal, the devices are looked at after the limit.
        let _ = tokio::time::timeout(SETTLE_LIMIT, settled.wait_for(Option::is_some)).await;
        let mut reported = BTreeSet::new();
        for pause in LOOKS {
            tokio::time::sleep(pause).await;
            let look = || Ok(driver_faults::all(&SystemPath::live()));
            for fault in commands::blocking(look).await.unwrap_or_default() {
                // The network may be switching the NIC on at this moment, so the driver
                // may still find its firmware.
                if pause.is_zero() && fault.may_pass() {
                    continue;
                }
                let line = format!("{fault} -- {}", fault.remedy());
                if !reported.insert(line.clone()) {
                    continue;
                }
                match fault.is_serious() {
                    true => tracing::warn!("{line}"),
                    false => tracing::info!("{line}"),
                }
            }
        }
    });
}

/// Waits for slow controllers as long as the operator has set.
pub(super) async fn wait_for_hardware(params: &BootParams) {
    let delay = *params.hardware_initialization_delay;
    if !delay.is_zero() {
        let seconds = delay.as_secs();
        begin_step("waiting for the hardware");
        tracing::info!(
            "waiting {seconds} s for the hardware, as ipa-hardware-initialization-delay requires"
        );
        tokio::time::sleep(delay).await;
    }
}

impl Boot {
    /// Waits until the devices have their drivers. The result waits for the disks.
    pub(super) async fn disk_arrival(&self) -> DiskArrival {
        let params = &self.settings.params;
        DiskArrival::begin(
            self.devices_settled.clone(),
            *params.disk_wait_attempts,
            *params.disk_wait_delay,
        )
        .await
    }
}

#[cfg(test)]
mod tests {
    use landfall_boot_params::CommandLine;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn hardware_gets_the_time_that_was_set_for_it() {
        for (line, seconds) in [("", 0), ("ipa-hardware-initialization-delay=45", 45)] {
            let params = BootParams::from_command_line(&CommandLine::parse(line));
            let began = tokio::time::Instant::now();
            wait_for_hardware(&params).await;
            assert_eq!(began.elapsed(), Duration::from_secs(seconds), "{line}");
        }
    }
}
