use proptest::prelude::*;

use super::fixtures::{self, HOST_ID, HOST_NQN, Nic, correct_checksum, table};
use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn good() -> Vec<u8> {
    let nics = [
        Nic {
            vlan: 11,
            gateway: Some(ip("192.0.2.1")),
            dns: Some(ip("192.0.2.53")),
            host_name: "node7",
            ..Nic::new(1, [0, 0x53, 0, 0xab, 0, 1], "192.0.2.15", 24)
        },
        Nic {
            dhcp_server: Some(ip("2001:db8::1")),
            ..Nic::new(2, [0, 0x53, 0, 0xab, 0, 2], "2001:db8::15", 64)
        },
    ];
    let namespaces = [
        fixtures::Namespace {
            transport_flags: 7,
            ..fixtures::Namespace::new(1, "nqn.2014-08.org.example:a", ip("192.0.2.9"), &[1, 2, 1])
        },
        fixtures::Namespace {
            port: "8009",
            flags: 0x0100 | 1 << 2,
            ..fixtures::Namespace::new(2, "nqn.2014-08.org.example:b", ip("2001:db8::9"), &[2])
        },
    ];
    table(&nics, &namespaces, &["nvme+tcp://192.0.2.9:8009/"])
}

fn parsed(table: &[u8]) -> Nbft {
    Nbft::parse(table).unwrap().unwrap()
}

#[test]
fn everything_is_read() {
    let nbft = parsed(&good());
    assert_eq!(nbft.host.nqn, HOST_NQN);
    assert_eq!(nbft.host.id.unwrap().to_string(), HOST_ID);
    assert_eq!(nbft.faults, []);
    let [first, second] = &nbft.nics[..] else {
        panic!("{nbft:?}");
    };
    assert_eq!(first.mac.to_string(), "00:53:00:ab:00:01");
    assert_eq!(
        (first.vlan, first.prefix, first.by_dhcp),
        (Some(11), 24, false)
    );
    assert_eq!(first.address, Some(ip("192.0.2.15")));
    assert_eq!(first.gateway, Some(ip("192.0.2.1")));
    assert_eq!(first.dns, [ip("192.0.2.53")]);
    assert_eq!(first.host_name.as_deref(), Some("node7"));
    assert_eq!(
        (second.vlan, second.by_dhcp, second.is_ipv4),
        (None, true, false)
    );
    let [a, b] = &nbft.namespaces[..] else {
        panic!("{nbft:?}");
    };
    assert_eq!(a.subsystem, "nqn.2014-08.org.example:a");
    assert_eq!(
        (a.address, a.port, &a.nics[..]),
        (ip("192.0.2.9"), 4420, &[1, 2][..])
    );
    assert!(a.header_digest && a.data_digest && !a.unavailable && a.security.is_none());
    assert_eq!((b.port, b.unavailable, b.security), (8009, true, Some(0)));
    assert!(!b.header_digest && !b.data_digest);
    assert_eq!(nbft.discoveries[0].uri, "nvme+tcp://192.0.2.9:8009/");
}

/// Changes bytes of the table, and corrects its checksum.
fn changed(changes: &[(usize, &[u8])]) -> Vec<u8> {
    let mut table = good();
    for (at, bytes) in changes {
        table[*at..*at + bytes.len()].copy_from_slice(bytes);
    }
    correct_checksum(&mut table);
    table
}

