//! Tests of rules that no captured machine covers, on trees written from
//! systemd.net-naming-scheme(7).

use super::*;

const PCI: &str = "0000:3b:00.1";

/// The tree of a NIC whose parent is the directory `device` on `bus`. The paths in
/// `files` are relative to the parent; the NIC's own files begin with `net/`.
fn nic_of(device: &str, bus: &str, files: &[(&str, &str)]) -> String {
    let mut lines = vec![
        format!("sys/class/net/eth0 -> ../../../{device}/net/eth0"),
        format!("{device}/subsystem -> /sys/bus/{bus}"),
        format!("{device}/net/eth0/device -> ../.."),
    ];
    let given = |name: &str| files.iter().any(|(file, _)| *file == name);
    for (name, content) in [
        ("net/eth0/type", "1"),
        ("net/eth0/ifindex", "2"),
        ("net/eth0/iflink", "2"),
        ("net/eth0/name_assign_type", "1"),
    ] {
        if !given(name) {
            lines.push(format!("{device}/{name} = {content}\\n"));
        }
    }
    for (name, content) in files {
        lines.push(format!("{device}/{name} = {content}\\n"));
    }
    lines.join("\n")
}

/// A NIC on PCI with further files.
fn nic(files: &[(&str, &str)]) -> String {
    nic_of(&format!("sys/devices/pci0000:00/{PCI}"), "pci", files)
}

/// The name that a scheme gives to `eth0` in a tree.
fn named(tree: &str, scheme: &str) -> String {
    let root = plant(tree);
    let policy = NamingPolicy {
        scheme: Scheme::by_name(scheme).unwrap(),
        ..NamingPolicy::default()
    };
    let found = by_kernel_name(root.path(), &policy);
    found
        .get("eth0")
        .map_or_else(|| "eth0".to_owned(), |found| found.name.clone())
}

/// The rows of a table in columns. `#` begins a comment.
fn rows(table: &str) -> impl Iterator<Item = Vec<&str>> {
    { table.lines().map(str::trim) }
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| line.split('|').map(str::trim).collect())
}

/// `NAME=VALUE NAME=VALUE`
fn pairs(text: &str) -> Vec<(&str, &str)> {
    let words = text.split_whitespace();
    words.map(|word| word.split_once('=').unwrap()).collect()
}

/// Asserts the names by scheme: `v252=enp1s0 rhel-9.0=eth0`.
fn assert_named(tree: &str, by_scheme: &str, row: &[&str]) {
    for (scheme, expected) in pairs(by_scheme) {
        assert_eq!(named(tree, scheme), expected, "{row:?} {scheme}");
    }
}

