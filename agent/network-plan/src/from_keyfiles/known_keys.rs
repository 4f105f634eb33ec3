//! The keys of NetworkManager that are not completely a part of the plan
//! (nm-settings-nmcli(5) of version 1.54). The reader reports a key that is in none of
//! these lists, because it may be a typing error.

use crate::bond_option::bond_value;

/// Keys by section, except for the options of a bond. The lists include some keys that
/// the reader itself uses.
const KEYS: &[(&str, &[&str])] = &[
    ("connection", CONNECTION),
    ("ethernet", ETHERNET),
    ("ipv4", IPV4),
    ("ipv4", FAMILY),
    ("ipv6", IPV6),
    ("ipv6", FAMILY),
    ("bond-port", &["prio", "queue-id", "vlans"]),
    ("bridge", BRIDGE),
    (
        "bridge-port",
        &["hairpin-mode", "path-cost", "priority", "vlans"],
    ),
    ("infiniband", &["mtu", "transport-mode"]),
    ("macvlan", &["mode", "promiscuous", "tap"]),
    ("ovs-bridge", OVS_BRIDGE),
    ("ovs-interface", &["ofport-request", "type"]),
    ("ovs-patch", &["peer"]),
    ("ovs-port", OVS_PORT),
    (
        "sriov",
        &[
            "autoprobe-drivers",
            "eswitch-encap-mode",
            "eswitch-inline-mode",
            "eswitch-mode",
            "preserve-on-down",
            "total-vfs",
        ],
    ),
    ("team", TEAM),
    (
        "vlan",
        &[
            "egress-priority-map",
            "flags",
            "ingress-priority-map",
            "protocol",
        ],
    ),
    ("vrf", &["table"]),
];

/// Prefixes of keys by section. An empty prefix matches every key.
const BEGINNINGS: &[(&str, &[&str])] = &[
    ("ethernet", &["s390-"]),
    (
        "ethtool",
        &[
            "channels-",
            "coalesce-",
            "eee-",
            "feature-",
            "fec-mode",
            "pause-",
            "ring-",
        ],
    ),
    ("ipv4", &["routing-rule"]),
    ("ipv6", &["routing-rule"]),
    ("ovs-external-ids", &["data."]),
    ("ovs-other-config", &["data."]),
    ("sriov", &["vf."]),
    ("user", &[""]),
];

const CONNECTION: &[&str] = &[
    "auth-retries",
    "autoconnect",
    "autoconnect-priority",
    "autoconnect-retries",
    "autoconnect-slaves",
    "dns-over-tls",
    "dnssec",
    "down-on-poweroff",
    "gateway-ping-timeout",
    "ip-ping-addresses",
    "ip-ping-addresses-require-all",
    "ip-ping-timeout",
    "lldp",
    "llmnr",
    "mdns",
    "metered",
    "mptcp-flags",
    "mud-url",
    "multi-connect",
    "permissions",
    "read-only",
    "secondaries",
    "slave-type",
    "stable-id",
    "timestamp",
    "wait-activation-delay",
    "wait-device-timeout",
    "zone",
];
const ETHERNET: &[&str] = &[
    "accept-all-mac-addresses",
    "auto-negotiate",
    "duplex",
    "generate-mac-address-mask",
    "mac-address-blacklist",
    "mac-address-denylist",
    "mtu",
    "port",
    "speed",
    "wake-on-lan",
    "wake-on-lan-password",
];
const FAMILY: &[&str] = &[
    "auto-route-ext-gw",
    "dad-timeout",
    "dhcp-dscp",
    "dhcp-hostname",
    "dhcp-hostname-flags",
    "dhcp-iaid",
    "dhcp-reject-servers",
    "dhcp-send-hostname",
    "dhcp-send-hostname-v2",
    "dhcp-send-release",
    "dhcp-timeout",
    "dns-options",
    "dns-priority",
    "forwarding",
    "ignore-auto-dns",
    "ignore-auto-routes",
    "may-fail",
    "method",
    "never-default",
    "replace-local-rule",
    "required-timeout",
    "route-metric",
    "route-table",
    "routed-dns",
    "shared-dhcp-lease-time",
    "shared-dhcp-range",
];
const IPV4: &[&str] = &[
    "dhcp-client-id",
    "dhcp-fqdn",
    "dhcp-ipv6-only-preferred",
    "dhcp-vendor-class-identifier",
    "link-local",
];
const IPV6: &[&str] = &[
    "addr-gen-mode",
    "dhcp-duid",
    "dhcp-pd-hint",
    "ip6-privacy",
    "mtu",
    "ra-timeout",
    "temp-preferred-lifetime",
    "temp-valid-lifetime",
    "token",
];
const BRIDGE: &[&str] = &[
    "ageing-time",
    "forward-delay",
    "group-address",
    "group-forward-mask",
    "hello-time",
    "max-age",
    "multicast-hash-max",
    "multicast-last-member-count",
    "multicast-last-member-interval",
    "multicast-membership-interval",
    "multicast-querier",
    "multicast-querier-interval",
    "multicast-query-interval",
    "multicast-query-response-interval",
    "multicast-query-use-ifaddr",
    "multicast-router",
    "multicast-snooping",
    "multicast-startup-query-count",
    "multicast-startup-query-interval",
    "priority",
    "stp",
    "vlan-default-pvid",
    "vlan-filtering",
    "vlan-protocol",
    "vlan-stats-enabled",
    "vlans",
];
const OVS_BRIDGE: &[&str] = &[
    "datapath-type",
    "fail-mode",
    "mcast-snooping-enable",
    "rstp-enable",
    "stp-enable",
];
const OVS_PORT: &[&str] = &[
    "bond-downdelay",
    "bond-mode",
    "bond-updelay",
    "lacp",
    "tag",
    "trunks",
    "vlan-mode",
];
const TEAM: &[&str] = &[
    "config",
    "link-watchers",
    "mcast-rejoin-count",
    "mcast-rejoin-interval",
    "notify-peers-count",
    "notify-peers-interval",
    "runner",
    "runner-active",
    "runner-agg-select-policy",
    "runner-fast-rate",
    "runner-hwaddr-policy",
    "runner-min-ports",
    "runner-sys-prio",
    "runner-tx-balancer",
    "runner-tx-balancer-interval",
    "runner-tx-hash",
];

