//! Tests of the whole network task with a real kernel and real servers.

mod automatic_ipv6;
mod devices;
mod duplicates;
mod leases;
mod names;
mod preference;
mod scripted_dhcp;
mod stacked;

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use landfall_network_plan::Source;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::sleep;

use super::state::{AddressOrigin, AddressState, NetworkState, NicState};
use crate::lab::{Lab, ip, ip_output, on_a_machine};

type Network = watch::Receiver<NetworkState>;

const POOL: &str = "--dhcp-range=192.0.2.100,192.0.2.150,255.255.255.0,1h";

fn nic<'a>(state: &'a NetworkState, name: &str) -> Option<&'a NicState> {
    state.nics.iter().find(|nic| nic.name == name)
}

fn has(state: &NetworkState, name: &str, address: &str) -> bool {
    nic(state, name).is_some_and(|nic| {
        let wanted = |a: &&AddressState| a.usable && a.prefix.to_string() == address;
        nic.addresses.iter().any(|a| wanted(&a))
    })
}

fn origin(state: &NetworkState, name: &str, origin: AddressOrigin) -> Option<IpAddr> {
    let addresses = &nic(state, name)?.addresses;
    let found = addresses.iter().find(|a| a.usable && a.origin == origin)?;
    Some(found.prefix.address)
}

/// Waits until the NIC has the address and may use it.
async fn until_has(lab: &Lab, network: &mut Network, name: &str, address: &str) -> NetworkState {
    let what = format!("{address} on {name}");
    lab.until(network, &what, |s| has(s, name, address)).await
}

/// Waits until the NIC is there and meets the condition.
async fn until_nic(
    lab: &Lab,
    network: &mut Network,
    what: &str,
    name: &str,
    is_so: impl Fn(&NicState) -> bool,
) -> NetworkState {
    let is_so = |s: &NetworkState| nic(s, name).is_some_and(&is_so);
    lab.until(network, what, is_so).await
}

/// Whether packets reach the address and come back: nobody listens on port 9, so
/// the answer is a refusal.
fn answers(address: &str) -> bool {
    let target = SocketAddr::new(address.parse().unwrap(), 9);
    let refused = TcpStream::connect_timeout(&target, Duration::from_secs(5)).unwrap_err();
    refused.kind() == std::io::ErrorKind::ConnectionRefused
}

#[test]
fn static_ipv4_with_routes_name_and_resolver() {
    on_a_machine(async |lab| {
        lab.plug_in_up(0, &["192.0.2.1/24"]);
        lab.port("addr add 198.51.100.1/32 dev lo");
        let mut network = lab.boot(
            "ip=192.0.2.10::192.0.2.1:255.255.255.0:node7:eth0:none:1400 \
             nameserver=192.0.2.53 rd.route=10.1.2.3/16:192.0.2.9:eth0",
        );
        let state = until_has(lab, &mut network, "eth0", "192.0.2.10/24").await;
        let found = &nic(&state, "eth0").unwrap().addresses;
        assert_eq!(found.len(), 1, "IPv6 is off: {found:?}");
        assert_eq!(
            found[0].origin,
            AddressOrigin::Plan(Source::KernelArguments)
        );
        lab.until(&mut network, "DNS", |s| !s.dns.is_empty()).await;

        assert!(answers("192.0.2.1"), "the neighbour");
        assert!(answers("198.51.100.1"), "behind the gateway");
        let routes = ip_output("route");
        assert!(
            routes.contains("10.1.0.0/16 via 192.0.2.9 dev eth0"),
            "{routes}"
        );
        assert!(ip_output("link show eth0").contains("mtu 1400"));
        assert_eq!(lab.resolv_conf(), "nameserver 192.0.2.53\n");
        assert_eq!(nix::unistd::gethostname().unwrap(), "node7");
        let lines = lab.log_lines();
        for line in [
            "INFO plan: eth0: IPv4 192.0.2.10/24, gateway 192.0.2.1, 10.1.2.3/16 via 192.0.2.9, DNS 192.0.2.53",
            "INFO eth0 (52:54:00:00:00:00) carrier up",
            "INFO eth0 192.0.2.10/24 from kernel argument ip=",
        ] {
            assert!(lines.iter().any(|l| l == line), "{line}\n{lines:#?}");
        }
        assert!(!lines.iter().any(|l| l.starts_with("WARN")), "{lines:#?}");
    });
}

