//! The names that udev's net_id would give an interface.

use landfall_sys::sysfs;
use landfall_sys::system_path::SystemPath;

use super::other_buses::{BusNames, Child};
use super::pci_location::PciLocation;
use super::scheme::{BridgeSlot, Scheme};

/// Hardware types from `linux/if_arp.h`.
const ETHERNET: u32 = 1;
const INFINIBAND: u32 = 32;
const SLIP: u32 = 256;
/// The longest name that udev can store: `ALTIFNAMSIZ` without its NUL. Longer
/// candidates are dropped.
const LONGEST: usize = 127;

/// The possible names of an interface.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Candidates {
    /// `enx` and the hardware address.
    pub mac: Option<String>,
    /// From the firmware's index: `eno1`.
    pub onboard: Option<String>,
    /// From the slot number: `ens3f0`.
    pub slot: Option<String>,
    /// From the place on the bus: `enp5s0`.
    pub path: Option<String>,
}

/// Returns the candidates for an interface. `interface` is its directory in
/// /sys/class/net.
pub fn candidates(root: &SystemPath, interface: &SystemPath, scheme: &Scheme) -> Candidates {
    let number = |name: &str| sysfs::number::<u32>(&interface.join(name));
    let kind = number("type");
    // A VLAN or another interface that is built on interfaces of this machine has no
    // candidates.
    let stacked = number("ifindex") != number("iflink");
    let Some(prefix) = prefix(interface, kind, scheme) else {
        return Candidates::default();
    };
    if stacked {
        return Candidates::default();
    }
    let mut candidates = Candidates {
        mac: mac(interface, kind).map(|digits| format!("{prefix}x{digits}")),
        ..Candidates::default()
    };
    let Some(device) = interface.join("device").resolved() else {
        return candidates;
    };
    let port = Port::of(interface, kind, scheme);
    let child = Child {
        root,
        prefix,
        interface,
        device: &device,
    };
    // As in udev, the names from PCI and USB below replace the names from other buses.
    let BusNames {
        onboard,
        slot,
        path,
    } = child.names(scheme);
    (candidates.onboard, candidates.slot, candidates.path) = (onboard, slot, path);
    if let Some(place) = Place::behind_virtio(&device, scheme) {
        if let Some(index) = place.index(scheme) {
            candidates.onboard = Some(format!(
                "{prefix}o{index}{}{}",
                port.of_index, place.virtual_function
            ));
        }
        candidates.path = Some(format!(
            "{prefix}{}{}{}",
            place.path_text(scheme),
            port.text,
            place.virtual_function
        ));
        candidates.slot = place
            .slot_text(root, scheme)
            .map(|slot| format!("{prefix}{slot}{}{}", port.text, place.virtual_function));
    } else if let Some(specifier) = usb(&device).or_else(|| bcma(&device)) {
        let host = device
            .ancestors()
            .find_map(|directory| PciLocation::of(&directory));
        match host.map(Place::physical) {
            Some(host) => {
                let tail = format!("{}{specifier}", port.text);
                candidates.path = Some(format!("{prefix}{}{tail}", host.path_text(scheme)));
                candidates.slot = host
                    .slot_text(root, scheme)
                    .map(|slot| format!("{prefix}{slot}{tail}"));
            }
            None if scheme.usb_without_pci => {
                candidates.path = Some(format!("{prefix}{specifier}"));
            }
            None => {}
        }
    }
    for name in [
        &mut candidates.mac,
        &mut candidates.onboard,
        &mut candidates.slot,
        &mut candidates.path,
    ] {
        name.take_if(|name| name.len() > LONGEST);
    }
    candidates
}

fn prefix(interface: &SystemPath, kind: Option<u32>, scheme: &Scheme) -> Option<&'static str> {
    match kind? {
        ETHERNET => {
            let uevent = sysfs::text(&interface.join("uevent")).unwrap_or_default();
            let is = |kind: &str| uevent.lines().any(|line| line == kind);
            Some(if is("DEVTYPE=wlan") {
                "wl"
            } else if is("DEVTYPE=wwan") {
                "ww"
            } else {
                "en"
            })
        }
        INFINIBAND if scheme.infiniband => Some("ib"),
        SLIP => Some("sl"),
        _ => None,
    }
}

