//! What to say when something that was expected has not happened.

use landfall_network_plan::Interface;

use super::configurator::Configurator;
use super::timers::Timer;
use crate::network::state::NicState;

impl Configurator {
    pub(super) async fn on_timer(&mut self, timer: Timer) {
        match timer {
            Timer::Others => {
                self.let_others_begin("the service is not reached over the boot NIC")
                    .await;
            }
            Timer::Devices => self.tell_missing_devices(),
            Timer::Online => self.tell_offline(),
            Timer::Carrier(index) => {
                if self.tell_missing_carrier(index) {
                    self.let_others_begin("the boot NIC has no carrier").await;
                }
            }
            Timer::Advertisement(index) => self.tell_missing_router(index),
            Timer::AdvertisedDns(index) => self.expire_advertised_dns(index),
        }
    }

    fn tell_missing_devices(&self) {
        if self.nics.is_empty() {
            tracing::warn!("no network device found; waiting -- is its driver in the ramdisk?");
            return;
        }
        let found: Vec<_> = { self.nics.values() }
            .map(|nic| nic.link.all_names())
            .collect();
        let found = found.join("; ");
        for (index, interface) in self.setup.choice.plan.interfaces.iter().enumerate() {
            let is_there = self.nics.values().any(|nic| nic.interface == Some(index));
            if !is_there && !interface.multi {
                tracing::warn!("{}", missing(interface, &found));
            }
        }
    }

    /// Everything has been said before; this says it at a glance.
    fn tell_offline(&self) {
        let state = self.current_state();
        if state.is_online() || state.nics.is_empty() {
            return;
        }
        tracing::warn!("no interface has an address yet; still trying:");
        for nic in &state.nics {
            tracing::warn!("{} ({}) {}", nic.name, nic.mac, condition(nic));
        }
    }

    /// A port without a cable is worth a warning only where the plan means it.
    ///
    /// Returns true if it does.
    fn tell_missing_carrier(&mut self, index: u32) -> bool {
        let Some(nic) = self.nics.get_mut(&index).filter(|nic| !nic.link.carrier) else {
            return false;
        };
        nic.missed_carrier = true;
        let interface = nic.interface.map(|i| &self.setup.choice.plan.interfaces[i]);
        if interface.is_some_and(|interface| !interface.matches.is_any()) {
            let trouble = format!("{} no carrier", nic.title());
            tracing::warn!("{trouble}; waiting -- check cable and switch port");
            nic.trouble = Some(trouble);
            return true;
        }
        tracing::info!("{} no carrier", nic.title());
        false
    }

    fn tell_missing_router(&mut self, index: u32) {
        let Some(nic) = self.nics.get_mut(&index) else {
            return;
        };
        let heard = nic.ipv6.has_router() || nic.addresses.iter().any(|address| address.advertised);
        if nic.link.carrier && !heard {
            let trouble = format!("{} IPv6: no router advertisement", nic.link.name);
            tracing::warn!("{trouble}, still waiting; other interfaces are not held up");
            nic.trouble = Some(trouble);
        }
    }
}

fn condition(nic: &NicState) -> String {
    match (&nic.trouble, nic.carrier) {
        (Some(trouble), _) => format!("-- {trouble}"),
        (None, true) => "has a carrier and no address".to_owned(),
        (None, false) => "has no carrier".to_owned(),
    }
}

fn missing(interface: &Interface, found: &str) -> String {
    if interface.matches.is_any() {
        format!("no NIC has a carrier yet; the first that has one is configured (found: {found})")
    } else {
        format!(
            "no device for {} yet; waiting for it (found: {found})",
            interface.matches
        )
    }
}
