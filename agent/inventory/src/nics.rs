//! Collects the NICs.

use std::collections::BTreeMap;
use std::net::IpAddr;

use landfall_network::leads_to_bmc;
use landfall_network_plan::MacAddr;
use landfall_sys::ethtool;

use super::report_types::Interface;
use super::system_path::SystemPath;
use super::{Warning, link_modes, sysfs};

/// Inputs of the collector in addition to /sys.
#[derive(Debug, Clone, Copy)]
pub struct NicOptions<'a> {
    /// The addresses of each interface, in the kernel's order.
    pub addresses: &'a BTreeMap<String, Vec<IpAddr>>,
    /// Whether to leave out NICs that lead to the BMC, as OpenShift's ramdisk does. They
    /// are reported if there is no other NIC.
    pub hide_bmc_nics: bool,
    /// The address of the NIC that booted this machine. That NIC is reported even if it
    /// leads to the BMC: it may be an ordinary USB NIC with the same driver as a BMC's
    /// NIC.
    pub boot_mac: Option<MacAddr>,
    /// The NIC that reaches the provisioning service; reported even if it leads to the
    /// BMC.
    pub service_nic: Option<&'a str>,
    /// Whether to query the drivers. False for a captured tree, because its drivers are
    /// not running here.
    pub ask_drivers: bool,
}

impl NicOptions<'_> {
    fn is_used(&self, nic: &Interface) -> bool {
        let mac = nic.mac_address.parse::<MacAddr>().ok();
        self.service_nic == Some(&nic.name) || mac.is_some() && mac == self.boot_mac
    }
}

/// Facts that only the driver of a NIC knows.
#[derive(Debug, Default)]
struct DriverAnswers {
    permanent_address: Option<String>,
    speed: Option<u32>,
}

/// Reads /sys/class/net, in the order of interface indices.
pub fn collect(root: &SystemPath, options: NicOptions<'_>) -> (Vec<Interface>, Vec<Warning>) {
    let directory = root.join("sys/class/net");
    let mut warnings = Vec::new();
    let mut leave_out = |name: &str, reason: &str| {
        warnings.push(Warning::new(format!("{name} is not reported: {reason}")));
    };
    let mut found: Vec<(u32, Interface)> = sysfs::names(&directory)
        .into_iter()
        .filter(|name| is_reported(&directory.join(name), name))
        .filter_map(|name| {
            let index = sysfs::number(&directory.join(&name).join("ifindex")).unwrap_or(u32::MAX);
            match interface(&directory.join(&name), &name, options) {
                Ok(interface) => Some((index, interface)),
                Err(reason) => {
                    leave_out(&name, reason);
                    None
                }
            }
        })
        .collect();
    let is_of_bmc = |nic: &Interface| leads_to_bmc(root, &nic.name);
    // A NIC on any bus counts as hardware, because the NIC of an ARM server may not be on
    // PCI.
    let is_hardware = |nic: &Interface| directory.join(&nic.name).join("device").exists();
    let is_other = |nic: &Interface| is_hardware(nic) && !is_of_bmc(nic);
    if options.hide_bmc_nics && found.iter().any(|(_, nic)| is_other(nic)) {
        found.retain(|(_, nic)| {
            let hidden = is_of_bmc(nic) && !options.is_used(nic);
            if hidden {
                leave_out(
                    &nic.name,
                    "its driver is that of a BMC's USB NIC; landfall.bmc_nics=1 reports it",
                );
            }
            !hidden
        });
    }
    found.sort_by_key(|(index, _)| *index);
    let interfaces: Vec<Interface> = found.into_iter().map(|(_, nic)| nic).collect();
    if interfaces.is_empty() {
        warnings.push(Warning::new(
            "no NIC found: Ironic cannot match this machine; check that the ramdisk has the NIC's driver",
        ));
    }
    (interfaces, warnings)
}

/// Whether the interface is hardware, a bond or a VLAN, which is recognised by a name
/// like `eth0.100`. Bridges, tunnels and other virtual interfaces are not reported.
fn is_reported(directory: &SystemPath, name: &str) -> bool {
    let is_vlan = name.rsplit_once('.').is_some_and(|(nic, id)| {
        !nic.is_empty() && !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit())
    });
    directory.join("device").exists() || directory.join("bonding").exists() || is_vlan
}

