use std::time::Instant;

use landfall_network::lab::{address, ip, nic, on_a_machine};
use landfall_network::state::NicState;
use tempfile::TempDir;

use super::*;

fn rules() -> AdvertiseRules {
    AdvertiseRules {
        host: None,
        interface: None,
        attempts: 2,
        pause: Duration::from_millis(100),
    }
}

fn urls(list: &[&str]) -> Vec<String> {
    list.iter().map(|url| (*url).to_owned()).collect()
}

#[test]
fn loopback_is_reached_from_loopback() {
    let service = SocketAddr::from((Ipv4Addr::LOCALHOST, 6385));
    assert_eq!(
        source_address_towards(service),
        Ok(IpAddr::V4(Ipv4Addr::LOCALHOST))
    );
}

#[test]
fn a_host_is_fit_for_a_url() {
    for (given, host) in [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8::7", "[2001:db8::7]"),
        ("[2001:db8::7]", "[2001:db8::7]"),
        ("agent.example", "agent.example"),
    ] {
        assert_eq!(Advertised::parse(given).in_url(), host);
    }
}

#[test]
fn the_address_is_configured_or_stored_or_found_by_route() {
    on_a_machine(async |lab| {
        let dir = TempDir::new().unwrap();
        let kept = StateFile::new(dir.path(), "advertised");
        for number in [0, 1] {
            lab.plug_in_up(number, &[]);
        }
        let mut network =
            lab.boot("ip=192.0.2.10:::24::eth0:none ip=198.51.100.10:::24::eth1:none");
        let online =
            |state: &NetworkState| state.nics.iter().filter(|nic| nic.is_online()).count() == 2;
        lab.until(&mut network, "two addresses", online).await;
        let advertised = async |rules: AdvertiseRules, places: &[&str]| {
            let mut network = network.clone();
            let found = advertise(&rules, &urls(places), &mut network, &kept).await;
            found.map(|host| host.to_string())
        };

        let configured = AdvertiseRules {
            host: Some("agent.example".to_owned()),
            ..rules()
        };
        assert_eq!(advertised(configured, &[]).await.unwrap(), "agent.example");
        let far = "http://203.0.113.1:6385";
        let since = Instant::now();
        let fault = advertised(rules(), &[far]).await.unwrap_err();
        assert!(fault.details.contains("no route to 203.0.113.1"), "{fault}");
        assert!(
            since.elapsed() >= Duration::from_millis(100),
            "a second round"
        );

        // The first URL that has a route is used.
        let near = "http://198.51.100.1:6385";
        assert_eq!(
            advertised(rules(), &[far, near]).await.as_deref(),
            Ok("198.51.100.10")
        );
        // After a restart the address stays, even if the routes have changed ...
        assert_eq!(
            advertised(rules(), &["http://192.0.2.1"]).await.as_deref(),
            Ok("198.51.100.10")
        );
        // ... unless the machine no longer has it.
        kept.store(b"192.0.2.77").unwrap();
        assert_eq!(
            advertised(rules(), &["http://192.0.2.1"]).await.as_deref(),
            Ok("192.0.2.10")
        );

        kept.remove();
        let nic = |name: &str| AdvertiseRules {
            interface: Some(name.to_owned()),
            ..rules()
        };
        assert_eq!(
            advertised(nic("eth1"), &["http://192.0.2.1"])
                .await
                .as_deref(),
            Ok("198.51.100.10")
        );
        kept.remove();
        let fault = advertised(nic("eth7"), &[near]).await.unwrap_err();
        assert!(
            fault
                .details
                .contains("ipa-network-interface=eth7: there is no such NIC"),
            "{fault}"
        );
    });
}

#[test]
fn a_link_local_service_gets_a_global_address() {
    on_a_machine(async |lab| {
        lab.plug_in_up(0, &[]);
        ip("link set eth0 up");
        // Do not wait for duplicate address detection.
        ip("addr add fe80::10/64 dev eth0 nodad");
        let link = urls(&["http://[fe80::1%25eth0]:6385"]);
        let fault = source_towards(&link).await.unwrap_err();
        assert!(
            fault.details.contains("link-local address fe80::"),
            "{fault}"
        );
        ip("addr add 2001:db8::10/64 dev eth0 nodad");
        let source = source_towards(&link).await;
        assert_eq!(source, Ok("2001:db8::10".parse().unwrap()));
        let unknown = source_towards(&urls(&["http://[fe80::1%25eth9]"]))
            .await
            .unwrap_err();
        assert!(unknown.details.contains("no interface eth9"), "{unknown}");
    });
}

fn network_with(addresses: &[&str]) -> NetworkState {
    let origin = AddressOrigin::Dhcp([192, 0, 2, 1].into());
    let address = |text: &&str| address(&format!("{text}/24"), origin);
    NetworkState {
        nics: vec![NicState {
            addresses: addresses.iter().map(address).collect(),
            ..nic(1, false)
        }],
        ..NetworkState::default()
    }
}

/// Each case has the states of the network while the DHCP client rebinds, and says
/// whether the agent has lost the address that Ironic knows.
#[tokio::test(start_paused = true)]
async fn an_address_is_lost_when_another_has_taken_its_place() {
    let own = Advertised::parse("192.0.2.10");
    let long = Duration::from_secs(3600);
    for (advertised, states, is_lost) in [
        (&own, &[&["192.0.2.10"][..], &[], &["192.0.2.99"]][..], true),
        (&own, &[&["192.0.2.10"], &["192.0.2.99"]], true),
        (
            &own,
            &[&["192.0.2.10"], &["192.0.2.99", "192.0.2.10"]],
            false,
        ),
        // There is no other address to advertise.
        (&own, &[&["192.0.2.10"], &[]], false),
        // The same address comes back.
        (
            &own,
            &[&["192.0.2.10"], &[], &["192.0.2.99"], &["192.0.2.10"]],
            false,
        ),
        // An address that the operator configured: that of a host that forwards to this
        // machine.
        (&own, &[&["198.51.100.1"], &["198.51.100.2"]], false),
        (
            &Advertised::parse("node.example"),
            &[&["192.0.2.10"], &["192.0.2.99"]],
            false,
        ),
    ] {
        let (sender, mut network) = watch::channel(network_with(states[0]));
        let play = async {
            for state in &states[1..] {
                tokio::time::sleep(Duration::from_secs(1)).await;
                sender.send_replace(network_with(state));
            }
            tokio::time::sleep(long).await;
        };
        let lost = tokio::select! {
            () = address_lost(advertised, &mut network) => true,
            () = play => false,
        };
        assert_eq!(lost, is_lost, "{advertised} {states:?}");
    }
}