/// The columns are: files, and the expected names.
const ATTRIBUTES: &str = "
    | v238=enp59s0f1 rhel-10.1=enp59s0f1
    net/eth0/phys_port_name=p0 | v252=enp59s0f1np0
    net/eth0/dev_port=1 | v252=enp59s0f1d1
    net/eth0/dev_port=0 | v252=enp59s0f1
    # A port name takes precedence over a port number.
    net/eth0/phys_port_name=p0 net/eth0/dev_port=1 | v257=enp59s0f1np0
    # Representors. `enp59s0f1npf0vf3` would have sixteen characters, one too many.
    net/eth0/phys_port_name=pf0vf3 | v253=eth0 rhel-9.2=eth0 rhel-8.10=eth0
    net/eth0/phys_port_name=pf0vf3 | v254=enp59s0f1r3 rhel-9.3=enp59s0f1r3 rhel-9.5=enp59s0f1r3
    # With a controller number in front it is an ordinary port name.
    net/eth0/phys_port_name=c1pf0vf3 | v257=eth0
    net/eth0/phys_port_name=pf0 | v257=enp59s0f1npf0
    # InfiniBand gets a name with a port from dev_id, but never one from its hardware address.
    net/eth0/type=32 | v239=eth0 rhel-8.10=eth0 v240=ibp59s0f1 rhel-9.0=ibp59s0f1
    net/eth0/type=32 net/eth0/dev_id=0x1 | v257=ibp59s0f1d1
    net/eth0/type=32 net/eth0/dev_id=0x1 index=2 | v257=ibo2
    net/eth0/dev_id=0x1 | v257=enp59s0f1
    # Hardware types, stacked interfaces, wireless interfaces.
    net/eth0/type=772 | v257=eth0
    net/eth0/type=256 | v257=slp59s0f1
    net/eth0/iflink=3 | v257=eth0
    net/eth0/uevent=DEVTYPE=wlan | v257=wlp59s0f1
    net/eth0/uevent=DEVTYPE=wwan | v257=wwp59s0f1
    # Names already set by the kernel, a user or a rename.
    net/eth0/name_assign_type=2 | v257=eth0
    net/eth0/name_assign_type=3 | v257=eth0
    net/eth0/name_assign_type=4 | v257=eth0
    # The firmware's index.
    acpi_index=0 | v239=enp59s0f1 rhel-8.10=enp59s0f1 v240=eno0
    acpi_index=16384 | v247=enp59s0f1 rhel-8.6=enp59s0f1 v249=eno16384 rhel-8.7=eno16384
    acpi_index=16777215 index=1 | v257=enp59s0f1
    index=1 | v238=eno1 v257=eno1
    index=1 net/eth0/dev_port=2 | v257=eno1d2
    ari_enabled=1 | v239=enp59s0f1
    # Too long for the kernel: the next candidate is used, or the kernel's name stays.
    net/eth0/phys_port_name=averylongname | v257=eth0
    index=12345 net/eth0/phys_port_name=longname1 | v257=eth0
";

#[test]
fn attributes_of_the_interface_and_its_function() {
    for row in rows(ATTRIBUTES) {
        assert_named(&nic(&pairs(row[0])), row[1], &row);
    }
}

/// The columns are: address, files, slots, and the expected names.
const PLACES: &str = r"
    # Domains are decimal in names.
    10000:e1:00.0 | | | v252=enP65536p225s0
    0002:0a:1f.0 | | | v238=enP2p10s31
    0002:0a:1f.0 | | 7=0002:0a:1f | v252=enP2s7
    # Function 0 with the bit for several functions.
    0000:0a:00.0 | config=\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x00 | | v252=enp10s0f0
    # ARI: function numbers continue in the next slot, and the slot number stays in the name.
    0000:0a:02.1 | ari_enabled=1 | | v238=enp10s2f1 v239=enp10s2f17 rhel-8.0=enp10s2f17
    # A slot address without a device part, and slots whose names are not valid numbers.
    0000:0a:02.0 | | 4=0000:0a 0=0000:0a:02 5-1=0000:0a:02 | v252=ens4
    # Mainframes: the slot is named after the function, and the domain is left out.
    0001:00:00.0 | function_id=0x00000100 | 00000100=0001:00:00 | v247=enP1s100 rhel-8.6=enP1s100
    0001:00:00.0 | function_id=0x00000100 | 00000100=0001:00:00 | v249=ens256 rhel-8.7=ens256 rhel-9.0=ens256
    # From v257 on ACPI's slot takes precedence over that of a hotplug driver.
    0000:0a:02.0 | firmware_node/sun=9 | 4=0000:0a:02 | v255=ens4 v257=ens9 rhel-10.0=ens9
";

#[test]
fn places_on_pci() {
    for row in rows(PLACES) {
        let mut tree = nic_of(
            &format!("sys/devices/pci/{}", row[0]),
            "pci",
            &pairs(row[1]),
        );
        for (slot, address) in pairs(row[2]) {
            tree += &format!("\nsys/bus/pci/slots/{slot}/address = {address}\\n");
        }
        assert_named(&tree, row[3], &row);
    }
}