/// The hexadecimal digits of the address, if it is permanent.
fn mac(interface: &SystemPath, kind: Option<u32>) -> Option<String> {
    /// `NET_ADDR_PERM`: the interface has its permanent address.
    const PERMANENT: u32 = 0;
    let assigned = sysfs::number::<u32>(&interface.join("addr_assign_type"))?;
    if assigned != PERMANENT || kind == Some(INFINIBAND) {
        return None;
    }
    let digits = sysfs::text(&interface.join("address"))?.replace(':', "");
    (digits.len() == 12 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
        .then(|| digits.to_ascii_lowercase())
}

/// The port of a card: `n<name>`, `r<representor>` or `d<number>`.
struct Port {
    text: String,
    /// The text for names from the firmware's index, which ignore `dev_id`.
    of_index: String,
}

impl Port {
    fn of(interface: &SystemPath, kind: Option<u32>, scheme: &Scheme) -> Self {
        if let Some(name) = sysfs::text(&interface.join("phys_port_name")) {
            let text = match representor(&name).filter(|_| scheme.representors) {
                Some(number) => format!("r{number}"),
                None => format!("n{name}"),
            };
            return Self {
                of_index: text.clone(),
                text,
            };
        }
        let numbered = |number: u32| {
            if number > 0 {
                format!("d{number}")
            } else {
                String::new()
            }
        };
        let port = sysfs::number(&interface.join("dev_port")).unwrap_or(0);
        let of_index = numbered(port);
        let text = if port == 0 && kind == Some(INFINIBAND) {
            let id = sysfs::text(&interface.join("dev_id")).unwrap_or_default();
            numbered(u32::from_str_radix(id.trim_start_matches("0x"), 16).unwrap_or(0))
        } else {
            of_index.clone()
        };
        Self { text, of_index }
    }
}

/// `pf0vf3` -> 3
fn representor(name: &str) -> Option<u32> {
    let (function, number) = name.strip_prefix("pf")?.split_once("vf")?;
    function.parse::<u32>().ok()?;
    number.parse().ok()
}

/// The PCI device that an interface is named after, and the part of the name for a
/// virtual function (empty for a physical function).
struct Place {
    device: PciLocation,
    virtual_function: String,
}

impl Place {
    fn physical(device: PciLocation) -> Self {
        Self {
            device,
            virtual_function: String::new(),
        }
    }

    /// The PCI device that is the interface's parent; for a virtual function, depending
    /// on the scheme, its physical function. Skips virtio devices between the interface
    /// and the PCI device.
    fn behind_virtio(device: &SystemPath, scheme: &Scheme) -> Option<Self> {
        let directory = device.ancestors().find(|directory| {
            sysfs::link_name(&directory.join("subsystem")).as_deref() != Some("virtio")
        })?;
        let device = PciLocation::of(&directory)?;
        if scheme.virtual_functions
            && let Some(physical) = device.directory.join("physfn").resolved()
            && let Some(number) = number_of_function(&physical, &device.directory)
            && let Some(physical) = PciLocation::of(&physical)
        {
            return Some(Self {
                device: physical,
                virtual_function: format!("v{number}"),
            });
        }
        Some(Self::physical(device))
    }

    /// The firmware's index: from ACPI, otherwise from SMBIOS.
    fn index(&self, scheme: &Scheme) -> Option<u32> {
        let number = |name: &str| sysfs::text(&self.device.directory.join(name));
        let index: u32 = number("acpi_index")
            .or_else(|| number("index"))?
            .parse()
            .ok()?;
        let limit = if scheme.wide_index { 65535 } else { 16383 };
        (index <= limit && (index > 0 || scheme.index_zero)).then_some(index)
    }

    fn domain_text(&self) -> String {
        match self.device.domain {
            0 => String::new(),
            domain => format!("P{domain}"),
        }
    }

    fn function_text(&self, scheme: &Scheme) -> String {
        let device = &self.device;
        let mut function = device.function;
        if scheme.ari_functions && device.has_ari() {
            function += 8 * device.slot;
        }
        if function > 0 || device.is_multi_function() {
            format!("f{function}")
        } else {
            String::new()
        }
    }

    fn path_text(&self, scheme: &Scheme) -> String {
        format!(
            "{}p{}s{}{}",
            self.domain_text(),
            self.device.bus,
            self.device.slot,
            self.function_text(scheme)
        )
    }

    fn slot_text(&self, root: &SystemPath, scheme: &Scheme) -> Option<String> {
        let (slot, domain) = match self.acpi_slot(scheme) {
            Some(slot) => (slot, self.domain_text()),
            None => self.hotplug_slot(root, scheme)?,
        };
        Some(format!("{domain}s{slot}{}", self.function_text(scheme)))
    }

    fn acpi_slot(&self, scheme: &Scheme) -> Option<u32> {
        if !scheme.acpi_slot {
            return None;
        }
        self.device.acpi_slot().or_else(|| {
            let above = self.device.above()?;
            let counts_twice = above.is_bridge() && !self.device.is_multi_function();
            if counts_twice {
                None
            } else {
                above.acpi_slot()
            }
        })
    }

    /// The number of the slot that holds this device or a bridge above it, and the part
    /// of the name for the PCI domain.
    fn hotplug_slot(&self, root: &SystemPath, scheme: &Scheme) -> Option<(u32, String)> {
        let slots = slots(root);
        for device in self.device.and_above() {
            if let Some(function) = function_id(root, &device).filter(|_| scheme.function_id) {
                // The kernel makes this number unique across all PCI domains, so the
                // name needs no domain.
                return Some((function, String::new()));
            }
            let Some(name) = device.directory.name() else {
                continue;
            };
            let Some((slot, _)) = slots.iter().find(|(_, place)| name.starts_with(place)) else {
                continue;
            };
            let allowed = !is_bridge_by_modalias(&device.directory)
                || match scheme.bridge_slot {
                    BridgeSlot::Used => true,
                    BridgeSlot::Refused => false,
                    BridgeSlot::ForMultiFunction => self.device.is_multi_function(),
                };
            return allowed.then(|| (*slot, self.domain_text()));
        }
        None
    }
}

/// The number N of the physical function's link `virtfnN` that leads to `here`.
fn number_of_function(physical: &SystemPath, here: &SystemPath) -> Option<u32> {
    sysfs::names(physical).iter().find_map(|name| {
        let number = name.strip_prefix("virtfn")?.parse().ok()?;
        (physical.join(name).resolved()? == *here).then_some(number)
    })
}

/// The function's number on a mainframe, if a slot has this number as its name.
fn function_id(root: &SystemPath, device: &PciLocation) -> Option<u32> {
    let id = sysfs::text(&device.directory.join("function_id"))?;
    let id = u32::from_str_radix(id.trim_start_matches("0x"), 16).ok()?;
    let slot = root.join(format!("sys/bus/pci/slots/{id:08x}"));
    (id > 0 && slot.is_dir()).then_some(id)
}

/// The slots that have a number, with the address prefix of their devices. Skips names
/// such as `0-1` and `1-2`, which the kernel makes up if slot numbers are missing or
/// used twice.
fn slots(root: &SystemPath) -> Vec<(u32, String)> {
    let directory = root.join("sys/bus/pci/slots");
    sysfs::names(&directory)
        .into_iter()
        .filter_map(|name| {
            let number = name.parse().ok().filter(|&number: &u32| number > 0)?;
            Some((number, sysfs::text(&directory.join(&name).join("address"))?))
        })
        .collect()
}

/// Whether the modalias ends with `sc04...`, which is udev's own test for a bridge.
fn is_bridge_by_modalias(device: &SystemPath) -> bool {
    sysfs::text(&device.join("modalias"))
        .and_then(|alias| {
            let (_, class) = alias.rsplit_once('s')?;
            Some(class.starts_with("c04"))
        })
        .unwrap_or(false)
}

/// `2-1.4:1.6` -> `u1u4i6`
fn usb(device: &SystemPath) -> Option<String> {
    let interface = device.ancestors().find(|directory| {
        sysfs::text(&directory.join("uevent"))
            .is_some_and(|uevent| uevent.lines().any(|line| line == "DEVTYPE=usb_interface"))
    })?;
    let (_, rest) = interface.name()?.split_once('-')?;
    let (ports, rest) = rest.split_once(':')?;
    let (configuration, number) = rest.split_once('.')?;
    let mut text = format!("u{}", ports.replace('.', "u"));
    if configuration != "1" {
        text += &format!("c{configuration}");
    }
    if number != "0" {
        text += &format!("i{number}");
    }
    Some(text)
}

/// `bcma0:2` -> `b2`
fn bcma(device: &SystemPath) -> Option<String> {
    if sysfs::link_name(&device.join("subsystem")).as_deref() != Some("bcma") {
        return None;
    }
    let core: u32 = device
        .name()?
        .strip_prefix("bcma")?
        .split_once(':')?
        .1
        .parse()
        .ok()?;
    Some(if core > 0 {
        format!("b{core}")
    } else {
        String::new()
    })
}
