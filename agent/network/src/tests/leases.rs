//! Tests of DHCPv4, and of a lease from its start to its loss.

use dhcproto::v4::MessageType;
use landfall_boot_params::firmware_nics;
use landfall_boot_params::{FirmwareNic, MacAddr};

use super::scripted_dhcp::{Mood, ScriptedDhcp};
use super::*;
use crate::lab::{Lab, on_a_machine};

const LONG: [u32; 3] = [1800, 3000, 3600];

fn plug_in(lab: &Lab) {
    lab.plug_in_up(0, &["192.0.2.1/24"]);
}

#[test]
fn a_lease_is_renewed_in_time() {
    on_a_machine(async |lab| {
        plug_in(lab);
        let server = ScriptedDhcp::start(lab, [2, 100, 200], Mood::Generous);
        let mut network = lab.boot("ip=eth0:dhcp");
        until_has(lab, &mut network, "eth0", "192.0.2.100/24").await;
        let searches = server.received(MessageType::Discover);
        let requests = server.received(MessageType::Request);
        lab.until_so("two renewals", || {
            server.received(MessageType::Request) >= requests + 2
        })
        .await;
        assert_eq!(
            server.received(MessageType::Discover),
            searches,
            "renewed, not found again"
        );
    });
}

#[test]
fn an_expired_lease_removes_its_address_and_routes() {
    on_a_machine(async |lab| {
        plug_in(lab);
        let server = ScriptedDhcp::start(lab, [3, 5, 10], Mood::Generous);
        let mut network = lab.boot("ip=eth0:dhcp");
        until_has(lab, &mut network, "eth0", "192.0.2.100/24").await;
        server.script().mood = Mood::Silent;
        lab.until_so("the default route", || {
            ip_output("route").contains("default via 192.0.2.1 dev eth0")
        })
        .await;
        lab.until_logged("WARN eth0 DHCP: the lease has ended; asking for another")
            .await;
        lab.until(&mut network, "the address gone", |s| {
            !has(s, "eth0", "192.0.2.100/24")
        })
        .await;
        let routes = ip_output("route");
        assert!(!routes.contains("eth0"), "{routes}");

        server.script().mood = Mood::Generous;
        until_has(lab, &mut network, "eth0", "192.0.2.100/24").await;
    });
}

#[test]
fn a_lease_that_the_server_takes_back_is_replaced() {
    on_a_machine(async |lab| {
        plug_in(lab);
        let server = ScriptedDhcp::start(lab, [3, 100, 200], Mood::Generous);
        let mut network = lab.boot("ip=eth0:dhcp");
        until_has(lab, &mut network, "eth0", "192.0.2.100/24").await;
        {
            let mut script = server.script();
            script.mood = Mood::Forgetful;
            script.address = [192, 0, 2, 200].into();
        }
        let state = until_has(lab, &mut network, "eth0", "192.0.2.200/24").await;
        assert!(!has(&state, "eth0", "192.0.2.100/24"));
        for line in [
            "WARN eth0 DHCP: the lease has ended; asking for another",
            "ERROR eth0 address 192.0.2.100/24 has become 192.0.2.200/24: ",
        ] {
            let lines = lab.log_lines();
            assert!(lines.iter().any(|l| l.starts_with(line)), "{lines:#?}");
        }
    });
}

#[test]
fn an_offer_that_is_taken_back_is_asked_for_again() {
    on_a_machine(async |lab| {
        plug_in(lab);
        let _server = ScriptedDhcp::start(lab, LONG, Mood::Moody);
        let mut network = lab.boot("ip=eth0:dhcp");
        lab.until_logged("WARN eth0 DHCP: server 192.0.2.1 has taken its offer back")
            .await;
        until_has(lab, &mut network, "eth0", "192.0.2.100/24").await;
    });
}

#[test]
fn another_server_takes_over_a_lease() {
    on_a_machine(async |lab| {
        plug_in(lab);
        let server = ScriptedDhcp::start(lab, [2, 5, 200], Mood::Generous);
        let mut network = lab.boot("ip=eth0:dhcp");
        until_has(lab, &mut network, "eth0", "192.0.2.100/24").await;
        // At T1 the client asks the server of the lease and gets no answer. At T2 it
        // asks all servers.
        server.script().mood = Mood::Silent;
        let requests = server.received(MessageType::Request);
        lab.until_so("a question in vain", || {
            server.received(MessageType::Request) > requests
        })
        .await;
        {
            let mut script = server.script();
            script.mood = Mood::Generous;
            script.server = [192, 0, 2, 2].into();
        }
        let state = lab
            .until(&mut network, "the other server", |s| {
                origin(s, "eth0", AddressOrigin::Dhcp([192, 0, 2, 2].into())).is_some()
            })
            .await;
        assert!(has(&state, "eth0", "192.0.2.100/24"));
        let ended = |line: &String| line.contains("the lease has ended");
        assert!(!lab.log_lines().iter().any(ended), "{:#?}", lab.log_lines());
    });
}

