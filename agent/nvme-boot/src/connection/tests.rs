use landfall_network::AddressOrigin;
use landfall_network::lab;

use super::*;
use crate::nbft::Nbft;
use crate::nbft::fixtures::{self, HOST_ID, HOST_NQN, Nic, table};

const MAC: [u8; 6] = [0x52, 0x54, 0, 0, 0, 1];

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn namespace(index: u16, name: &str, nics: &[u8]) -> fixtures::Namespace {
    fixtures::Namespace::new(index, name, ip("192.0.2.9"), nics)
}

fn tables(nics: &[Nic], namespaces: &[fixtures::Namespace], urls: &[&str]) -> Vec<FirmwareTable> {
    vec![FirmwareTable {
        name: "NBFT".to_owned(),
        content: Nbft::parse(&table(nics, namespaces, urls))
            .unwrap()
            .unwrap(),
    }]
}

fn nic(index: u8) -> Nic {
    Nic::new(index, MAC, "192.0.2.15", 24)
}

fn one(nic: Nic) -> Connection {
    let tables = tables(&[nic], &[namespace(1, "nqn.a", &[1])], &[]);
    connections(&tables).0.remove(0)
}

#[test]
fn each_subsystem_is_connected_once_over_each_nic() {
    let other = Nic::new(2, [9; 6], "198.51.100.15", 24);
    let tables = tables(
        &[nic(1), other],
        &[
            namespace(1, "nqn.a", &[1, 2]),
            namespace(2, "nqn.a", &[1]),
            namespace(3, "nqn.b", &[2]),
        ],
        &[],
    );
    let (found, faults) = connections(&tables);
    let found: Vec<(&str, u8)> = found
        .iter()
        .map(|c| (&c.subsystem[..], c.nic.index))
        .collect();
    assert_eq!(found, [("nqn.a", 1), ("nqn.a", 2), ("nqn.b", 2)]);
    assert_eq!(faults, [""; 0]);
}

#[test]
fn a_namespace_without_a_connection_is_reported() {
    let secured = fixtures::Namespace {
        flags: 1 << 2,
        ..namespace(2, "nqn.b", &[1])
    };
    let tables = tables(
        &[nic(1)],
        &[
            namespace(1, DISCOVERY_NQN, &[1]),
            secured,
            namespace(3, "nqn.c", &[7]),
        ],
        &["nvme+tcp://192.0.2.9:8009/"],
    );
    let (found, faults) = connections(&tables);
    assert_eq!(found, []);
    for (fault, expected) in faults.iter().zip([
        "it names a discovery controller",
        "it needs security profile 0",
        "the table has no valid NIC for it",
        "the agent asks no discovery controller -- ",
    ]) {
        assert!(fault.contains(expected), "{fault}");
    }
    assert_eq!(faults.len(), 4);
}

fn network(addresses: &[&str]) -> NetworkState {
    let addresses = addresses.iter();
    let mut nic = NicState {
        addresses: addresses
            .map(|text| lab::address(text, AddressOrigin::Foreign))
            .collect(),
        ..lab::nic(1, false)
    };
    nic.name = "eth0".to_owned();
    nic.mac = landfall_boot_params::MacAddr(MAC);
    NetworkState {
        nics: vec![nic],
        ..NetworkState::default()
    }
}

fn way(source: Option<&str>) -> Option<Way> {
    Some(Way {
        source: source.map(ip),
        nic: Some("eth0".to_owned()),
    })
}

#[test]
fn the_address_of_the_table_is_used_if_a_nic_has_it() {
    let fixed = one(nic(1));
    assert_eq!(
        fixed.way(&network(&["192.0.2.15/24"])),
        way(Some("192.0.2.15"))
    );
    // The operator has given another one.
    assert_eq!(fixed.way(&network(&["192.0.2.77/24"])), way(None));
    for none in [
        &[][..],
        &["169.254.3.4/16"],
        &["fe80::1/64"],
        &["2001:db8::7/64"],
    ] {
        assert_eq!(fixed.way(&network(none)), None, "{none:?}");
    }
    // The NIC is a port of a bond, which has the address.
    let mut bonded = network(&["192.0.2.15/24"]);
    bonded.nics[0].mac = landfall_boot_params::MacAddr([9; 6]);
    assert_eq!(fixed.way(&bonded), way(Some("192.0.2.15")));
    bonded.nics[0].addresses.clear();
    assert_eq!(fixed.way(&bonded), None);
}

#[test]
fn a_vlan_is_not_the_nic_that_carries_it() {
    let on_vlan = one(Nic { vlan: 7, ..nic(1) });
    let mut state = network(&["192.0.2.77/24"]);
    assert_eq!(on_vlan.way(&state), None);
    state.nics[0].made_of = Some(MadeOf::Vlan {
        id: 7,
        parent: None,
    });
    assert_eq!(on_vlan.way(&state), way(None));
}

#[test]
fn the_options_are_the_kernels() {
    let mut connection = one(nic(1));
    let way = Way {
        source: Some(ip("192.0.2.15")),
        nic: Some("eth0".to_owned()),
    };
    let first = format!(
        "transport=tcp,traddr=192.0.2.9,trsvcid=4420,nqn=nqn.a,hostnqn={HOST_NQN},hostid={HOST_ID}"
    );
    assert_eq!(
        connection.options(&way),
        format!("{first},host_traddr=192.0.2.15,host_iface=eth0")
    );
    (connection.header_digest, connection.data_digest) = (true, true);
    assert_eq!(
        connection.options(&Way::default()),
        format!("{first},hdr_digest,data_digest")
    );
    connection.address = ip("2001:db8::9");
    assert_eq!(
        connection.to_string(),
        "NVMe subsystem nqn.a at [2001:db8::9]:4420"
    );
}

/// Linux 6.5 and later reject a host NQN without its host ID.
#[test]
fn a_table_without_a_host_id_gives_one() {
    let mut tables = tables(&[nic(1)], &[namespace(1, "nqn.a", &[1])], &[]);
    tables[0].content.host.id = None;
    let options = connections(&tables).0[0].options(&Way::default());
    let uuid = HOST_NQN.rsplit(':').next().unwrap();
    assert!(options.ends_with(&format!(",hostid={uuid}")), "{options}");
}

#[test]
fn the_number_of_connections_has_a_limit() {
    let namespaces = |count: u16| -> Vec<_> {
        (0..count)
            .map(|index| namespace(index + 1, &format!("nqn.{index}"), &[1]))
            .collect()
    };
    let count = |namespaces: &[fixtures::Namespace]| {
        let (found, faults) = connections(&tables(&[nic(1)], namespaces, &[]));
        (found.len(), faults)
    };
    assert_eq!(count(&namespaces(64)), (64, Vec::new()));
    let mut many = namespaces(70);
    // A subsystem that is connected already.
    many.push(namespace(71, "nqn.1", &[1]));
    let (found, faults) = count(&many);
    assert_eq!(found, 64);
    assert_eq!(
        faults,
        [
            "the firmware's tables ask for 6 connections too many: the agent makes the first 64 -- remove subsystems or paths from the firmware's NVMe settings"
        ]
    );
}
