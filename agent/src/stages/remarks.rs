//! Collects faults of this machine that were found during the boot. While the agent
//! serves commands or has nothing left to do, it repeats them every ten minutes, so that
//! the console still shows them after hours.

use std::time::Duration;

use landfall_init::Ending;
use landfall_report::failure::Result;

use super::Boot;

/// How long to wait before the first repetition. In this time the first lines of a stage
/// are printed.
const STAGE_BEGINS: Duration = Duration::from_secs(5);

/// The pause between two repetitions. Because the agent repeats the faults, the console
/// still shows them after hours.
pub(super) const REPEAT_INTERVAL: Duration = Duration::from_secs(600);

impl Boot {
    /// Reports that no service can send commands to this agent, and leaves the machine on
    /// for the operator.
    pub(super) async fn nothing_to_serve(&self) -> Result<Ending> {
        let params = &self.settings.params;
        if params.inspection_callback_url.is_some() {
            // This is a normal end: for an inspection that Ironic manages, Ironic sets
            // only this URL.
            tracing::info!(
                "nothing else to do without ipa-api-url: waiting for Ironic to switch this machine off"
            );
        } else if params.api_url.is_none() {
            // The warning about a URL that cannot be used has been logged already.
            tracing::error!(
                "no provisioning service is configured -- add the kernel argument ipa-api-url=http://IRONIC:6385, or coreos.inst.install_dev=DISK to install without one"
            );
        }
        repeat_remarks(&self.remarks).await
    }

    /// Logs a warning, and stores it to be repeated.
    pub(super) fn remark(&mut self, text: String) {
        tracing::warn!("{text}");
        self.remarks.push(text);
    }
}

/// Repeats the faults of this machine forever. It starts after the first lines of the
/// current stage, so that the faults are the last lines on the screen.
pub(super) async fn repeat_remarks(remarks: &[String]) -> ! {
    let mut pause = STAGE_BEGINS;
    loop {
        tokio::time::sleep(pause).await;
        for remark in remarks {
            tracing::warn!("{remark}");
        }
        pause = REPEAT_INTERVAL;
    }
}
