//! Tests of static addresses that another machine has.

use super::*;
use crate::lab::on_a_machine;

#[test]
fn a_static_address_of_another_machine_is_given_back_until_that_one_is_gone() {
    on_a_machine(async |lab| {
        lab.plug_in(0);
        lab.port("link set port0 address 52:54:00:00:00:99");
        lab.port("addr add 192.0.2.1/24 dev port0");
        lab.port("addr add 192.0.2.10/24 dev port0");
        lab.port("link set port0 up");
        let mut network = lab.boot("ip=192.0.2.10::192.0.2.1:24::eth0:none");
        lab.until_logged(
            "ERROR eth0 192.0.2.10/24: 52:54:00:00:00:99 on this link has the address; \
             it is not used until that machine is gone -- give one of them another address",
        )
        .await;
        until_nic(
            lab,
            &mut network,
            "the address gone, and why",
            "eth0",
            |nic| {
                let trouble = nic.trouble.as_deref().unwrap_or_default();
                nic.addresses.is_empty() && trouble.contains("52:54:00:00:00:99")
            },
        )
        .await;

        lab.port("addr del 192.0.2.10/24 dev port0");
        until_has(lab, &mut network, "eth0", "192.0.2.10/24").await;
        lab.until_so("the routes back", || {
            ip_output("route").contains("default via 192.0.2.1 dev eth0")
        })
        .await;
        assert!(answers("192.0.2.1"), "the neighbour");
    });
}

/// The kernel checks each address only once, when it is added.
#[test]
fn a_static_ipv6_address_comes_back_when_the_other_machine_is_gone() {
    on_a_machine(async |lab| {
        lab.plug_in_up(0, &["2001:db8::10/64"]);
        let mut network = lab.boot("ip=[2001:db8::10]:::64::eth0:none");
        lab.until_logged(
            "WARN eth0 2001:db8::10/64: another machine on this link has the address; \
             it is not used",
        )
        .await;
        lab.port("addr del 2001:db8::10/64 dev port0");
        lab.until_logged("INFO eth0 2001:db8::10/64: nobody else on this link has the address now")
            .await;
        let state = until_has(lab, &mut network, "eth0", "2001:db8::10/64").await;
        assert_eq!(nic(&state, "eth0").unwrap().trouble, None);
    });
}

/// By default Linux answers on every NIC for the addresses of all NICs.
#[test]
fn the_other_nic_of_the_same_machine_is_not_another_machine() {
    on_a_machine(async |lab| {
        lab.port("link add bridge0 type bridge");
        for number in 0..2 {
            lab.plug_in(number);
            lab.port(&format!("link set port{number} master bridge0 up"));
        }
        lab.port("addr add 192.0.2.1/24 dev bridge0");
        lab.port("link set bridge0 up");
        let mut network = lab.boot("ip=192.0.2.10:::24::eth0:none ip=192.0.2.11:::24::eth1:none");
        lab.until(&mut network, "both addresses", |s| {
            has(s, "eth0", "192.0.2.10/24") && has(s, "eth1", "192.0.2.11/24")
        })
        .await;
        // This pause is longer than the probes take.
        sleep(Duration::from_millis(600)).await;
        let state = network.borrow().clone();
        assert!(
            has(&state, "eth0", "192.0.2.10/24"),
            "{:#?}",
            lab.log_lines()
        );
        assert!(
            has(&state, "eth1", "192.0.2.11/24"),
            "{:#?}",
            lab.log_lines()
        );
        assert!(!lab.log_lines().iter().any(|line| line.starts_with("ERROR")));
    });
}
