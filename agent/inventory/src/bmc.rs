//! Reads the address of the BMC. Ironic uses the address to find a node whose NICs it
//! does not know.
//!
//! The module requests the LAN configuration parameters of IPMI 2.0, section 23.2, on the
//! channels that can be a LAN (1 to 11), until it knows all addresses. Ironic's agent
//! runs `ipmitool lan print` on these channels.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::process::Command;
use std::time::Duration;

use landfall_devices::permission::WritePermission;
use landfall_sys::ipmi::Ipmi;

use super::smbios;
use super::sysfs;
use super::system_path::SystemPath;

const TRANSPORT: u8 = 0x0c;
const GET_LAN_CONFIGURATION: u8 = 0x02;
/// Channels that can be assigned to a medium (IPMI 2.0, table 6-1).
const CHANNELS: std::ops::RangeInclusive<u8> = 1..=11;
/// A BMC answers in milliseconds. A BMC that takes longer than this has hung.
const ANSWER: Duration = Duration::from_secs(5);

/// Parameter selectors (IPMI 2.0, table 23-4).
const IP_ADDRESS: u8 = 3;
const MAC_ADDRESS: u8 = 5;
const IPV6_ENABLES: u8 = 51;
const IPV6_STATUS: u8 = 55;
const IPV6_STATIC_ADDRESS: u8 = 56;
const IPV6_DYNAMIC_ADDRESS: u8 = 59;

/// The addresses of the BMC for Ironic. If the BMC has no address, the texts are the same
/// as those of Ironic's agent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BmcAddresses {
    /// `0.0.0.0` if no channel has an address; `None` without a BMC.
    pub v4: Option<String>,
    /// `::/0` if no channel has an address; `None` without a BMC.
    pub v6: Option<String>,
    /// The MAC address of the first channel that has both a MAC address and an IP
    /// address. An IPv6 link-local address does not count.
    pub mac: Option<String>,
}

/// Asks this machine's BMC for its addresses. Without an IPMI device all fields are
/// `None`.
///
/// # Errors
/// If the BMC hangs or the driver fails.
pub fn collect() -> io::Result<BmcAddresses> {
    load_drivers();
    let Some(mut ipmi) = Ipmi::open() else {
        return Ok(BmcAddresses::default());
    };
    addresses(|channel, parameter, set| {
        let request = [channel, parameter, set, 0];
        ipmi.ask(TRANSPORT, GET_LAN_CONFIGURATION, &request, ANSWER)
    })
}

/// Loads the IPMI drivers with the program that the kernel itself calls to load modules:
/// Landfall's init in the ramdisk, modprobe(8) in a live system. On other systems the
/// distribution is responsible for the drivers. ipmi_devintf, which creates the device
/// node, has no modalias, so nothing loads it automatically. ipmi_si has modaliases that
/// match only if the firmware's tables list the BMC's registers.
///
/// If the firmware lists no BMC, the agent does not call this program. The two calls
/// would take a fifth of the time from the first IP address of the agent to the lookup of
/// its node.
fn load_drivers() {
    if WritePermission::by_boot().is_err() || !firmware_names_one(&SystemPath::live()) {
        return;
    }
    let Ok(modprobe) = fs::read_to_string("/proc/sys/kernel/modprobe") else {
        return;
    };
    for driver in ["ipmi_si", "ipmi_devintf"] {
        let _ = Command::new(modprobe.trim_end())
            .args(["-q", "--", driver])
            .status();
    }
}

/// Whether the firmware lists a BMC, in the places that ipmi_si checks (its
/// ipmi_si_platform.c, ipmi_dmi.c and ipmi_si_pci.c).
fn firmware_names_one(root: &SystemPath) -> bool {
    /// IPMI Device Information (DSP0134 7.39).
    const IPMI_DEVICE: u8 = 38;
    /// The base class and sub-class of an IPMI interface on PCI.
    const PCI_CLASS: &str = "0x0c07";
    let table = sysfs::bytes(&root.join("sys/firmware/dmi/tables/DMI")).unwrap_or_default();
    let pci = root.join("sys/bus/pci/devices");
    smbios::structures(&table).any(|structure| structure.kind == IPMI_DEVICE)
        || root.join("sys/firmware/acpi/tables/SPMI").exists()
        || sysfs::names(&root.join("sys/bus/acpi/devices"))
            .iter()
            .any(|name| name.starts_with("IPI0001"))
        || sysfs::names(&pci).iter().any(|device| {
            sysfs::text(&pci.join(device).join("class"))
                .is_some_and(|class| class.starts_with(PCI_CLASS))
        })
}

