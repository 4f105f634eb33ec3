//! `ip_addr`: the network devices and their addresses, in the format of ip(8).

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use landfall_sys::interface_addresses::interface_addresses;

/// All devices below `/sys/class/net`, sorted by index.
pub(super) fn ip_addr(class_net: &Path) -> String {
    let addresses = interface_addresses();
    let entries = fs::read_dir(class_net).map(|entries| entries.flatten().collect::<Vec<_>>());
    let mut devices: Vec<(u32, String)> = entries
        .unwrap_or_default()
        .iter()
        .filter_map(|entry| {
            let index = text(&entry.path(), "ifindex")?.parse().ok()?;
            Some((index, entry.file_name().to_string_lossy().into_owned()))
        })
        .collect();
    devices.sort_unstable();
    let mut out = String::new();
    for (index, name) in devices {
        let device = class_net.join(&name);
        let or_none = |attribute| text(&device, attribute).unwrap_or_else(|| "?".to_owned());
        let carrier = match text(&device, "carrier").as_deref() {
            Some("1") => ",LOWER_UP",
            _ => ",NO-CARRIER",
        };
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "{index}: {name}: <{}{carrier}> mtu {} state {}\n    link/{} {}",
            if flag_up(&device) { "UP" } else { "DOWN" },
            or_none("mtu"),
            or_none("operstate").to_ascii_uppercase(),
            link_kind(&device),
            or_none("address"),
        );
        for (address, length) in addresses.get(&name).into_iter().flatten() {
            let family = if address.is_ipv4() { "inet" } else { "inet6" };
            let _ = writeln!(out, "    {family} {address}/{length}");
        }
    }
    out
}

fn text(device: &Path, attribute: &str) -> Option<String> {
    let text = fs::read_to_string(device.join(attribute)).ok()?;
    Some(text.trim().to_owned())
}

/// Tests `IFF_UP` in the flags, which /sys shows in hexadecimal.
fn flag_up(device: &Path) -> bool {
    let flags = text(device, "flags").unwrap_or_default();
    let flags = u32::from_str_radix(flags.trim_start_matches("0x"), 16);
    flags.is_ok_and(|flags| flags & 1 == 1)
}

/// The link types that servers have, by their number in `if_arp.h`.
fn link_kind(device: &Path) -> &'static str {
    match text(device, "type").as_deref() {
        Some("1") => "ether",
        Some("32") => "infiniband",
        Some("772") => "loopback",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_shown_with_its_address() {
        let out = ip_addr(Path::new("/sys/class/net"));
        assert!(out.starts_with("1: lo: <UP,LOWER_UP> mtu 65536"), "{out}");
        assert!(
            out.contains("    link/loopback 00:00:00:00:00:00\n"),
            "{out}"
        );
        assert!(out.contains("    inet 127.0.0.1/8\n"), "{out}");
    }
}
