//! Reads `ethtool` of an interface. Only the installed system applies these settings.

use super::described::Described;
use super::fields::Fields;

/// Driver features whose name in NetworkManager is not `feature-` followed by the
/// kernel's name. Each row has ethtool(8)'s names, then the kernel's name, then
/// NetworkManager's.
const FEATURES: &[(&[&str], &str, &str)] = &[
    (&["rx", "rx-checksumming"], "rx-checksum", "feature-rx"),
    (&[], "tx-scatter-gather", "feature-sg"),
    (
        &["tso", "tcp-segmentation-offload"],
        "tx-tcp-segmentation",
        "feature-tso",
    ),
    (&["gro", "generic-receive-offload"], "rx-gro", "feature-gro"),
    (
        &["gso", "generic-segmentation-offload"],
        "tx-generic-segmentation",
        "feature-gso",
    ),
    (
        &["rxhash", "receive-hashing"],
        "rx-hashing",
        "feature-rxhash",
    ),
    (&["lro", "large-receive-offload"], "rx-lro", "feature-lro"),
    (
        &["ntuple", "ntuple-filters"],
        "rx-ntuple-filter",
        "feature-ntuple",
    ),
    (
        &["rxvlan", "rx-vlan-offload"],
        "rx-vlan-hw-parse",
        "feature-rxvlan",
    ),
    (
        &["txvlan", "tx-vlan-offload"],
        "tx-vlan-hw-insert",
        "feature-txvlan",
    ),
];

/// Other names that NetworkManager accepts after `feature-` (nm-settings-nmcli(5)).
const KERNEL_FEATURES: &str = "
    esp-hw-offload esp-tx-csum-hw-offload fcoe-mtu gro gso highdma hw-tc-offload
    l2-fwd-offload loopback lro macsec-hw-offload ntuple rx rxhash rxvlan rx-all rx-fcs
    rx-gro-hw rx-gro-list rx-udp-gro-forwarding rx-udp_tunnel-port-offload rx-vlan-filter
    rx-vlan-stag-filter rx-vlan-stag-hw-parse sg tls-hw-record tls-hw-rx-offload
    tls-hw-tx-offload tso tx txvlan tx-checksum-fcoe-crc tx-checksum-ipv4 tx-checksum-ipv6
    tx-checksum-ip-generic tx-checksum-sctp tx-esp-segmentation tx-fcoe-segmentation
    tx-gre-csum-segmentation tx-gre-segmentation tx-gso-list tx-gso-partial tx-gso-robust
    tx-ipxip4-segmentation tx-ipxip6-segmentation tx-nocache-copy tx-scatter-gather
    tx-scatter-gather-fraglist tx-sctp-segmentation tx-tcp6-segmentation
    tx-tcp-ecn-segmentation tx-tcp-mangleid-segmentation tx-tcp-segmentation
    tx-tunnel-remcsum-segmentation tx-udp-segmentation tx-udp_tnl-csum-segmentation
    tx-udp_tnl-segmentation tx-vlan-stag-hw-insert
";

const COALESCE: &[&str] = &[
    "pkt-rate-high",
    "pkt-rate-low",
    "rx-frames",
    "rx-frames-high",
    "rx-frames-irq",
    "rx-frames-low",
    "rx-usecs",
    "rx-usecs-high",
    "rx-usecs-irq",
    "rx-usecs-low",
    "sample-interval",
    "stats-block-usecs",
    "tx-frames",
    "tx-frames-high",
    "tx-frames-irq",
    "tx-frames-low",
    "tx-usecs",
    "tx-usecs-high",
    "tx-usecs-irq",
    "tx-usecs-low",
];
/// Keys that nmstate reads but never writes.
const NOT_WRITTEN: &[&str] = &["tx-usecs-high", "tx-usecs-irq", "tx-usecs-low"];
const RING: &[&str] = &["rx", "rx-jumbo", "rx-mini", "tx"];
const RING_MOST: &[&str] = &["rx-max", "rx-jumbo-max", "rx-mini-max", "tx-max"];

pub(super) fn read(interface: &Fields, described: &mut Described) {
    let keys = ["pause", "feature", "coalesce", "ring", "fec"];
    let Some(fields) = interface.child("ethtool", &keys) else {
        return;
    };
    let settings = &mut described.interface.profile.settings;
    settings.entry("ethtool").or_default();
    if let Some(pause) = fields.child("pause", &["rx", "tx", "autoneg"]) {
        let autoneg = pause.flag("autoneg");
        for (key, setting) in [("rx", "pause-rx"), ("tx", "pause-tx")] {
            let on = pause.flag(key).filter(|_| autoneg == Some(false));
            set(described, setting, on);
        }
        set(described, "pause-autoneg", autoneg);
    }
    if let Some(feature) = fields.get("feature") {
        let path = fields.at("feature");
        if let Some(feature) = Fields::unchecked(feature, path, fields.findings) {
            features(&feature, described);
        }
    }
    let mut keys = COALESCE.to_vec();
    keys.extend(["adaptive-rx", "adaptive-tx"]);
    if let Some(coalesce) = fields.child("coalesce", &keys) {
        for key in ["adaptive-rx", "adaptive-tx"] {
            let on = coalesce.flag(key).map(u8::from);
            set(described, &format!("coalesce-{key}"), on);
        }
        for key in COALESCE {
            let number = coalesce.unsigned(key, u32::MAX);
            if !NOT_WRITTEN.contains(key) {
                set(described, &format!("coalesce-{key}"), number);
            }
        }
    }
    if let Some(ring) = fields.child("ring", &[RING, RING_MOST].concat()) {
        for key in RING_MOST {
            let _ = ring.unsigned(key, u32::MAX);
        }
        for key in RING {
            let number = ring.unsigned(key, u32::MAX);
            set(described, &format!("ring-{key}"), number);
        }
    }
    fec(&fields, described);
}

fn features(fields: &Fields, described: &mut Described) {
    let kernel_features = KERNEL_FEATURES.split_ascii_whitespace();
    for (name, _) in fields.entries() {
        // The invalid value has been reported as a fault already.
        let Some(on) = fields.flag(name) else {
            continue;
        };
        let known = FEATURES
            .iter()
            .find(|(others, kernel, _)| kernel == name || others.contains(&name.as_str()));
        let setting = match known {
            Some((_, _, setting)) => (*setting).to_owned(),
            None if kernel_features.clone().any(|known| known == name) => format!("feature-{name}"),
            None => {
                fields.fault(name, "NetworkManager has no feature of this name");
                continue;
            }
        };
        set(described, &setting, Some(on));
    }
}

/// Reads the forward error correction. The numbers are the flags of `fec-mode` in
/// NetworkManager (NMSettingEthtool).
fn fec(ethtool: &Fields, described: &mut Described) {
    let Some(fields) = ethtool.child("fec", &["auto", "mode"]) else {
        return;
    };
    let modes = [("off", 4), ("rs", 8), ("baser", 16), ("llrs", 32)];
    let mode = fields.word("mode", &modes, false);
    let bits = match (fields.flag("auto"), mode) {
        (Some(true), _) => Some(2),
        (Some(false), None) => Some(4),
        (_, mode) => mode,
    };
    set(described, "fec-mode", bits);
}

fn set(described: &mut Described, key: &str, value: Option<impl ToString>) {
    if let Some(value) = value {
        described.set("ethtool", key, value);
    }
}