#[test]
fn a_table_that_cannot_be_used_says_why() {
    for (changes, expected) in [
        (
            &[(0, &b"IBFT"[..])][..],
            "expected the signature NBFT, found \"IBFT\"",
        ),
        (&[(8, &[2])], "expected the major revision 1, found 2"),
        (
            &[(36, &[255; 4])],
            "expected 4294967749 bytes at least, found ",
        ),
        (
            &[(64, &[9])],
            "the control structure: expected structure 1 with its 64 bytes at 64",
        ),
        (
            &[(72, &[255; 4])],
            "the host descriptor: expected structure 2 with its 32 bytes at 4294967295",
        ),
        (&[(129, &[0])], "the host descriptor: flags: expected "),
        (
            &[(150, &[0, 0])],
            "the host descriptor: host NQN is missing",
        ),
        (
            &[(146, &[1, 0])],
            "the host descriptor: host NQN: expected bytes of the heap, found ",
        ),
        (
            &[(80, &[255; 4])],
            "the list of NICs: expected structure 3 with its 64 bytes at 4294967295",
        ),
        (
            &[(84, &[31, 0])],
            "the list of NICs: expected structure 3 with its 64 bytes at 160",
        ),
        (
            &[(95, &[255])],
            "the list of namespaces: expected structure 4 with its 32640 bytes at 224",
        ),
        (
            &[(4, &[255; 4])],
            "expected 4294967295 bytes at least, found ",
        ),
    ] {
        let fault = Nbft::parse(&changed(changes)).unwrap_err().to_string();
        assert!(fault.starts_with(expected), "{fault}\n{expected}");
    }
    let mut flipped = good();
    flipped[300] ^= 1;
    assert!(matches!(
        Nbft::parse(&flipped),
        Err(InvalidTable::Checksum(_))
    ));
    for length in [0, 3, 63, 127] {
        let cut = Nbft::parse(&good()[..length]);
        assert!(matches!(cut, Err(InvalidTable::Short { .. })), "{length}");
    }
}

#[test]
fn a_newer_minor_revision_and_an_unused_table_are_no_faults() {
    assert_eq!(parsed(&changed(&[(50, &[7])])), parsed(&good()));
    assert_eq!(Nbft::parse(&changed(&[(70, &[0])])), Ok(None));
    // Bytes after the length in the header are no part of the table.
    let mut longer = good();
    longer.push(9);
    assert_eq!(parsed(&longer), parsed(&good()));
}

/// Where the parts of [`good`] are: the lists, then the heap with the host NQN, the host
/// name and the transport descriptor of the first NIC.
const FIRST_NIC: usize = 160;
const FIRST_NAMESPACE: usize = 224;
const HEAP: usize = 224 + 2 * 128 + 32;
const HOST_NAME: usize = HEAP + HOST_NQN.len() + 1;
const FIRST_TRANSPORT: usize = HOST_NAME + "node7\0".len();

#[test]
fn a_bad_descriptor_costs_nothing_but_itself() {
    let at = |at: usize| FIRST_TRANSPORT + at;
    for (changes, nics, namespaces, expected) in [
        (
            &[(FIRST_NIC + 3, &[4][..])][..],
            1,
            2,
            "NIC 1: transport: expected 3 (NVMe/TCP), found \"4\"",
        ),
        (&[(FIRST_NIC + 2, &[0])], 1, 2, ""),
        (&[(FIRST_NIC, &[9])], 1, 2, ""),
        (
            &[(FIRST_NIC + 20, &[1, 0])],
            1,
            2,
            "NIC 1: transport descriptor: expected a valid structure 7 ",
        ),
        (
            &[(FIRST_NIC + 20, &[0, 0])],
            1,
            2,
            "NIC 1: transport descriptor is missing",
        ),
        (
            &[(FIRST_NIC + 16, &[0; 4])],
            1,
            2,
            "NIC 1: transport descriptor: expected bytes of the heap",
        ),
        (&[(at(11), &[0; 6])], 1, 2, "NIC 1: MAC address is missing"),
        (
            &[(at(17), &[255, 15])],
            1,
            2,
            "NIC 1: VLAN: expected a number up to 4094, found \"4095\"",
        ),
        (&[(at(20), &[0; 16])], 1, 2, "NIC 1: IP address is missing"),
        (&[(at(36), &[33])], 1, 2, "NIC 1: subnet prefix: expected "),
        (&[(at(36), &[0])], 1, 2, "NIC 1: subnet prefix: expected "),
        (
            &[(HOST_NAME, b"node\n")],
            2,
            2,
            "NIC 1: host name: expected ",
        ),
        (
            &[(FIRST_NAMESPACE + 5, &[1])],
            2,
            1,
            "namespace 1: transport: expected 3 ",
        ),
        (
            &[(FIRST_NAMESPACE + 14, &[4, 0])],
            2,
            1,
            "namespace 1: subsystem address is missing",
        ),
        (
            &[(FIRST_NAMESPACE + 20, &[0, 0])],
            2,
            1,
            "namespace 1: subsystem port is missing",
        ),
        (
            &[(FIRST_NAMESPACE + 58, &[0, 0])],
            2,
            1,
            "namespace 1: subsystem NQN is missing",
        ),
        (
            &[(FIRST_NAMESPACE + 58, &[255, 255])],
            2,
            1,
            "namespace 1: subsystem NQN: expected bytes of the heap",
        ),
    ] {
        let nbft = parsed(&changed(changes));
        let faults: Vec<String> = nbft.faults.iter().map(Fault::to_string).collect();
        assert_eq!(nbft.nics.len(), nics, "{expected}: {faults:?}");
        assert_eq!(nbft.namespaces.len(), namespaces, "{expected}: {faults:?}");
        match expected {
            "" => assert_eq!(faults, [""; 0]),
            _ => assert!(
                faults.len() == 1 && faults[0].starts_with(expected),
                "{expected}: {faults:?}"
            ),
        }
    }
}

