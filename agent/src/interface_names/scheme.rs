//! Naming schemes: which rules a release of systemd, or of RHEL, follows.
//!
//! systemd.net-naming-scheme(7), and the table of RHEL's own fork. A scheme is
//! the one before it with rules added or taken back.

/// RHEL CoreOS and CentOS Stream CoreOS are RHEL 9, which compiles this one in
/// for all its minor releases.
pub const DEFAULT: &str = "rhel-9.0";

/// What may be made of a slot whose number belongs to a bridge above the NIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BridgeSlot {
    /// The number counts for every device behind it.
    Used,
    /// It would count twice, so it does not count.
    Refused,
    /// It counts if the NIC says that it has several functions.
    ForMultiFunction,
}

/// The rules of one scheme, as far as they differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scheme {
    /// Virtual functions have `vN` after the name of their physical one.
    pub virtual_functions: bool,
    /// Functions above 7 are counted as ARI does.
    pub ari_functions: bool,
    /// InfiniBand interfaces have names.
    pub infiniband: bool,
    /// The firmware's index 0 is one.
    pub index_zero: bool,
    /// The firmware's index may have 16 bits instead of 14.
    pub wide_index: bool,
    /// See [`BridgeSlot`].
    pub bridge_slot: BridgeSlot,
    /// Slots of mainframes are found by the function's number.
    pub function_id: bool,
    /// The kernel's simulated interfaces have names.
    pub netdevsim: bool,
    /// Xen's virtual interfaces have names.
    pub xen: bool,
    /// Device trees number their interfaces.
    pub device_tree: bool,
    /// They number the ports of one device, too.
    pub device_tree_ports: bool,
    /// USB NICs have names where there is no PCI.
    pub usb_without_pci: bool,
    /// Representors of virtual functions have `rN`.
    pub representors: bool,
    /// ACPI's `_SUN` is asked for the slot first.
    pub acpi_slot: bool,
}

const V238: Scheme = Scheme {
    virtual_functions: false,
    ari_functions: false,
    infiniband: false,
    index_zero: false,
    wide_index: false,
    bridge_slot: BridgeSlot::Used,
    function_id: false,
    netdevsim: false,
    xen: false,
    device_tree: false,
    device_tree_ports: false,
    usb_without_pci: false,
    representors: false,
    acpi_slot: false,
};
const V239: Scheme = Scheme {
    virtual_functions: true,
    ari_functions: true,
    ..V238
};
const V240: Scheme = Scheme {
    infiniband: true,
    index_zero: true,
    ..V239
};
const V243: Scheme = Scheme {
    netdevsim: true,
    ..V240
};
const V247: Scheme = Scheme {
    bridge_slot: BridgeSlot::Refused,
    ..V243
};
const V249: Scheme = Scheme {
    function_id: true,
    wide_index: true,
    ..V247
};
const V250: Scheme = Scheme { xen: true, ..V249 };
const V251: Scheme = Scheme {
    bridge_slot: BridgeSlot::ForMultiFunction,
    ..V250
};
const V252: Scheme = Scheme {
    device_tree: true,
    ..V251
};
const V253: Scheme = Scheme {
    usb_without_pci: true,
    ..V252
};
const V254: Scheme = Scheme {
    representors: true,
    ..V253
};
const V255: Scheme = Scheme {
    bridge_slot: BridgeSlot::Refused,
    ..V254
};
const V257: Scheme = Scheme {
    acpi_slot: true,
    device_tree_ports: true,
    ..V255
};
const RHEL_8_4: Scheme = Scheme {
    bridge_slot: BridgeSlot::Refused,
    ..V239
};
const RHEL_8_7: Scheme = Scheme {
    function_id: true,
    wide_index: true,
    ..RHEL_8_4
};
const RHEL_9_3: Scheme = Scheme {
    representors: true,
    ..V251
};
const RHEL_9_5: Scheme = Scheme {
    bridge_slot: BridgeSlot::Refused,
    ..RHEL_9_3
};

/// Releases which differ in more than names of network interfaces on hardware
/// (containers, addresses of virtual devices) share a scheme here.
const SCHEMES: [(&[&str], Scheme); 17] = [
    (&["v238"], V238),
    (
        &["v239", "rhel-8.0", "rhel-8.1", "rhel-8.2", "rhel-8.3"],
        V239,
    ),
    (&["v240", "v241"], V240),
    (&["v243", "v245"], V243),
    (&["v247"], V247),
    (&["v249"], V249),
    (&["v250"], V250),
    (&["v251", "rhel-9.0", "rhel-9.1", "rhel-9.2"], V251),
    (&["v252"], V252),
    (&["v253"], V253),
    (&["v254"], V254),
    (&["v255", "rhel-10.0-beta"], V255),
    (&["v257", "rhel-10.0", "rhel-10.1", "latest"], V257),
    (&["rhel-8.4", "rhel-8.5", "rhel-8.6"], RHEL_8_4),
    (&["rhel-8.7", "rhel-8.8", "rhel-8.9", "rhel-8.10"], RHEL_8_7),
    (&["rhel-9.3", "rhel-9.4"], RHEL_9_3),
    (&["rhel-9.5", "rhel-9.6", "rhel-9.7"], RHEL_9_5),
];

impl Scheme {
    /// The scheme of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        SCHEMES
            .iter()
            .find(|(names, _)| names.contains(&name))
            .map(|(_, scheme)| *scheme)
    }
}

impl Default for Scheme {
    fn default() -> Self {
        // The table has it; a test says so.
        Self::by_name(DEFAULT).unwrap_or(V251)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known() {
        assert_eq!(Scheme::by_name(DEFAULT), Some(Scheme::default()));
        for (one, other) in [
            ("rhel-8.3", "v239"),
            ("rhel-9.2", "v251"),
            ("rhel-10.1", "v257"),
            ("v245", "v243"),
        ] {
            assert_eq!(Scheme::by_name(one), Scheme::by_name(other));
        }
        for name in ["", "252", "v2", "rhel-7.0", "V252"] {
            assert_eq!(Scheme::by_name(name), None, "{name}");
        }
    }
}