const NETWORK_DATA: &str = r#"{
    "links": [{"id": "port-1", "type": "phy", "ethernet_mac_address": "52:54:00:00:00:00"}],
    "networks": [{"id": "n", "type": "ipv4", "link": "port-1", "ip_address": "192.0.2.11",
        "netmask": "255.255.255.0",
        "routes": [{"network": "0.0.0.0", "netmask": "0.0.0.0", "gateway": "192.0.2.1"}]}],
    "services": [{"type": "dns", "address": "192.0.2.53"}]}"#;

#[test]
fn network_data_takes_precedence_over_kernel_arguments() {
    on_a_machine(async |lab| {
        lab.plug_in(0);
        lab.plug_in(1);
        lab.port("addr add 192.0.2.1/24 dev port0");
        lab.port("addr add 198.51.100.1/32 dev lo");
        lab.port("link set port0 up");
        lab.port("link set port1 up");
        let mut network = lab.boot_from(Some(NETWORK_DATA), "ip=192.0.2.99:::24::eth0:none");
        let state = until_has(lab, &mut network, "eth0", "192.0.2.11/24").await;
        let found = &nic(&state, "eth0").unwrap().addresses;
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].origin, AddressOrigin::Plan(Source::NetworkData));
        lab.until(&mut network, "DNS", |s| !s.dns.is_empty()).await;
        assert!(answers("198.51.100.1"), "behind the gateway");
        assert_eq!(lab.resolv_conf(), "nameserver 192.0.2.53\n");
        for line in [
            "INFO source: network_data of the boot medium",
            "INFO eth0 192.0.2.11/24 from network_data",
            "WARN ip=192.0.2.99:::24::eth0:none: ignored, because there is network_data",
        ] {
            lab.until_logged(line).await;
        }
        let file = lab.state_file();
        assert_eq!(file["source"], "network_data");
        assert_eq!(file["nics"][0]["name"], "eth0");
        assert_eq!(
            file["nics"][0]["addresses"][0],
            json!({"address": "192.0.2.11/24", "origin": "network_data", "usable": true})
        );
        assert_eq!(
            file["nics"][0]["plan"],
            "the NIC with MAC 52:54:00:00:00:00"
        );
        assert_eq!(file["nics"][1]["plan"], "any NIC");
    });
}

#[test]
fn faulty_network_data_is_reported_and_kernel_arguments_are_used() {
    on_a_machine(async |lab| {
        lab.plug_in_up(0, &[]);
        let cut = &NETWORK_DATA[..100];
        let mut network = lab.boot_from(Some(cut), "ip=192.0.2.99:::24::eth0:none");
        until_has(lab, &mut network, "eth0", "192.0.2.99/24").await;
        let loud = |line: &String| {
            line.starts_with("ERROR network_data: expected JSON: EOF")
                && line.ends_with("; it is not used")
        };
        assert!(lab.log_lines().iter().any(loud), "{:#?}", lab.log_lines());
        let file = lab.state_file();
        assert_eq!(file["source"], "kernel_arguments");
        assert_eq!(file["faults"].as_array().unwrap().len(), 1);
    });
}

#[test]
fn a_bridge_joins_its_ports_and_has_the_address() {
    on_a_machine(async |lab| {
        for number in 0..2 {
            lab.plug_in_up(number, &[]);
        }
        lab.port("addr add 192.0.2.1/24 dev port1");
        let arguments = "bridge=br0:eth0,52-54-00-00-00-01 ip=192.0.2.10:::24::br0:none";
        // In the second run everything exists already.
        for _ in 0..2 {
            let mut network = lab.boot(arguments);
            let state = lab
                .until(&mut network, "the address", |s| {
                    has(s, "br0", "192.0.2.10/24") && nic(s, "br0").is_some_and(|nic| nic.carrier)
                })
                .await;
            assert!(nic(&state, "br0").unwrap().is_online());
            lab.until_so("the way over a port", || answers("192.0.2.1"))
                .await;
            assert_eq!(state.macs(false, None).len(), 2, "of the NICs alone");
        }
        lab.until_logged("INFO eth0 is a port of br0").await;
        let ports = ip_output("link show master br0");
        assert!(ports.contains("eth0") && ports.contains("eth1"), "{ports}");
        // A bridge without ports has a carrier for a moment.
        let is_fault = |line: &String| line.starts_with("WARN") && !line.ends_with("carrier lost");
        let lines = lab.log_lines();
        assert!(!lines.iter().any(is_fault), "{lines:#?}");
    });
}

