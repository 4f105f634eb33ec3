//! Retries the setup of links that are not as planned: switched off, or not in their bond
//! or bridge.
//!
//! A driver may refuse `up` once, because it waits for its firmware or resets the card. A
//! controller may refuse a port that another device still holds. No event reports when
//! the kernel would accept the request, so a timer retries until the link is as planned.

use tokio::time::Instant;

use super::configurator::Configurator;
use super::timers::Timer;

impl Configurator {
    /// Starts the retry timer of a link that is not as planned, unless the timer is
    /// running. Cancels the timer of a link that is as planned.
    pub(super) fn watch_link(&mut self, index: u32) {
        let as_planned = self.is_as_planned(index);
        let Some(nic) = self.nics.get_mut(&index) else {
            return;
        };
        let timer = Timer::Link(index);
        if as_planned {
            nic.retries.reset();
            self.timers.cancel(timer);
        } else if !self.timers.is_running(timer) {
            let at = Instant::now() + nic.retries.pause();
            self.timers.start(timer, at);
        }
    }

    pub(super) async fn retry_link(&mut self, index: u32) {
        let Some(nic) = self.nics.get(&index) else {
            return;
        };
        if self.is_as_planned(index) {
            return;
        }
        tracing::debug!("{} is not as planned, trying again", nic.title());
        self.prepare(index).await;
    }

    fn is_as_planned(&self, index: u32) -> bool {
        let Some(nic) = self.nics.get(&index) else {
            return true;
        };
        // The agent switches on every NIC that the plan does not mention; see `prepare`.
        let Some(interface) = nic.interface_of(self.plan()) else {
            return nic.link.up;
        };
        if interface.down {
            return true;
        }
        match &interface.controller {
            Some(name) => match self.index_of(name) {
                Some(controller) if self.awaits_first_port(controller) => true,
                Some(controller) => nic.link.up && nic.link.controller == Some(controller),
                // Leave the port off until its controller exists.
                None => true,
            },
            None => nic.link.up,
        }
    }
}