fn interface(
    directory: &SystemPath,
    name: &str,
    options: NicOptions<'_>,
) -> Result<Interface, &'static str> {
    let driver = sysfs::link_name(&directory.join("device/driver"));
    let answers = if options.ask_drivers {
        ask_driver(name)
    } else {
        DriverAnswers::default()
    };
    let mac_address = answers
        .permanent_address
        .or_else(|| sysfs::text(&directory.join("address")))
        .ok_or("it has no hardware address")?
        .to_ascii_lowercase();
    // `fa:` is the prefix of a locally administered address, which is typical of the
    // virtual NICs that BMCs create.
    if mac_address.starts_with("fa:") {
        return Err("its address begins with fa:, which BMCs give to virtual NICs");
    }
    let addresses = options.addresses.get(name).map_or(&[][..], Vec::as_slice);
    Ok(Interface {
        name: name.to_owned(),
        mac_address,
        ipv4_address: addresses
            .iter()
            .find(|address| address.is_ipv4())
            .map(IpAddr::to_string),
        ipv6_address: ipv6_address(addresses, name),
        // Reading `carrier` fails while the interface is down. The agent reports that as
        // no carrier.
        has_carrier: sysfs::flag(&directory.join("carrier")),
        lldp: None,
        vendor: sysfs::text(&directory.join("device/vendor")),
        product: sysfs::text(&directory.join("device/device")),
        client_id: None,
        biosdevname: None,
        speed_mbps: answers.speed,
        pci_address: sysfs::link_name(&directory.join("device")),
        driver,
    })
}

/// The first IPv6 address that is not link-local, otherwise the link-local address with
/// the name of its interface.
fn ipv6_address(addresses: &[IpAddr], name: &str) -> Option<String> {
    let mut link_local = None;
    for address in addresses {
        let IpAddr::V6(address) = address else {
            continue;
        };
        if !address.is_unicast_link_local() {
            return Some(address.to_string());
        }
        link_local.get_or_insert_with(|| format!("{address}%{name}"));
    }
    link_local
}

fn ask_driver(name: &str) -> DriverAnswers {
    // Bonds, VLANs and older virtual NICs do not support this query. That is not an
    // error.
    let link = ethtool::link_settings(name).ok();
    DriverAnswers {
        permanent_address: ethtool::permanent_address(name)
            .ok()
            .flatten()
            .map(|bytes| colon_separated(&bytes)),
        speed: link.and_then(|link| link_modes::fastest(&link.supported).or(link.speed)),
    }
}