#[test]
fn an_ipv6_address_of_another_machine_is_not_used() {
    on_a_machine(async |lab| {
        lab.plug_in_up(0, &["2001:db8::10/64"]);
        let mut network = lab.boot("ip=[2001:db8::10]:::64::eth0:none");
        let state = until_nic(lab, &mut network, "trouble", "eth0", |nic| {
            nic.trouble.is_some()
        })
        .await;
        assert!(!has(&state, "eth0", "2001:db8::10/64"));
        let line = "WARN eth0 2001:db8::10/64: another machine on this link has the address; it is not used";
        assert!(
            lab.log_lines().iter().any(|l| l == line),
            "{:#?}",
            lab.log_lines()
        );
    });
}

#[test]
fn a_cable_that_is_plugged_in_late_is_noticed() {
    on_a_machine(async |lab| {
        lab.plug_in(0);
        lab.port("addr add 192.0.2.1/24 dev port0");
        let _server = lab.dnsmasq("port0", &[POOL]);
        let mut network = lab.boot("ip=dhcp rd.net.timeout.carrier=1");
        let state = lab
            .until(&mut network, "the NIC", |s| nic(s, "eth0").is_some())
            .await;
        assert!(!nic(&state, "eth0").unwrap().carrier);
        lab.until_logged("INFO eth0 (52:54:00:00:00:00) no carrier")
            .await;

        lab.port("link set port0 up");
        let online = |s: &NetworkState| nic(s, "eth0").is_some_and(NicState::is_online);
        let state = lab.until(&mut network, "a lease", online).await;
        let first = nic(&state, "eth0").unwrap().addresses.clone();

        // The cable is unplugged and plugged in again. The NIC gets the same lease, and
        // nothing is restarted.
        lab.port("link set port0 down");
        lab.until(&mut network, "no carrier", |s| !online(s)).await;
        lab.port("link set port0 up");
        let state = lab.until(&mut network, "the carrier again", online).await;
        let same = |a: &AddressState| first.iter().any(|b| a.prefix == b.prefix);
        assert!(nic(&state, "eth0").unwrap().addresses.iter().any(same));
    });
}

#[test]
fn a_nic_that_appears_late_gets_its_part_of_the_plan() {
    on_a_machine(async |lab| {
        lab.plug_in_up(0, &[]);
        let mut network = lab.boot("ip=192.0.2.20:::24::52-54-00-00-00-01:none");
        until_nic(lab, &mut network, "the first NIC", "eth0", |nic| {
            nic.carrier
        })
        .await;
        lab.plug_in_up(1, &[]);
        let state = until_has(lab, &mut network, "eth1", "192.0.2.20/24").await;
        assert_eq!(nic(&state, "eth0").unwrap().addresses, []);
        ip("link del eth1");
        lab.until(&mut network, "it to be gone", |s| nic(s, "eth1").is_none())
            .await;
    });
}

#[test]
fn an_address_for_any_nic_goes_to_the_first_with_a_carrier() {
    on_a_machine(async |lab| {
        lab.plug_in(0);
        lab.plug_in_up(1, &[]);
        let mut network = lab.boot("ip=192.0.2.20:::24:::none");
        until_has(lab, &mut network, "eth1", "192.0.2.20/24").await;
        lab.port("link set port0 up");
        let state = until_nic(lab, &mut network, "the other carrier", "eth0", |nic| {
            nic.carrier
        })
        .await;
        assert_eq!(nic(&state, "eth0").unwrap().addresses, []);
    });
}

