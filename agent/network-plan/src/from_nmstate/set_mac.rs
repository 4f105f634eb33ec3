//! Warns about a MAC address that is probably meant to identify a NIC.
//!
//! Without `identifier: mac-address`, the name of the entry identifies the NIC, and
//! nmstate sets the address of `mac-address` on it (`cloned-mac-address` of its profile).
//! Many documents set the address that the NIC already has. If the name is unlikely for a
//! NIC, the entry probably matches no NIC.

use landfall_boot_params::MacAddr;

use super::described::{Described, State};
use super::fields::Fields;
use crate::plan::InterfaceKind;

/// The characters after `en` in the names that systemd gives to Ethernet cards. They
/// depend on the place of the card (systemd.net-naming-scheme(7)).
const PLACES: &str = "abcdopsuvxPX";

/// Adds the warning if the entry is a NIC that is up and has a MAC address and a name
/// that is unlikely for a NIC.
pub(super) fn check(mac: Option<MacAddr>, fields: &Fields, described: &Described) {
    let is_nic = described.interface.kind == InterfaceKind::Ethernet;
    let is_set = mac.is_some() && described.state == State::Up;
    let name = &described.name;
    if is_nic && is_set && !name.is_empty() && !is_likely_name(name) {
        fields.warn("mac-address", warning(name));
    }
}

/// The warning, without the path of the key.
pub(crate) fn warning(name: &str) -> String {
    format!(
        "sets the MAC address of a NIC that is named {name}, and does not find the NIC that has it -- add identifier: mac-address, unless a NIC has this name"
    )
}

/// True if the kernel, systemd or biosdevname may give this name to a NIC.
fn is_likely_name(name: &str) -> bool {
    let begins_with_digit = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
    let has_digit = name.contains(|c: char| c.is_ascii_digit());
    let number_after = |start: &str| name.strip_prefix(start).is_some_and(begins_with_digit);
    let of_systemd = |rest: &str| rest.starts_with(|c: char| PLACES.contains(c));
    let of_slot = || {
        let port = name.strip_prefix('p')?.split_once('p');
        port.map(|(slot, port)| begins_with_digit(slot) && begins_with_digit(port))
    };
    number_after("eth")
        || number_after("em")
        || number_after("usb")
        || has_digit && name.strip_prefix("en").is_some_and(of_systemd)
        || of_slot() == Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::NetworkPlan;

    #[test]
    fn names_that_a_nic_may_have() {
        for (name, expected) in [
            ("eth0", true),
            ("eno1", true),
            ("ens3f0np0", true),
            ("enp2s0", true),
            ("enP5p1s0", true),
            ("enx525400000001", true),
            ("end0", true),
            ("em1", true),
            ("p1p2", true),
            ("port1", false),
            ("nic0", false),
            ("uplink", false),
            ("eth", false),
            ("p1", false),
            ("engine", false),
        ] {
            assert_eq!(is_likely_name(name), expected, "{name}");
        }
    }

    #[test]
    fn a_mac_address_alone_does_not_identify_a_nic() {
        let warning = format!("interfaces[0].mac-address: {}", warning("port1"));
        for (name, more, expected) in [
            ("port1", "", vec![&*warning]),
            ("port1", ", identifier: mac-address", vec![]),
            ("port1", ", state: absent", vec![]),
            ("eno1", "", vec![]),
        ] {
            let text = format!(
                "interfaces: [{{name: {name}, type: ethernet, mac-address: '52:54:00:00:00:01'{more}}}]"
            );
            let plan = NetworkPlan::from_nmstate(&text).unwrap();
            assert_eq!(plan.warnings, expected, "{text}");
        }
    }
}