/// Keys that change the network and that the ramdisk does not apply: section, key, the
/// values that need no warning, and what the ramdisk does instead.
const DIFFERENT: &[(&str, &str, &[&str], &str)] = &[
    ("bridge", "vlan-filtering", OFF, ALL_VLANS),
    ("bridge-port", "vlans", &[], ALL_VLANS),
    ("ethernet", "mac-address-blacklist", &[], NO_DENYLIST),
    ("ethernet", "mac-address-denylist", &[], NO_DENYLIST),
    ("ipv4", "dhcp-reject-servers", &[], ANY_SERVER),
    ("ipv6", "dhcp-reject-servers", &[], ANY_SERVER),
    ("ipv4", "dns-options", &[], NO_DNS_OPTIONS),
    ("ipv6", "dns-options", &[], NO_DNS_OPTIONS),
    ("ipv4", "routed-dns", &["-1", "0"], NO_DNS_ROUTES),
    ("ipv6", "routed-dns", &["-1", "0"], NO_DNS_ROUTES),
    (
        "ipv4",
        "link-local",
        // NetworkManager's default (0), `auto` (1) and `disabled` (2).
        &["0", "1", "2"],
        "the ramdisk has a link-local address only with method=link-local",
    ),
    (
        "ipv6",
        "ip6-privacy",
        // NetworkManager's default (-1) and disabled (0).
        &["-1", "0"],
        "the ramdisk uses no temporary addresses",
    ),
];
const OFF: &[&str] = &["false", "no", "off", "0"];
const ALL_VLANS: &str = "the bridge of the ramdisk forwards the frames of all VLANs";
const NO_DENYLIST: &str = "the ramdisk does not look at this list";
const ANY_SERVER: &str = "the ramdisk accepts a lease of any DHCP server";
const NO_DNS_OPTIONS: &str = "the ramdisk ignores these options";
const NO_DNS_ROUTES: &str = "the ramdisk adds no routes to DNS servers";

/// Says what the ramdisk does instead of applying this value. `None` if there is no
/// difference to the installed system.
pub(super) fn difference(section: &str, key: &str, value: &str) -> Option<&'static str> {
    if key == "dns-priority" && value.starts_with('-') {
        // With a negative priority, NetworkManager ignores the DNS servers of all
        // interfaces with a higher number.
        return Some("the ramdisk asks the DNS servers of all interfaces");
    }
    let mut all = DIFFERENT.iter();
    let found = all.find(|(of, name, ..)| *of == section && *name == key);
    let found = found.filter(|(_, _, harmless, _)| !harmless.contains(&value));
    found.map(|(.., words)| *words)
}

/// True if the key is in the lists above or is an option of a bond. The lists lack the
/// keys that the plan expresses completely.
pub(super) fn is_known(section: &str, key: &str) -> bool {
    if section == "bond" {
        return bond_value(key).is_some();
    }
    let mut keys = KEYS.iter().filter(|(known, _)| *known == section);
    let mut beginnings = BEGINNINGS.iter().filter(|(known, _)| *known == section);
    keys.any(|(_, keys)| keys.contains(&key))
        || beginnings.any(|(_, known)| known.iter().any(|start| key.starts_with(start)))
}