#[test]
fn ip_off_means_that_no_packet_leaves() {
    on_a_machine(async |lab| {
        lab.plug_in_up(0, &[]);
        let mut network = lab.boot("ip=off");
        until_nic(lab, &mut network, "the carrier", "eth0", |nic| nic.carrier).await;
        sleep(Duration::from_secs(3)).await;
        let statistics = ip_output("-s link show eth0");
        let sent = statistics.lines().last().unwrap();
        assert!(sent.trim_start().starts_with("0 "), "{statistics}");
        assert_eq!(network.borrow().nics[0].addresses, []);
    });
}

#[test]
fn a_second_start_finds_everything_done() {
    on_a_machine(async |lab| {
        lab.plug_in_up(0, &[]);
        let arguments = "ip=192.0.2.10::192.0.2.1:24::eth0:none:1400:52:54:00:00:00:0a \
                         ip=[2001:db8::10]::[2001:db8::1]:64::eth0:none";
        for _ in 0..2 {
            let mut network = lab.boot(arguments);
            let state = lab
                .until(&mut network, "both addresses", |s| {
                    has(s, "eth0", "192.0.2.10/24") && has(s, "eth0", "2001:db8::10/64")
                })
                .await;
            assert_eq!(
                nic(&state, "eth0").unwrap().mac.to_string(),
                "52:54:00:00:00:0a"
            );
        }
        let routes = ip_output("route") + &ip_output("-6 route");
        assert_eq!(routes.matches("default via").count(), 2, "{routes}");
        assert!(
            !lab.log_lines().iter().any(|l| l.starts_with("WARN")),
            "{:#?}",
            lab.log_lines()
        );
    });
}

#[test]
fn the_boot_nic_is_preferred_by_default() {
    on_a_machine(async |lab| {
        lab.plug_in(0);
        lab.plug_in(1);
        lab.port("link add bridge0 type bridge");
        for port in ["port0", "port1"] {
            lab.port(&format!("link set {port} master bridge0 up"));
        }
        lab.port("addr add 192.0.2.1/24 dev bridge0");
        lab.port("link set bridge0 up");
        let _server = lab.dnsmasq("bridge0", &[POOL]);
        let mut network = lab.boot("BOOTIF=01-52-54-00-00-00-01 ipa-api-url=http://192.0.2.1:6385");
        lab.until(&mut network, "both leases", |s| {
            s.nics.len() == 2 && s.nics.iter().all(NicState::is_online)
        })
        .await;
        let way = ip_output("route get 203.0.113.1");
        assert!(way.contains("dev eth1"), "{way}\n{}", ip_output("route"));
    });
}

#[test]
fn lock_down_leaves_no_link_up() {
    on_a_machine(async |lab| {
        for number in [0, 1] {
            lab.plug_in_up(number, &[]);
            ip(&format!("link set eth{number} up"));
        }
        let up = || ip_output("-o link show up").matches(": eth").count();
        assert_eq!(up(), 2);
        assert_eq!(landfall_sys::link_flags::take_all_down(), [""; 0]);
        assert_eq!(up(), 0, "{}", ip_output("link"));
    });
}

#[test]
fn another_plan_finds_the_nics_as_at_boot() {
    on_a_machine(async |lab| {
        lab.plug_in_up(0, &["192.0.2.1/24"]);
        for command in [
            "link add br0 type bridge",
            "addr add 198.51.100.10/24 dev br0",
            "link set br0 up",
            "addr add 192.0.2.10/24 dev eth0",
            "addr add 2001:db8::10/64 dev eth0",
            "link set eth0 up",
            "route add default via 192.0.2.1",
        ] {
            ip(command);
        }
        crate::forget().await.unwrap();
        let left = ip_output("-o addr show scope global") + &ip_output("route");
        assert_eq!(left, "");
        let links = ip_output("-o link");
        assert!(!links.contains("br0"), "{links}");
        let mut network = lab.boot("ip=192.0.2.20:::24::eth0:none");
        until_has(lab, &mut network, "eth0", "192.0.2.20/24").await;
    });
}
