//! Names of interfaces whose parent is neither PCI nor USB: firmware tables,
//! mainframe channels, hypervisors, the kernel's simulator.

use landfall_sys::sysfs;
use landfall_sys::system_path::SystemPath;

use super::scheme::Scheme;

const ALIASES: &str = "sys/firmware/devicetree/base/aliases";
const DEVICE_TREE: &str = "sys/firmware/devicetree/base";

/// An interface whose parent may be on one of the buses of this module.
pub(super) struct Child<'a> {
    pub(super) root: &'a SystemPath,
    pub(super) prefix: &'static str,
    /// The interface's directory in /sys/class/net.
    pub(super) interface: &'a SystemPath,
    /// The interface's direct parent.
    pub(super) device: &'a SystemPath,
}

/// The names that come from the bus of the parent, as in `Candidates`.
pub(super) struct BusNames {
    pub(super) onboard: Option<String>,
    pub(super) slot: Option<String>,
    pub(super) path: Option<String>,
}

impl Child<'_> {
    pub(super) fn names(&self, scheme: &Scheme) -> BusNames {
        let prefix = self.prefix;
        let named = |text: Option<String>| text.map(|text| format!("{prefix}{text}"));
        let device_tree = || scheme.device_tree.then(|| self.device_tree(scheme));
        let xen = || scheme.xen.then(|| self.xen());
        let simulated = || scheme.netdevsim.then(|| self.netdevsim()).flatten();
        let path = simulated()
            .or_else(|| self.platform())
            .or_else(|| self.vio())
            .or_else(|| self.channel());
        BusNames {
            onboard: named(device_tree().flatten()),
            slot: named(xen().flatten()),
            path: named(path),
        }
    }

    fn is_on(&self, bus: &str) -> bool {
        sysfs::link_name(&self.device.join("subsystem")).as_deref() == Some(bus)
    }

    /// `/aliases/ethernet1 = "/soc/ethernet@10"` -> `d1`
    fn device_tree(&self, scheme: &Scheme) -> Option<String> {
        if self.prefix != "en" {
            return None;
        }
        let port = self.interface.join("of_node").resolved();
        let node = port
            .filter(|_| scheme.device_tree_ports)
            .or_else(|| self.device.join("of_node").resolved())?;
        let aliases = self.root.join(ALIASES);
        let names = sysfs::names(&aliases);
        names.iter().find_map(|alias| {
            let number: u32 = match alias.strip_prefix("ethernet")? {
                // If there is only one interface, its alias may have no number.
                "" if names.iter().any(|other| other == "ethernet0") => return None,
                "" => 0,
                digits => digits.parse().ok()?,
            };
            let path = sysfs::text(&aliases.join(alias))?;
            let meant = self
                .root
                .join(DEVICE_TREE)
                .join(path.trim_start_matches('/'))
                .resolved()?;
            (meant == node).then(|| format!("d{number}"))
        })
    }

    /// `0.0.f5f0` -> `cf5f0`
    fn channel(&self) -> Option<String> {
        if !self.is_on("ccw") && !self.is_on("ccwgroup") {
            return None;
        }
        let id = self.device.name()?;
        if !(8..=9).contains(&id.len()) {
            return None;
        }
        let number = id.trim_start_matches(['0', '.']);
        let number = if number.is_empty() { "0" } else { number };
        Some(format!("c{number}"))
    }

    /// `/sys/devices/vio/30000002` -> `v2`
    fn vio(&self) -> Option<String> {
        if !self.is_on("vio") {
            return None;
        }
        let (_bus, slot) = self.device.name()?.split_at_checked(4)?;
        Some(format!("v{}", u32::from_str_radix(slot, 16).ok()?))
    }

    /// `/sys/devices/platform/HISI00B2:01` -> `ahisib2i1`
    fn platform(&self) -> Option<String> {
        if !self.is_on("platform") {
            return None;
        }
        let (id, instance) = self.device.name()?.split_once(':')?;
        // PNP IDs have three letters and four digits, ACPI IDs four of each.
        let (vendor, model) = id.split_at_checked(id.len().checked_sub(4)?)?;
        let known = match vendor.len() {
            3 => vendor.bytes().all(|byte| byte.is_ascii_uppercase()),
            4 => vendor
                .bytes()
                .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit()),
            _ => false,
        };
        let model = u32::from_str_radix(model, 16).ok()?;
        let instance = u32::from_str_radix(instance, 16).ok()?;
        known.then(|| format!("a{}{model:x}i{instance}", vendor.to_ascii_lowercase()))
    }

    /// `/sys/devices/netdevsim3` and its port `p1` -> `i3np1`
    fn netdevsim(&self) -> Option<String> {
        if !self.is_on("netdevsim") {
            return None;
        }
        let number: u32 = self
            .device
            .name()?
            .strip_prefix("netdevsim")?
            .parse()
            .ok()?;
        let port = sysfs::text(&self.interface.join("phys_port_name"))?;
        Some(format!("i{number}n{port}"))
    }

    /// `/sys/devices/vif-2` -> `X2`
    fn xen(&self) -> Option<String> {
        let number = self.device.name()?.strip_prefix("vif-")?;
        let plain = number == number.parse::<u32>().ok()?.to_string();
        plain.then(|| format!("X{number}"))
    }
}
