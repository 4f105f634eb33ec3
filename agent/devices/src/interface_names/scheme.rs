//! Naming schemes: which rules a release of systemd or RHEL follows.
//!
//! The sources are systemd.net-naming-scheme(7) and the table in RHEL's own fork of
//! systemd. Each scheme is defined as an earlier scheme with rules added or removed.

/// The default scheme. RHEL CoreOS and CentOS Stream CoreOS are based on RHEL 9, whose
/// systemd uses this scheme by default in all minor releases.
pub const DEFAULT: &str = "rhel-9.0";

/// What to do with a slot number that belongs to a bridge above the NIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BridgeSlot {
    /// Every device behind the bridge uses the number.
    Used,
    /// No device uses the number, because several devices could share it.
    Refused,
    /// The NIC uses the number if it reports several functions.
    ForMultiFunction,
}

/// The rules in which the schemes differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scheme {
    /// Virtual functions get `vN` after the name of their physical function.
    pub virtual_functions: bool,
    /// Functions above 7 are numbered as in ARI.
    pub ari_functions: bool,
    /// InfiniBand interfaces get names.
    pub infiniband: bool,
    /// The firmware's index 0 is valid.
    pub index_zero: bool,
    /// The firmware's index may have 16 bits instead of 14.
    pub wide_index: bool,
    /// See [`BridgeSlot`].
    pub bridge_slot: BridgeSlot,
    /// Slots of mainframes are identified by the function's number.
    pub function_id: bool,
    /// The kernel's simulated interfaces get names.
    pub netdevsim: bool,
    /// Xen's virtual interfaces get names.
    pub xen: bool,
    /// Device trees number their interfaces.
    pub device_tree: bool,
    /// Device trees number the ports of one device, too.
    pub device_tree_ports: bool,
    /// USB NICs get names even without PCI.
    pub usb_without_pci: bool,
    /// Representors of virtual functions get `rN`.
    pub representors: bool,
    /// ACPI's `_SUN` takes precedence as the slot number.
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

/// Releases that name hardware interfaces in the same way share a line. They may differ
/// in other names (containers, addresses of virtual devices).
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
    pub fn by_name(name: &str) -> Option<Self> {
        SCHEMES
            .iter()
            .find(|(names, _)| names.contains(&name))
            .map(|(_, scheme)| *scheme)
    }
}

impl Default for Scheme {
    fn default() -> Self {
        // The table contains the default; a test checks that.
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