#[test]
fn virtual_functions_are_called_after_their_physical_one() {
    let bus = "sys/devices/pci0000:00";
    let mut tree = nic_of(&format!("{bus}/0000:3b:02.3"), "pci", &[]);
    for line in [
        "0000:3b:02.3/physfn -> ../0000:3b:00.0",
        "0000:3b:00.0/subsystem -> /sys/bus/pci",
        "0000:3b:00.0/virtfn0 -> ../0000:3b:02.0",
        "0000:3b:00.0/virtfn3 -> ../0000:3b:02.3",
    ] {
        tree += &format!("\n{bus}/{line}");
    }
    assert_named(
        &tree,
        "v238=enp59s2f3 v239=enp59s0v3 rhel-9.4=enp59s0v3",
        &[],
    );
    // The index and the slot come from the physical function; the port comes from the
    // interface.
    tree += &format!("\n{bus}/0000:3b:00.0/index = 2\\n");
    tree += &format!("\n{bus}/0000:3b:02.3/net/eth0/phys_port_name = p1\\n");
    assert_eq!(named(&tree, "v257"), "eno2np1v3");
}

/// The columns are: device, bus, files, and the expected names. `PCI` in a device stands
/// for the path of a PCI function.
const PARENTS: &str = "
    # Hyper-V provides nothing to derive a name from.
    vmbus_1 | vmbus | | v257=eth0
    platform/soc/mdio.1 | mdio_bus | | v257=eth0
    platform/APMC0D05:00 | platform | | v238=enaapmcd05i0 v257=enaapmcd05i0
    platform/HIS00B2:01 | platform | | v252=enahisb2i1
    platform/his00B2:01 | platform | | v252=eth0
    platform/fe300000.ethernet | platform | | v252=eth0
    qeth/0.0.f5f0 | ccwgroup | | v252=encf5f0
    css0/0.2.0600 | ccw | | v252=enc2.0600
    css0/0.0.0000 | ccw | | v252=enc0
    vio/30000002 | vio | | v252=env2
    vio/3000001e | vio | | v252=env30
    netdevsim10 | netdevsim | net/eth0/phys_port_name=p3 | v241=eth0 v243=eni10np3
    netdevsim10 | netdevsim | net/eth0/phys_port_name=p3 | rhel-8.10=eth0 rhel-9.0=eni10np3
    netdevsim10 | netdevsim | | v252=eth0
    vif-2 | xen | | v249=eth0 v250=enX2 rhel-8.10=eth0 rhel-9.0=enX2
    vif-02 | xen | | v257=eth0
    # Broadcom's bus on PCI: core 0 is left out of the name.
    PCI/bcma0:2 | bcma | | v252=enp0s29f7b2
    PCI/bcma0:0 | bcma | | v252=enp0s29f7
    # Any number of virtio devices between the interface and PCI.
    PCI/virtio3 | virtio | | v252=enp0s29f7
    PCI/usb1/1-1/1-1.4/1-1.4:1.0 | usb | uevent=DEVTYPE=usb_interface | v238=enp0s29f7u1u4
    PCI/usb1/1-1/1-1:1.0 | usb | uevent=DEVTYPE=usb_interface net/eth0/dev_port=1 | v252=enp0s29f7d1u1
    PCI/usb1/1-2/1-2:2.3 | usb | uevent=DEVTYPE=usb_interface | v252=enp0s29f7u2c2i3
    platform/soc/xhci/usb1/1-1/1-1:1.0 | usb | uevent=DEVTYPE=usb_interface | v252=eth0 v253=enu1
    platform/soc/xhci/usb1/1-1/1-1:1.0 | usb | uevent=DEVTYPE=usb_interface | rhel-9.7=eth0 rhel-10.0=enu1
";

