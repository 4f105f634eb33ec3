//! Without instructions, the NIC that the host was booted over comes first:
//! the others are left alone until it has failed. A host may have NICs in
//! networks where an unknown DHCP client is not welcome.

use std::time::Duration;

use landfall_network_plan::Source;
use tokio::time::Instant;

use super::configurator::Configurator;
use super::timers::Timer;

/// How long the boot NIC may take to reach the service: what NetworkManager
/// gives an address that it would like to have.
const HEAD_START: Duration = Duration::from_secs(20);

impl Configurator {
    /// Begins the wait if there is a boot NIC to wait for.
    pub(super) fn let_others_wait(&mut self) {
        let choice = &self.setup.choice;
        let named = choice.plan.interfaces.iter().any(|i| !i.matches.is_any());
        self.others_wait = self.setup.boot_nic_first && choice.source == Source::Default && named;
        if self.others_wait {
            self.timers
                .start(Timer::Others, Instant::now() + HEAD_START);
        }
    }

    /// Whether a NIC may not become this interface of the plan yet.
    pub(super) fn has_to_wait(&self, interface: usize) -> bool {
        self.others_wait && self.plan().interfaces[interface].matches.is_any()
    }

    /// The service has been reached: the others are not needed, unless the boot
    /// NIC fails later.
    pub(super) fn ask_all_others_no_more(&mut self) {
        self.timers.cancel(Timer::Others);
    }

    /// The boot NIC has had its time, or has lost its carrier.
    pub(super) async fn let_others_begin(&mut self, why: &str) {
        if !std::mem::take(&mut self.others_wait) {
            return;
        }
        let idle = self.nics.iter().filter(|(_, nic)| nic.interface.is_none());
        let idle: Vec<u32> = idle.map(|(index, _)| *index).collect();
        if !idle.is_empty() {
            tracing::warn!("{why}: the other NICs are tried as well");
        }
        for index in idle {
            self.prepare(index).await;
            if self.nics.get(&index).is_some_and(|nic| nic.link.carrier) {
                self.configure(index).await;
            }
        }
    }
}
