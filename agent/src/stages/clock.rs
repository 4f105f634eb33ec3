//! The stage that sets the clock, before any certificate is checked.

use std::time::Duration;

use landfall_report::failure::{Failure, Result};
use landfall_report::status::begin_step;

use super::Boot;

/// How long the agent retries an NTP server that does not answer. This is longer than the
/// drivers, the spanning tree and DHCP of the last NIC take together.
const NTP_LIMIT: Duration = Duration::from_secs(600);

impl Boot {
    /// Sets the clock from the operator's NTP server. If the server does not answer at
    /// first, the agent retries. With `fail_if_clock_not_set` the boot waits for the
    /// server, and fails if the clock still cannot be set. Otherwise the boot continues
    /// while the agent retries.
    pub(super) async fn set_clock(&mut self) -> Result<()> {
        let params = &self.settings.params;
        let Some(server) = params.ntp_server.as_ref().map(|server| server.0.clone()) else {
            return Ok(());
        };
        begin_step("setting the clock");
        let must = *params.fail_if_clock_not_set;
        landfall_network::first_address(&mut self.network).await;
        let Err(fault) = self.clock.set_by_ntp(&server).await else {
            return Ok(());
        };
        let minutes = NTP_LIMIT.as_secs() / 60;
        let again = format!("retrying for {minutes} min, and whenever the network changes");
        if must {
            tracing::warn!(
                "cannot set the clock by NTP: {fault}; fail_if_clock_not_set is given, so the boot waits: {again}"
            );
            let network = &mut self.network;
            let set = self.clock.set_by_ntp_within(NTP_LIMIT, &server, network);
            return set.await.map_err(|fault| {
                Failure::other(format!("cannot set the clock by NTP: {fault}"))
                    .hint("check that this machine reaches the NTP server, or remove fail_if_clock_not_set")
            });
        }
        tracing::warn!("cannot set the clock by NTP: {fault}; the boot continues: {again}");
        let (mut clock, mut network) = (self.clock.clone(), self.network.clone());
        tokio::spawn(async move {
            let set = clock.set_by_ntp_within(NTP_LIMIT, &server, &mut network);
            if let Err(fault) = set.await {
                tracing::warn!(
                    "cannot set the clock by NTP: {fault}; the agent gives up, and the clock keeps its time"
                );
            }
        });
        Ok(())
    }
}