#[test]
fn other_parents() {
    let function = "pci0000:00/0000:00:1d.7";
    for row in rows(PARENTS) {
        let device = format!("sys/devices/{}", row[0].replace("PCI", function));
        let pci = format!("\nsys/devices/{function}/subsystem -> /sys/bus/pci");
        assert_named(
            &(nic_of(&device, row[1], &pairs(row[2])) + &pci),
            row[3],
            &row,
        );
    }
}

#[test]
fn device_trees_number_their_interfaces() {
    let base = "sys/firmware/devicetree/base";
    let device = "sys/devices/platform/soc/fe300000.ethernet";
    let tree = nic_of(device, "platform", &[])
        + &format!(
            "\n{device}/of_node -> /{base}/soc/ethernet@0\n{base}/soc/ethernet@0/port@1/\n\
             {base}/aliases/ethernet1 = /soc/ethernet@0\\x00\n\
             {base}/aliases/ethernet2 = /soc/ethernet@0/port@1\\x00\n\
             {base}/aliases/serial0 = /soc/ethernet@0\\x00\n"
        );
    let port = format!("{device}/net/eth0/of_node -> /{base}/soc/ethernet@0/port@1\n");
    let first = tree.replace("ethernet1 =", "ethernet =");
    let doubled = first.replace("ethernet2 =", "ethernet0 =");
    for (tree, by_scheme) in [
        (&tree, "v251=eth0 rhel-9.7=eth0 v252=end1"),
        (&(tree.clone() + &port), "v255=end1 v257=end2"),
        (&first, "v252=end0"),
        (&doubled, "v252=eth0"),
    ] {
        assert_named(tree, by_scheme, &[tree]);
    }
}

#[test]
fn of_two_that_want_one_name_the_first_gets_it() {
    let second = nic(&[
        ("net/eth0/ifindex", "3"),
        ("net/eth0/iflink", "3"),
        ("index", "1"),
    ])
    .replace("eth0", "eth1")
    .replace(PCI, "0000:3c:00.1");
    let root = plant(&format!("{}\n{second}", nic(&[("index", "1")])));
    let found = by_kernel_name(root.path(), &NamingPolicy::default());
    assert_eq!(found["eth0"].name, "eno1");
    assert_eq!(found["eth0"].alternatives, ["enp59s0f1"]);
    assert_eq!(found["eth1"].name, "eth1");
    assert_eq!(found["eth1"].alternatives, ["eno1", "enp60s0f1"]);
}

#[test]
fn a_given_name_takes_precedence_and_is_unique() {
    let second = nic(&[
        ("net/eth0/ifindex", "3"),
        ("net/eth0/iflink", "3"),
        ("net/eth0/address", "52:54:00:00:00:02"),
        ("net/eth0/addr_assign_type", "0"),
    ])
    .replace("eth0", "eth1")
    .replace(PCI, "0000:3c:00.1");
    let first = nic(&[("index", "1"), ("net/eth0/address", "52:54:00:00:00:01")]);
    let root = plant(&format!("{first}\n{second}"));
    for (line, expected) in [
        (
            "ifname=lan0:52:54:00:00:00:02",
            [("eno1", "enp59s0f1"), ("lan0", "enp60s0f1 enx525400000002")],
        ),
        (
            "ifname=eno1:52:54:00:00:00:02 net.ifnames=0",
            [("eth0", "enp59s0f1"), ("eno1", "enp60s0f1 enx525400000002")],
        ),
        (
            "ifname=eno1:52:54:00:00:00:02",
            [("eth0", "enp59s0f1"), ("eno1", "enp60s0f1 enx525400000002")],
        ),
    ] {
        let (policy, _) = NamingPolicy::from_command_line(&CommandLine::parse(line));
        let found = names(root.path(), &policy);
        let shown = found
            .iter()
            .map(|n| (n.name.clone(), n.alternatives.join(" ")));
        let expected = expected.map(|(name, others)| (name.to_owned(), others.to_owned()));
        assert_eq!(shown.collect::<Vec<_>>(), expected, "{line}");
    }
}
