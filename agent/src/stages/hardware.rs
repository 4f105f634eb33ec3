//! The waits for slow hardware: the pause that an operator has set, and the arrival of
//! the disks.

use landfall_boot_params::BootParams;
use landfall_inventory::disk_arrival::DiskArrival;
use landfall_report::status::begin_step;

use super::Boot;

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
    use std::time::Duration;

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
