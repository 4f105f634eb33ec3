//! Reads `sr-iov` of a NIC. Only the installed system applies these settings.

use landfall_boot_params::MacAddr;

use super::described::Described;
use super::fields::Fields;

const KEYS: &[&str] = &["drivers-autoprobe", "total-vfs", "max-vfs", "vfs"];
const FUNCTION_KEYS: &[&str] = &[
    "id",
    "iface-name",
    "mac-address",
    "spoof-check",
    "trust",
    "min-tx-rate",
    "max-tx-rate",
    "vlan-id",
    "qos",
    "vlan-proto",
];
/// The largest number of virtual functions in NM_SETTING_SRIOV. No NIC has so many.
const MOST_FUNCTIONS: u32 = 4096;

pub(super) fn read(ethernet: &Fields, described: &mut Described) {
    let Some(fields) = ethernet.child("sr-iov", KEYS) else {
        return;
    };
    let autoprobe = fields.flag("drivers-autoprobe");
    let total = fields.unsigned("total-vfs", MOST_FUNCTIONS);
    let _ = fields.unsigned("max-vfs", u32::MAX);
    let items = fields.items("vfs", FUNCTION_KEYS);
    let mut functions: Vec<_> = items.filter_map(|item| function(&item)).collect();
    if total == Some(0) {
        return;
    }
    let settings = &mut described.interface.profile.settings;
    settings.entry("sriov").or_default();
    let mut total = total;
    if let Some(last) = functions.iter().map(|(id, _)| *id).max() {
        let all = *total.get_or_insert(last.saturating_add(1));
        functions.retain(|(id, _)| *id < all);
    }
    if let Some(on) = autoprobe {
        described.set("sriov", "autoprobe-drivers", u8::from(on));
    }
    if let Some(total) = total {
        described.set("sriov", "total-vfs", total);
    }
    for (id, text) in functions {
        described.set("sriov", &format!("vf.{id}"), text);
    }
    fields.warn(
        "total-vfs",
        "the ramdisk makes no virtual functions; the installed system does",
    );
}

/// The number of a virtual function, and its settings as the value of the key `vf.N`.
fn function(fields: &Fields) -> Option<(u32, String)> {
    if !fields.has("id") {
        fields.fault("id", "expected the number of the function, found nothing");
    }
    let mut words = Vec::new();
    let _ = fields.text("iface-name");
    let mac: Option<MacAddr> = fields.parsed("mac-address", "a hardware address");
    words.extend(mac.map(|mac| format!("mac={}", mac.to_string().to_uppercase())));
    for key in ["spoof-check", "trust"] {
        words.extend(fields.flag(key).map(|on| format!("{key}={on}")));
    }
    for key in ["min-tx-rate", "max-tx-rate"] {
        let rate = fields.unsigned(key, u32::MAX);
        words.extend(rate.map(|rate| format!("{key}={rate}")));
    }
    let vlan = fields.unsigned("vlan-id", u32::MAX);
    let qos = fields.unsigned("qos", u32::MAX).unwrap_or(0);
    let protocols = [("802.1q", "q"), ("802.1ad", "ad")];
    let protocol = fields.word("vlan-proto", &protocols, false).unwrap_or("q");
    if protocol == "ad" && vlan.unwrap_or(0) == 0 && qos == 0 {
        fields.fault("vlan-proto", "expected vlan-id or qos as well, found none");
    }
    words.extend(vlan.map(|vlan| format!("vlans={vlan}.{qos}.{protocol}")));
    // Numbers begin at 0.
    Some((fields.unsigned("id", MOST_FUNCTIONS - 1)?, words.join(" ")))
}
