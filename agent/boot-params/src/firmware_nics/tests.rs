use proptest::prelude::*;

use super::*;

const NIC: &str = "index=0 mac=00:53:00:ab:00:01 origin=1 ip-addr=192.0.2.15 prefix-len=24 \
                   gateway=192.0.2.1 primary-dns=192.0.2.53 vlan=0";

/// `changes` holds `NAME=CONTENT` words; an empty content removes the file.
fn record(changes: &str) -> FirmwareRecord {
    let mut files = BTreeMap::new();
    for word in NIC.split_whitespace().chain(changes.split_whitespace()) {
        let (name, content) = word.split_once('=').unwrap();
        files.insert(name.to_owned(), content.to_owned());
    }
    files.retain(|_, content| !content.is_empty());
    FirmwareRecord {
        name: "ethernet0".to_owned(),
        files,
    }
}

#[test]
fn reads_a_record() {
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    let found = record("").parse().unwrap();
    assert_eq!(
        found,
        FirmwareNic {
            index: Some("0".to_owned()),
            mac: MacAddr([0, 0x53, 0, 0xab, 0, 1]),
            vlan: None,
            origin: AddressOrigin::Static,
            is_ipv4: true,
            address: Some("192.0.2.15/24".parse().unwrap()),
            gateway: Some(address("192.0.2.1")),
            dns: vec![address("192.0.2.53")],
            host_name: None,
        }
    );
    let by_dhcp = record("origin=3 ip-addr= prefix-len=").parse().unwrap();
    assert_eq!(by_dhcp.origin, AddressOrigin::Dhcp);
    // The gateway sets the family, but is dropped without an address.
    assert_eq!((by_dhcp.address, by_dhcp.gateway), (None, None));
    let zero = record("gateway=0.0.0.0 secondary-dns=0.0.0.0")
        .parse()
        .unwrap();
    assert_eq!((zero.gateway, zero.dns.len()), (None, 2));
    let v6 = "ip-addr=2001:db8::15 prefix-len=64 gateway=2001:db8::1 primary-dns=2001:db8::53";
    let v6 = record(&format!("{v6} vlan=7 origin=4")).parse().unwrap();
    assert_eq!((v6.is_ipv4, v6.vlan), (false, Some(7)));
    assert_eq!(v6.origin, AddressOrigin::RouterAdvertisement);
}

#[test]
fn a_record_with_one_bad_field_is_rejected() {
    for (changes, fault) in [
        ("mac=", "ethernet0: mac is missing"),
        ("mac=x", "ethernet0: mac: \"x\" cannot be used"),
        ("ip-addr= gateway=", "ethernet0: ip-addr is missing"),
        ("ip-addr=", "ethernet0: ip-addr is missing"),
        (
            "ip-addr=192.0.2.300 gateway=",
            "ethernet0: ip-addr: \"192.0.2.300\" cannot be used",
        ),
        ("prefix-len=", "ethernet0: prefix-len is missing"),
        (
            "prefix-len=33",
            "ethernet0: prefix-len: \"33\" cannot be used",
        ),
        (
            "gateway=2001:db8::1",
            "ethernet0: gateway: \"2001:db8::1\" cannot be used",
        ),
        (
            "secondary-dns=x",
            "ethernet0: secondary-dns: \"x\" cannot be used",
        ),
        ("vlan=4095", "ethernet0: vlan: \"4095\" cannot be used"),
    ] {
        let error = record(changes).parse().unwrap_err();
        assert_eq!(error.to_string(), fault, "{changes}");
    }
}

proptest! {
    #[test]
    fn no_files_panic(
        files in proptest::collection::btree_map(
            "(index|mac|vlan|origin|ip-addr|gateway|prefix-len|primary-dns)",
            "(00:53:00:ab:00:01|[0-9.:a-f]{0,12}|\\PC{0,8})",
            0..8,
        )
    ) {
        let record = FirmwareRecord { name: "ethernet0".to_owned(), files };
        if let Ok(nic) = record.parse() {
            let all = nic.address.map(|prefix| prefix.address).into_iter();
            for address in all.chain(nic.gateway).chain(nic.dns) {
                prop_assert_eq!(address.is_ipv4(), nic.is_ipv4);
            }
        }
    }
}
