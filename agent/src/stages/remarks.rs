//! Faults of this machine that were found on the way. They are repeated while
//! nothing else happens, so that the screen shows them last.

use std::time::Duration;

use landfall_init::Ending;
use landfall_report::failure::Result;

use super::Boot;

/// After this time the first lines of a stage are on the screen.
const STAGE_BEGINS: Duration = Duration::from_secs(5);

/// The reason is repeated at this interval, so that the console still shows it
/// after hours.
pub(super) const SAID_AGAIN: Duration = Duration::from_secs(600);

impl Boot {
    /// There is no service to take commands from. Reports this, and leaves the
    /// machine on for the operator.
    pub(super) async fn nothing_to_serve(&self) -> Result<Ending> {
        let params = &self.settings.params;
        if params.inspection_callback_url.is_some() {
            // Ironic sets no other URL for an inspection that it manages.
            tracing::info!(
                "nothing else to do without ipa-api-url: waiting for Ironic to switch this machine off"
            );
        } else if params.api_url.is_none() {
            // A URL that cannot be used has been reported already.
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

/// Repeats forever what is wrong with this machine. It starts after the first lines
/// of the current stage, so that the reason is the last line on the screen.
pub(super) async fn repeat_remarks(remarks: &[String]) -> ! {
    let mut pause = STAGE_BEGINS;
    loop {
        tokio::time::sleep(pause).await;
        for remark in remarks {
            tracing::warn!("{remark}");
        }
        pause = SAID_AGAIN;
    }
}