/// Asks one channel after the other until all three addresses are known. `ask` sends
/// channel, parameter and set selector, and returns the answer, which begins with its
/// completion code.
fn addresses(mut ask: impl FnMut(u8, u8, u8) -> io::Result<Vec<u8>>) -> io::Result<BmcAddresses> {
    let mut addresses = BmcAddresses::default();
    for channel in CHANNELS {
        // An answer consists of the completion code, the revision and the value. If the
        // channel or the parameter is missing, the completion code is not 0.
        let mut value = |parameter, set| -> io::Result<Option<Vec<u8>>> {
            let answer = ask(channel, parameter, set)?;
            Ok(match answer.as_slice() {
                [0, _revision, value @ ..] => Some(value.to_vec()),
                _ => None,
            })
        };
        let v4 = value(IP_ADDRESS, 0)?
            .and_then(|value| Some(Ipv4Addr::from(*value.first_chunk::<4>()?)))
            .filter(|address| !address.is_unspecified());
        let v6 = ipv6_address(&mut value)?;
        if addresses.mac.is_none()
            && (v4.is_some() || v6.is_some_and(|a| !a.is_unicast_link_local()))
        {
            addresses.mac = value(MAC_ADDRESS, 0)?.and_then(|value| mac(&value));
        }
        addresses.v4 = addresses.v4.or(v4.map(|address| address.to_string()));
        addresses.v6 = addresses.v6.or(v6.map(|address| address.to_string()));
        if addresses.v4.is_some() && addresses.v6.is_some() && addresses.mac.is_some() {
            break;
        }
    }
    addresses.v4.get_or_insert_with(|| "0.0.0.0".to_owned());
    addresses.v6.get_or_insert_with(|| "::/0".to_owned());
    Ok(addresses)
}

/// The channel's active IPv6 address. A dynamic address takes precedence over a static
/// one.
fn ipv6_address(
    value: &mut impl FnMut(u8, u8) -> io::Result<Option<Vec<u8>>>,
) -> io::Result<Option<Ipv6Addr>> {
    // 0 means that IPv6 is disabled, 1 IPv6 only, 2 IPv4 and IPv6.
    let enabled = value(IPV6_ENABLES, 0)?.and_then(|value| value.first().copied());
    if !matches!(enabled, Some(1 | 2)) {
        return Ok(None);
    }
    let counts = value(IPV6_STATUS, 0)?.unwrap_or_default();
    let [statics, dynamics, ..] = counts[..] else {
        return Ok(None);
    };
    for (parameter, count) in [
        (IPV6_DYNAMIC_ADDRESS, dynamics),
        (IPV6_STATIC_ADDRESS, statics),
    ] {
        for set in 0..count {
            let Some(value) = value(parameter, set)? else {
                break;
            };
            // The fields are: set selector, source, address, prefix length, status.
            let [_, source, rest @ ..] = &value[..] else {
                continue;
            };
            let (Some(address), Some(status)) = (rest.first_chunk::<16>(), rest.get(17)) else {
                continue;
            };
            let address = Ipv6Addr::from(*address);
            let in_use = if parameter == IPV6_DYNAMIC_ADDRESS {
                // Dynamic addresses: 1 is SLAAC, 2 is DHCPv6.
                matches!(source & 0x0f, 1 | 2)
            } else {
                source & 0x80 != 0
            };
            if in_use && *status == 0 && !address.is_unspecified() {
                return Ok(Some(address));
            }
        }
    }
    Ok(None)
}

