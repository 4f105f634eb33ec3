//! Reports expected events that have not happened.

use std::time::Duration;

use landfall_devices::driver_faults::{self, Purpose};
use landfall_network_plan::{Interface, InterfaceKind};
use landfall_sys::system_path::SystemPath;
use tokio::time::Instant;

use super::configurator::Configurator;
use super::timers::Timer;
use crate::links::Link;
use crate::state::NicState;

/// Time between the first and the last reminder about missing devices. The first reminder
/// comes after 10 s, so the last one comes after 60 s, the time that NetworkManager waits
/// for a named device.
const DEVICES_LIMIT: Duration = Duration::from_secs(50);

impl Configurator {
    pub(super) async fn on_timer(&mut self, timer: Timer) {
        match timer {
            Timer::Devices => {
                self.report_missing_devices();
                self.join_waiting_ports().await;
            }
            Timer::Online => self.report_offline(),
            Timer::Carrier(index) => self.report_missing_carrier(index),
            Timer::Advertisement(index) => self.report_missing_router(index),
            Timer::AdvertisedDns(index) => self.expire_advertised_dns(index),
            Timer::Duplicate(index) => self.ask_again_for_static6(index).await,
            Timer::Link(index) => self.retry_link(index).await,
        }
    }

    /// Runs twice: early, for an operator at the console, and again when the wait for
    /// devices ends.
    fn report_missing_devices(&mut self) {
        let is_last = std::mem::replace(&mut self.missing_devices_reported, true);
        if !is_last {
            let at = Instant::now() + DEVICES_LIMIT;
            self.timers.start(Timer::Devices, at);
        }
        if self.nics.is_empty() {
            let why = driver_faults::why_none(&SystemPath::live(), Purpose::Network);
            tracing::warn!("no network device found, the agent waits for one. Reason: {why}");
            self.no_nic = Some(why.to_string());
            return;
        }
        self.no_nic = None;
        let interfaces = self.plan().interfaces.iter().enumerate();
        let missing: Vec<_> = interfaces
            .filter(|(_, interface)| !interface.multi && is_device(interface))
            .filter(|(index, _)| self.nics.values().all(|nic| nic.interface != Some(*index)))
            .map(|(_, interface)| missing(interface, is_last))
            .collect();
        if missing.is_empty() {
            return;
        }
        for text in missing {
            tracing::warn!("{text}");
        }
        for nic in self.nics.values() {
            tracing::warn!("found NIC {}", names_and_macs(&nic.link));
        }
    }

    /// If the machine has no address, logs the state of each NIC. The faults in this
    /// summary have been logged before.
    fn report_offline(&self) {
        let state = self.current_state();
        if state.is_online() || state.nics.is_empty() {
            return;
        }
        tracing::warn!("no interface has an address yet; still trying:");
        for nic in &state.nics {
            tracing::warn!("{} ({}) {}", nic.name, nic.mac, condition(nic));
        }
    }

    /// Reports a NIC without a carrier. Logs a warning if the plan names the NIC, if
    /// firmware of the NIC is missing, or if a bond or bridge has no port. Otherwise logs
    /// the missing carrier at level info.
    fn report_missing_carrier(&mut self, index: u32) {
        let without_ports = self.without_ports(index);
        let Some(nic) = self.nics.get_mut(&index).filter(|nic| !nic.link.carrier) else {
            return;
        };
        nic.missed_carrier = true;
        if let Some(name) = without_ports {
            let trouble = format!("{} no carrier: {name} has no port", nic.title());
            tracing::warn!("{trouble} -- correct the ports of {name} in the network configuration");
            nic.trouble = Some(trouble);
            return;
        }
        let interface = nic.interface_of(&self.setup.choice.plan);
        let is_meant = interface.is_some_and(|interface| !interface.matches.is_any());
        if let Some(file) = driver_faults::missing_firmware_of(&nic.link.name) {
            let trouble = format!("{} no carrier, firmware {file} is missing", nic.title());
            tracing::warn!("{trouble} -- build the ramdisk with --firmware debian");
            nic.trouble = Some(trouble);
            return;
        }
        if is_meant {
            let trouble = format!("{} no carrier", nic.title());
            tracing::warn!("{trouble}; waiting -- check cable and switch port");
            nic.trouble = Some(trouble);
        } else {
            tracing::info!("{} no carrier", nic.title());
        }
    }

    /// The name of the bond, bridge, team or VRF that has no port because the machine has
    /// none of the NICs that the plan gives it. It is this device, or a device below it.
    /// `None` if there is none.
    fn without_ports(&self, index: u32) -> Option<String> {
        let name = &self.nics.get(&index)?.link.name;
        let present = self.present_nics();
        self.plan().without_ports(name, &present).map(str::to_owned)
    }

    fn report_missing_router(&mut self, index: u32) {
        let Some(nic) = self.nics.get_mut(&index) else {
            return;
        };
        let has_router =
            nic.ipv6.has_router() || nic.addresses.iter().any(|address| address.advertised);
        if nic.link.carrier && !has_router {
            let trouble = format!("{} IPv6: no router advertisement", nic.link.name);
            tracing::warn!("{trouble}, still waiting; other interfaces are not delayed");
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

/// Whether the agent waits for the device to appear. It creates bonds, bridges
/// and VLANs itself, and reports a failure at once.
fn is_device(interface: &Interface) -> bool {
    interface.kind == InterfaceKind::Ethernet
}

fn missing(interface: &Interface, is_last: bool) -> String {
    let matches = &interface.matches;
    if matches.is_any() {
        return "no NIC has a carrier yet; the agent configures the first NIC that gets one"
            .to_owned();
    }
    match is_last {
        false => format!(
            "{matches} has not appeared yet: the agent waits for it; it has found these NICs:"
        ),
        true => format!(
            "{matches} is missing: the agent continues without it, and configures it if it appears -- compare its name and MAC with these NICs:"
        ),
    }
}

/// All names and addresses of a NIC by which a plan can match it: `enp2s0 =
/// eno1 = eth0, 52:54:00:00:00:01, permanent MAC 52:54:00:00:00:02`
fn names_and_macs(link: &Link) -> String {
    let mut text = format!("{}, {}", link.names().join(" = "), link.mac);
    if let Some(permanent) = link.permanent_mac.filter(|mac| *mac != link.mac) {
        text.push_str(&format!(", permanent MAC {permanent}"));
    }
    text
}