fn colon_separated(bytes: &[u8]) -> String {
    let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.join(":")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use super::*;
    use crate::sys_tree::PlantedTree;

    /// A NIC with the given address and driver, and interface index `index`.
    fn plant(root: &Path, name: &str, index: u32, address: &str, driver: &str) {
        let device = root.join(format!("sys/devices/pci0000:00/0000:00:{index:02}.0"));
        let directory = device.join("net").join(name);
        fs::create_dir_all(&directory).unwrap();
        fs::create_dir_all(root.join("sys/class/net")).unwrap();
        let below = directory.strip_prefix(root).unwrap();
        symlink(
            Path::new("../../..").join(below),
            root.join("sys/class/net").join(name),
        )
        .unwrap();
        let own = Path::new("../../..").join(device.file_name().unwrap());
        symlink(own, directory.join("device")).unwrap();
        symlink(format!("../drivers/{driver}"), device.join("driver")).unwrap();
        fs::write(directory.join("address"), format!("{address}\n")).unwrap();
        fs::write(directory.join("ifindex"), format!("{index}\n")).unwrap();
        fs::write(directory.join("carrier"), "1\n").unwrap();
    }

    fn options(addresses: &BTreeMap<String, Vec<IpAddr>>) -> NicOptions<'_> {
        NicOptions {
            addresses,
            hide_bmc_nics: false,
            boot_mac: None,
            service_nic: None,
            ask_drivers: false,
        }
    }

    #[test]
    fn order_is_that_of_the_indices() {
        let root = PlantedTree::default();
        plant(root.directory(), "eth10", 2, "52:54:00:00:00:0A", "e1000e");
        plant(
            root.directory(),
            "eth2",
            3,
            "52:54:00:00:00:0b",
            "virtio_net",
        );
        let (nics, warnings) = collect(root.path(), options(&BTreeMap::new()));
        let names: Vec<_> = nics.iter().map(|nic| nic.name.as_str()).collect();
        assert_eq!(names, ["eth10", "eth2"]);
        assert_eq!(nics[0].mac_address, "52:54:00:00:00:0a");
        assert_eq!(nics[0].pci_address.as_deref(), Some("0000:00:02.0"));
        assert_eq!(nics[0].driver.as_deref(), Some("e1000e"));
        assert!(nics[0].has_carrier);
        assert_eq!(warnings, []);
    }

    #[test]
    fn virtual_interfaces_are_left_out() {
        let root = PlantedTree::default();
        let net = root.directory().join("sys/class/net");
        for name in [
            "lo",
            "br0",
            "dummy0",
            "eth0.x",
            ".5",
            "bond0/bonding",
            "eth0.100",
        ] {
            fs::create_dir_all(net.join(name)).unwrap();
        }
        for name in ["bond0", "eth0.100"] {
            fs::write(net.join(name).join("address"), "52:54:00:00:00:01\n").unwrap();
        }
        let (nics, _) = collect(root.path(), options(&BTreeMap::new()));
        let names: Vec<_> = nics.iter().map(|nic| nic.name.as_str()).collect();
        assert_eq!(names, ["bond0", "eth0.100"]);
        assert_eq!(nics[1].pci_address, None);
    }

    #[test]
    fn nics_of_the_bmc_are_left_out() {
        let root = PlantedTree::default();
        plant(
            root.directory(),
            "usb0",
            2,
            "fa:16:3e:00:00:01",
            "cdc_subset",
        );
        plant(
            root.directory(),
            "usb1",
            3,
            "52:54:00:00:00:01",
            "cdc_ether",
        );
        let none = BTreeMap::new();
        let (nics, warnings) = collect(root.path(), options(&none));
        assert_eq!(nics.len(), 1);
        assert_eq!(warnings.len(), 1);
        let hidden = NicOptions {
            hide_bmc_nics: true,
            ..options(&none)
        };
        let names = |options| {
            let (nics, warnings) = collect(root.path(), options);
            let names: Vec<_> = nics.into_iter().map(|nic| nic.name).collect();
            (names, warnings.len())
        };
        assert_eq!(names(hidden).0, ["usb1"], "there is no other");
        plant(
            root.directory(),
            "eth0",
            4,
            "52:54:00:00:00:02",
            "virtio_net",
        );
        let both = vec!["usb1".to_owned(), "eth0".to_owned()];
        assert_eq!(names(hidden), (vec!["eth0".to_owned()], 2));
        let booted = NicOptions {
            boot_mac: "52:54:00:00:00:01".parse().ok(),
            ..hidden
        };
        assert_eq!(names(booted), (both.clone(), 1));
        let serving = NicOptions {
            service_nic: Some("usb1"),
            ..hidden
        };
        assert_eq!(names(serving), (both, 1));
    }

    #[test]
    fn first_address_of_each_family() {
        for (addresses, v4, v6) in [
            (vec![], None, None),
            (vec!["10.0.2.15", "10.0.2.16"], Some("10.0.2.15"), None),
            (
                vec!["fe80::1", "2001:db8::5", "192.0.2.1"],
                Some("192.0.2.1"),
                Some("2001:db8::5"),
            ),
            (vec!["fe80::1", "fe80::2"], None, Some("fe80::1%eth0")),
        ] {
            let root = PlantedTree::default();
            plant(
                root.directory(),
                "eth0",
                2,
                "52:54:00:00:00:01",
                "virtio_net",
            );
            let addresses = addresses.iter().map(|a| a.parse().unwrap()).collect();
            let map = BTreeMap::from([("eth0".to_owned(), addresses)]);
            let (nics, _) = collect(root.path(), options(&map));
            assert_eq!(nics[0].ipv4_address.as_deref(), v4);
            assert_eq!(nics[0].ipv6_address.as_deref(), v6);
        }
    }

    #[test]
    fn drivers_of_this_machine_can_be_asked() {
        let none = BTreeMap::new();
        let asked = NicOptions {
            ask_drivers: true,
            ..options(&none)
        };
        let (nics, _) = collect(&SystemPath::live(), asked);
        for nic in nics {
            assert_eq!(nic.mac_address.split(':').count(), 6, "{nic:?}");
        }
    }
}