fn mac(value: &[u8]) -> Option<String> {
    let bytes = value.first_chunk::<6>()?;
    let mut text = String::new();
    for byte in bytes {
        let separator = if text.is_empty() { "" } else { ":" };
        let _ = write!(text, "{separator}{byte:02x}");
    }
    bytes.iter().any(|&byte| byte != 0).then_some(text)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use landfall_sys::sys_tree::plant;

    use super::*;

    type Answers = BTreeMap<(u8, u8, u8), Vec<u8>>;

    /// A simulated BMC. Each part of the text is `channel/parameter[/set]=hex of
    /// the value`. The BMC answers everything else with "parameter not supported".
    fn bmc(text: &str) -> Answers {
        text.split_whitespace()
            .map(|part| {
                let (key, digits) = part.split_once('=').unwrap();
                let mut key = key.split('/').map(|n| n.parse::<u8>().unwrap());
                let key = (
                    key.next().unwrap(),
                    key.next().unwrap(),
                    key.next().unwrap_or(0),
                );
                let bytes = (0..digits.len())
                    .step_by(2)
                    .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap());
                (key, [0, 0x11].into_iter().chain(bytes).collect())
            })
            .collect()
    }

    #[test]
    fn first_channel_with_an_address_counts() {
        let dynamic = "00022001 0db8 0000 0000 0000 0000 0000 0005 40 00".replace(' ', "");
        let fixed = "00802001 0db8 0000 0000 0000 0000 0000 0007 40 00".replace(' ', "");
        let waiting = "00802001 0db8 0000 0000 0000 0000 0000 0009 40 03".replace(' ', "");
        let none = ("0.0.0.0", "::/0", None);
        for (text, (v4, v6, mac)) in [
            ("", none),
            (
                "1/3=c0000205 1/5=525400AABB01",
                ("192.0.2.5", "::/0", Some("52:54:00:aa:bb:01")),
            ),
            (
                "1/3=00000000 1/5=525400aabb01 8/3=c0000206 8/5=525400aabb08",
                ("192.0.2.6", "::/0", Some("52:54:00:aa:bb:08")),
            ),
            ("1/3=00000000 1/5=525400aabb01", none),
            ("1/3=c0000205 1/5=000000000000", ("192.0.2.5", "::/0", None)),
            ("1/3=c00002", none),
            (
                "1/51=02 1/55=0101 1/59/0=DYNAMIC 1/56/0=FIXED 1/5=525400aabb01",
                ("0.0.0.0", "2001:db8::5", Some("52:54:00:aa:bb:01")),
            ),
            (
                "1/51=01 1/55=0100 1/56/0=FIXED",
                ("0.0.0.0", "2001:db8::7", None),
            ),
            ("1/51=00 1/55=0100 1/56/0=FIXED", none),
            ("1/51=02 1/55=0100 1/56/0=WAITING", none),
        ] {
            let text = text.replace("DYNAMIC", &dynamic).replace("FIXED", &fixed);
            let text = text.replace("WAITING", &waiting);
            let answers = bmc(&text);
            let found = addresses(|channel, parameter, set| {
                let answer = answers.get(&(channel, parameter, set));
                Ok(answer.cloned().unwrap_or_else(|| vec![0x80]))
            })
            .unwrap();
            assert_eq!(found.v4.as_deref(), Some(v4), "{text}");
            assert_eq!(found.v6.as_deref(), Some(v6), "{text}");
            assert_eq!(found.mac.as_deref(), mac, "{text}");
        }
    }

    #[test]
    fn the_firmware_names_a_bmc_or_not() {
        for (tree, expected) in [
            ("", false),
            ("sys/bus/acpi/devices/IPI0001:00/", true),
            ("sys/bus/acpi/devices/PNP0501:00/", false),
            ("sys/firmware/acpi/tables/SPMI = x", true),
            ("sys/bus/pci/devices/0000:00:1f.0/class = 0x0c0701\\n", true),
            (
                "sys/bus/pci/devices/0000:00:1f.0/class = 0x0c0500\\n",
                false,
            ),
            (
                "sys/firmware/dmi/tables/DMI = \\x26\\x04\\x00\\x10\\x00\\x00",
                true,
            ),
            (
                "sys/firmware/dmi/tables/DMI = \\x01\\x04\\x00\\x10\\x00\\x00",
                false,
            ),
        ] {
            assert_eq!(firmware_names_one(plant(tree).path()), expected, "{tree}");
        }
    }

    #[test]
    fn bmc_that_hangs_is_asked_once() {
        let mut asked = 0;
        let result = addresses(|_, _, _| {
            asked += 1;
            Err(io::ErrorKind::TimedOut.into())
        });
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(asked, 1);
    }
}
