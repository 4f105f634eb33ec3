//! Tests of a DHCPv4 lease, from its start to its loss.

use dhcproto::v4::MessageType;

use super::scripted_dhcp::{Mood, ScriptedDhcp};
use super::*;
use crate::lab::{Lab, on_a_machine};

const LONG: [u32; 3] = [1800, 3000, 3600];

fn plug_in(lab: &Lab) {
    lab.plug_in(0);
    lab.port("addr add 192.0.2.1/24 dev port0");
    lab.port("link set port0 up");
}

#[test]
fn a_lease_is_renewed_in_time() {
    on_a_machine(async |lab| {
        plug_in(lab);
        let server = ScriptedDhcp::start(lab, [2, 100, 200], Mood::Generous);
        let mut network = lab.boot("ip=eth0:dhcp");
        lab.until(&mut network, "a lease", |s| {
            has(s, "eth0", "192.0.2.100/24")
        })
        .await;
        let searches = server.heard(MessageType::Discover);
        let requests = server.heard(MessageType::Request);
        lab.until_so("two renewals", || {
            server.heard(MessageType::Request) >= requests + 2
        })
        .await;
        assert_eq!(
            server.heard(MessageType::Discover),
            searches,
            "renewed, not found again"
        );
    });
}

#[test]
fn a_lease_that_nobody_renews_takes_address_and_routes_with_it() {
    on_a_machine(async |lab| {
        plug_in(lab);
        let server = ScriptedDhcp::start(lab, [3, 5, 10], Mood::Generous);
        let mut network = lab.boot("ip=eth0:dhcp");
        lab.until(&mut network, "a lease", |s| {
            has(s, "eth0", "192.0.2.100/24")
        })
        .await;
        server.script().mood = Mood::Silent;
        lab.until_so("the default route", || {
            ip_output("route").contains("default via 192.0.2.1 dev eth0")
        })
        .await;
        lab.until_said("WARN eth0 DHCP: the lease has ended; asking for another")
            .await;
        lab.until(&mut network, "the address gone", |s| {
            !has(s, "eth0", "192.0.2.100/24")
        })
        .await;
        let routes = ip_output("route");
        assert!(!routes.contains("eth0"), "{routes}");

        server.script().mood = Mood::Generous;
        lab.until(&mut network, "another lease", |s| {
            has(s, "eth0", "192.0.2.100/24")
        })
        .await;
    });
}

#[test]
fn a_lease_that_the_server_takes_back_is_replaced() {
    on_a_machine(async |lab| {
        plug_in(lab);
        let server = ScriptedDhcp::start(lab, [3, 100, 200], Mood::Generous);
        let mut network = lab.boot("ip=eth0:dhcp");
        lab.until(&mut network, "a lease", |s| {
            has(s, "eth0", "192.0.2.100/24")
        })
        .await;
        {
            let mut script = server.script();
            script.mood = Mood::Forgetful;
            script.address = [192, 0, 2, 200].into();
        }
        let state = lab
            .until(&mut network, "another lease", |s| {
                has(s, "eth0", "192.0.2.200/24")
            })
            .await;
        assert!(!has(&state, "eth0", "192.0.2.100/24"));
        for line in [
            "WARN eth0 DHCP: the lease has ended; asking for another",
            "ERROR eth0 address 192.0.2.100/24 has become 192.0.2.200/24: ",
        ] {
            let said = lab.said();
            assert!(said.iter().any(|l| l.starts_with(line)), "{said:#?}");
        }
    });
}

#[test]
fn an_offer_that_is_taken_back_is_asked_for_again() {
    on_a_machine(async |lab| {
        plug_in(lab);
        let _server = ScriptedDhcp::start(lab, LONG, Mood::Moody);
        let mut network = lab.boot("ip=eth0:dhcp");
        lab.until_said("WARN eth0 DHCP: server 192.0.2.1 has taken its offer back")
            .await;
        lab.until(&mut network, "a lease", |s| {
            has(s, "eth0", "192.0.2.100/24")
        })
        .await;
    });
}

#[test]
fn another_server_takes_over_a_lease() {
    on_a_machine(async |lab| {
        plug_in(lab);
        let server = ScriptedDhcp::start(lab, [2, 5, 200], Mood::Generous);
        let mut network = lab.boot("ip=eth0:dhcp");
        lab.until(&mut network, "a lease", |s| {
            has(s, "eth0", "192.0.2.100/24")
        })
        .await;
        // At T1 the client asks the server of the lease, in vain. At T2 it asks all
        // servers.
        server.script().mood = Mood::Silent;
        let requests = server.heard(MessageType::Request);
        lab.until_so("a question in vain", || {
            server.heard(MessageType::Request) > requests
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
        assert!(!lab.said().iter().any(ended), "{:#?}", lab.said());
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
        lab.until_said(
            "INFO eth0 192.0.2.100/24 from DHCP server 192.0.2.1 for 200 s, gateway 192.0.2.1",
        )
        .await;
        {
            let mut script = server.script();
            script.mood = Mood::Forgetful;
            script.address = [192, 0, 2, 200].into();
        }
        let state = lab
            .until(&mut network, "another lease", |s| {
                has(s, "eth0", "192.0.2.200/24")
            })
            .await;
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