/// The kernel gets a list of options that commas separate.
#[test]
fn a_name_adds_no_option() {
    for name in ["nqn.a,host_iface=x", "nqn.a\nb", "nqn a"] {
        let namespace = fixtures::Namespace::new(1, name, ip("192.0.2.9"), &[1]);
        let nbft = parsed(&table(&[], &[namespace], &[]));
        assert_eq!(nbft.namespaces, [], "{name}");
    }
    for port in ["0", "65536", "4420,x", "-1", "x"] {
        let namespace = fixtures::Namespace {
            port,
            ..fixtures::Namespace::new(1, "nqn.a", ip("192.0.2.9"), &[1])
        };
        assert_eq!(
            parsed(&table(&[], &[namespace], &[])).namespaces,
            [],
            "{port}"
        );
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let mut bytes = bytes;
        let _ = Nbft::parse(&bytes);
        if let Some(start) = bytes.get_mut(..4) {
            start.copy_from_slice(b"NBFT");
        }
        correct_checksum(&mut bytes);
        let _ = Nbft::parse(&bytes);
    }

    #[test]
    fn a_damaged_table_is_read_without_a_panic(
        damage in prop::collection::vec((0usize..4096, any::<u8>()), 1..20),
        cut in 0usize..4096,
    ) {
        let mut table = good();
        for (at, byte) in damage {
            let length = table.len();
            table[at % length] = byte;
        }
        table.truncate(table.len().max(1) - cut % 64);
        correct_checksum(&mut table);
        if let Ok(Some(nbft)) = Nbft::parse(&table) {
            prop_assert!(nbft.nics.len() <= 255 && nbft.namespaces.len() <= 255);
        }
    }

    #[test]
    fn a_written_table_is_read_back(
        mac in any::<[u8; 6]>(), vlan in 0u16..=4094, address in any::<u32>(), prefix in 1u8..=32,
        port in 1u16.., index in 1u8..,
    ) {
        prop_assume!(mac != [0; 6] && address != 0);
        let address = IpAddr::from(address.to_be_bytes());
        let nic = Nic { vlan, ..Nic::new(index, mac, &address.to_string(), prefix) };
        let text: &'static str = port.to_string().leak();
        let namespace = fixtures::Namespace { port: text, ..fixtures::Namespace::new(3, "nqn.a", address, &[index]) };
        let nbft = parsed(&table(&[nic], &[namespace], &[]));
        prop_assert_eq!(&nbft.faults, &[]);
        prop_assert_eq!(nbft.nics[0].mac.0, mac);
        prop_assert_eq!(nbft.nics[0].vlan.unwrap_or_default(), vlan);
        prop_assert_eq!(nbft.nics[0].address, Some(address));
        prop_assert_eq!(nbft.namespaces[0].port, port);
        prop_assert_eq!(&nbft.namespaces[0].nics[..], &[index]);
    }
}