/// A server may reserve an address for the host that the operator has also
/// configured as static. The static address stays permanent.
#[test]
fn a_static_address_outlives_a_lease_of_it() {
    on_a_machine(async |lab| {
        plug_in(lab);
        let server = ScriptedDhcp::start(lab, [3, 100, 200], Mood::Generous);
        let mut network = lab.boot("ip=192.0.2.100:::24::eth0:dhcp");
        lab.until_logged(
            "INFO eth0 192.0.2.100/24 from DHCP server 192.0.2.1 for 200 s, gateway 192.0.2.1",
        )
        .await;
        {
            let mut script = server.script();
            script.mood = Mood::Forgetful;
            script.address = [192, 0, 2, 200].into();
        }
        let state = until_has(lab, &mut network, "eth0", "192.0.2.200/24").await;
        assert!(has(&state, "eth0", "192.0.2.100/24"), "{state:?}");
        let addresses = ip_output("-o -4 addr show dev eth0");
        let given = addresses
            .lines()
            .find(|line| line.contains(" 192.0.2.100/24 "));
        assert!(
            given.is_some_and(|line| line.contains("forever")),
            "{addresses}"
        );
    });
}

#[test]
fn dhcp_gives_address_routes_names_and_resolver() {
    on_a_machine(async |lab| {
        lab.plug_in_up(0, &["192.0.2.1/24"]);
        lab.port("addr add 10.99.0.1/32 dev lo");
        let server = lab.dnsmasq("port0", &[
            POOL,
            "--dhcp-host=52:54:00:00:00:00,192.0.2.77,node77",
            "--dhcp-option=option:dns-server,192.0.2.53,192.0.2.54",
            "--dhcp-option=option:domain-search,lab.example,example.org",
            "--dhcp-option=option:classless-static-route,10.99.0.0/16,192.0.2.1,0.0.0.0/0,192.0.2.1",
            "--dhcp-option=option:ntp-server,192.0.2.123",
            "--dhcp-option=option:mtu,1450",
        ]);
        let mut network = lab.boot("ip=eth0:dhcp rd.net.dhcp.vendor-class=landfall");
        let state = until_has(lab, &mut network, "eth0", "192.0.2.77/24").await;
        let server_address = [192, 0, 2, 1].into();
        let found = origin(&state, "eth0", AddressOrigin::Dhcp(server_address));
        assert_eq!(found, Some([192, 0, 2, 77].into()));
        assert_eq!(state.ntp, [IpAddr::from([192, 0, 2, 123])]);
        assert!(
            answers("10.99.0.1"),
            "by the classless route\n{}",
            ip_output("route")
        );
        assert_eq!(
            lab.resolv_conf(),
            "search lab.example example.org\nnameserver 192.0.2.53\nnameserver 192.0.2.54\n"
        );
        assert_eq!(nix::unistd::gethostname().unwrap(), "node77");
        lab.until(&mut network, "the MTU", |_| {
            ip_output("link show eth0").contains("mtu 1450")
        })
        .await;
        assert!(
            ip_output("addr show eth0").contains("valid_lft 3"),
            "a lease has an end"
        );
        let log = server.log();
        assert!(
            log.contains("client provides name") || log.contains("vendor class: landfall"),
            "{log}"
        );
        // The test does not count the answers: on a busy machine the client may send its
        // request twice.
        assert!(log.contains("DHCPACK"), "{log}");
    });
}

#[test]
fn a_late_server_does_not_delay_other_nics() {
    on_a_machine(async |lab| {
        lab.plug_in(0);
        lab.plug_in(1);
        lab.port("addr add 192.0.2.1/24 dev port0");
        lab.port("link set port0 up");
        lab.port("link set port1 up");
        let mut network =
            lab.boot("ip=eth0:dhcp ip=198.51.100.7:::24::eth1:none rd.net.timeout.dhcp=2");
        let state = until_has(lab, &mut network, "eth1", "198.51.100.7/24").await;
        assert!(!nic(&state, "eth0").unwrap().is_online());
        let state = until_nic(lab, &mut network, "a complaint", "eth0", |nic| {
            nic.trouble.is_some()
        })
        .await;
        let trouble = nic(&state, "eth0").unwrap().trouble.clone();
        assert_eq!(trouble.as_deref(), Some("eth0 DHCP: no answer after 2 s"));
        let line =
            "WARN eth0 DHCP: no answer after 2 s, still trying; other interfaces are not delayed";
        assert!(
            lab.log_lines().iter().any(|l| l == line),
            "{:#?}",
            lab.log_lines()
        );

        let _server = lab.dnsmasq("port0", &[POOL]);
        let state = until_nic(
            lab,
            &mut network,
            "a late lease",
            "eth0",
            NicState::is_online,
        )
        .await;
        assert_eq!(nic(&state, "eth0").unwrap().trouble, None);
    });
}

#[test]
fn an_address_of_another_machine_is_declined() {
    on_a_machine(async |lab| {
        lab.plug_in(0);
        lab.port("addr add 192.0.2.1/24 dev port0");
        // By default Linux answers ARP for all its addresses on every link.
        lab.port("addr add 192.0.2.77/32 dev lo");
        lab.port("link set port0 up");
        let host = "--dhcp-host=52:54:00:00:00:00,192.0.2.77";
        let server = lab.dnsmasq("port0", &[POOL, host]);
        let mut network = lab.boot("ip=eth0:dhcp");
        let state = until_nic(lab, &mut network, "trouble", "eth0", |nic| {
            nic.trouble.is_some()
        })
        .await;
        let found = nic(&state, "eth0").unwrap();
        assert!(!has(&state, "eth0", "192.0.2.77/24"), "it was never used");
        let trouble = found.trouble.as_deref().unwrap();
        assert!(
            trouble.starts_with("eth0 DHCP: 192.0.2.77 is in use by "),
            "{trouble}"
        );
        let online = |s: &NetworkState| nic(s, "eth0").is_some_and(NicState::is_online);
        let state = lab.until(&mut network, "another address", online).await;
        assert!(!has(&state, "eth0", "192.0.2.77/24"));
        assert!(server.log().contains("DHCPDECLINE"), "{}", server.log());
    });
}

/// One NIC leads to Ironic and to the storage. The storage needs the address of the
/// firmware's table, and Ironic needs the lease. Packets from the table's address use
/// the table's gateway; other packets use the lease's gateway.
#[test]
fn a_nic_of_the_nvme_boot_has_the_network_of_the_table_and_a_lease() {
    on_a_machine(async |lab| {
        plug_in(lab);
        let server = ScriptedDhcp::start(lab, LONG, Mood::Silent);
        let mut network = lab.boot_nvme(FirmwareNic {
            index: Some("1".to_owned()),
            mac: MacAddr([0x52, 0x54, 0, 0, 0, 0]),
            vlan: None,
            origin: firmware_nics::AddressOrigin::Static,
            is_ipv4: true,
            address: Some("198.51.100.15/24".parse().unwrap()),
            gateway: Some([198, 51, 100, 1].into()),
            dns: Vec::new(),
            host_name: None,
        });
        let state = until_has(lab, &mut network, "eth0", "198.51.100.15/24").await;
        let of_table = AddressOrigin::Plan(Source::Firmware);
        assert!(origin(&state, "eth0", of_table).is_some(), "{state:?}");
        let way = |text: &str| ip_output(&format!("route get {text}"));
        const STORAGE: &str = "203.0.113.7 from 198.51.100.15";
        // Without a lease, all packets take the gateway of the table.
        for target in ["203.0.113.7", STORAGE] {
            lab.until_so("the gateway of the table", || {
                way(target).contains("via 198.51.100.1 dev eth0")
            })
            .await;
        }
        server.script().mood = Mood::Generous;
        until_has(lab, &mut network, "eth0", "192.0.2.100/24").await;
        lab.until_so("the gateway of the lease", || {
            way("203.0.113.7").contains("via 192.0.2.1 dev eth0")
        })
        .await;
        assert!(way(STORAGE).contains("via 198.51.100.1 dev eth0"));
        let near = way("198.51.100.9 from 198.51.100.15");
        assert!(!near.contains("via"), "{near}");
    });
}
