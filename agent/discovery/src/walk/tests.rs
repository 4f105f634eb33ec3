//! Tests with real sockets in a separate network namespace.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::thread;

use landfall_http_client::HttpOptions;
use landfall_network::lab::{Lab, ip, on_a_machine};

use super::*;

/// A machine with `eth0` and a network that does not forward.
fn plug_in(lab: &Lab) {
    lab.plug_in_up(0, &["192.0.2.1/24", "2001:db8::1/64"]);
    // The kernel reports an unreachable neighbour to itself over the loopback.
    ip("link set lo up");
    ip("addr add 192.0.2.10/24 dev eth0");
    ip("addr add 2001:db8::10/64 dev eth0 nodad");
    ip("link set eth0 up");
}

/// Serves this answer on the network's end of the link and returns the address.
fn serve(lab: &Lab, address: &'static str, answer: &'static str) -> SocketAddr {
    lab.on_network(move || {
        let listener = TcpListener::bind((address, 0)).unwrap();
        let at = listener.local_addr().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                // A client that only connects sends nothing.
                if stream.read(&mut [0; 4096]).is_ok_and(|read| read > 0) {
                    let _ = stream.write_all(answer.as_bytes());
                }
            }
        });
        at
    })
}

const GOOD: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";

fn walker(name: &str) -> Walker {
    Walker {
        client: ServiceClient::new(&HttpOptions::default()).unwrap(),
        start: Some(Start {
            index: if_nametoindex(name).unwrap(),
            name: name.to_owned(),
        }),
        limit: Duration::from_secs(10),
        expected: Expected::File,
    }
}

async fn steps(walker: &Walker, url: String) -> Vec<String> {
    let walks = walker.walk_to_any(&[url]).await;
    let shown = |step: &StepResult| {
        let outcome = step.outcome.name();
        format!("{} {outcome}: {}", step.step.name(), step.text)
    };
    walks[0].steps.iter().map(shown).collect()
}

#[test]
fn shows_which_step_fails() {
    on_a_machine(async |lab| {
        plug_in(lab);
        ip("route add 203.0.113.0/24 via 192.0.2.1");
        ip("route add 203.0.113.128/25 via 192.0.2.8");
        let good = serve(lab, "192.0.2.1", GOOD);
        let junk = serve(lab, "192.0.2.1", "SSH-2.0-OpenSSH\r\n");
        let walker = walker("eth0");
        let on_link = "route done: on the link";
        for (url, expected) in [
            (
                format!("http://{good}"),
                vec![on_link, "TCP done: ok", "HTTP done: status 200"],
            ),
            (
                "http://198.51.100.1:6385".to_owned(),
                vec!["route failed: no route to 198.51.100.1"],
            ),
            (
                "http://192.0.2.1:9".to_owned(),
                vec![on_link, "TCP failed: connection refused"],
            ),
            (
                // No neighbour has this address, so the kernel reports that there
                // is no route.
                "http://192.0.2.77:6385".to_owned(),
                vec![
                    on_link,
                    "TCP failed: no route to host -- nobody answers for 192.0.2.77 on the link of eth0: check the prefix length /24 (the netmask), the VLAN of the switch port, and that the host is up; a switch port may take 50 s to forward",
                ],
            ),
            (
                // No neighbour has the address of the gateway.
                "http://203.0.113.200:6385".to_owned(),
                vec!["route done: via 192.0.2.8", "TCP failed: no route to host"],
            ),
            (
                "http://203.0.113.9:6385".to_owned(),
                vec!["route done: via 192.0.2.1", "TCP failed: no answer in 8 s"],
            ),
        ] {
            assert_eq!(steps(&walker, url.clone()).await, expected, "{url}");
        }
        let tls = steps(&walker, format!("https://{good}")).await;
        assert!(tls[2].starts_with("TLS failed: "), "{tls:?}");
        let http = steps(&walker, format!("http://{junk}")).await;
        assert!(http[2].starts_with("HTTP failed: "), "{http:?}");
        let nonsense = steps(&walker, "nonsense".to_owned()).await;
        assert!(nonsense[0].starts_with("HTTP failed: "), "{nonsense:?}");
    });
}

/// A walk is bound to its NIC and does not use another NIC.
#[test]
fn a_walk_stays_on_its_nic() {
    on_a_machine(async |lab| {
        plug_in(lab);
        lab.plug_in_up(1, &[]);
        ip("addr add 192.0.2.11/24 dev eth1");
        ip("link set eth1 up");
        let good = serve(lab, "192.0.2.1", GOOD);
        let url = format!("http://{good}");
        let results = steps(&walker("eth0"), url.clone()).await;
        assert_eq!(results.last().unwrap(), "HTTP done: status 200");
        let results = steps(&walker("eth1"), url).await;
        assert!(results[1].starts_with("TCP failed: no "), "{results:?}");
    });
}

/// A dead URL delays the other URL only for a moment, and a dead address of a name
/// delays the other addresses only for a moment.
#[test]
fn a_dead_url_or_family_does_not_hold_up_the_other() {
    on_a_machine(async |lab| {
        plug_in(lab);
        // Packets to this address are lost without an error, the worst case.
        lab.on_network(|| ip("addr add 192.0.2.3/24 dev port0"));
        lab.on_network(|| ip("route add blackhole 192.0.2.10/32"));
        let alive = serve(lab, "2001:db8::1", GOOD);
        let walker = walker("eth0");
        let began = std::time::Instant::now();
        let urls = [
            "http://192.0.2.3:6385".to_owned(),
            format!("http://{alive}"),
        ];
        let walks = walker.walk_to_any(&urls).await;
        assert_eq!(walks[0].url, urls[1]);
        assert!(matches!(walks[0].outcome, Outcome::Expected(_)));
        let mut steps = Vec::new();
        let dead = SocketAddr::new([192, 0, 2, 3].into(), alive.port());
        for targets in [[dead, alive], [alive, dead]] {
            walker.connect(&targets, &mut steps).await.unwrap();
        }
        // A dead address of a name must not hold up the HTTP client either.
        let _ = landfall_http_client::fixtures::http_client();
        for addresses in [[dead, alive], [alive, dead]] {
            let client = reqwest::Client::builder()
                .no_proxy()
                .resolve_to_addrs("ironic.test", &addresses)
                .build()
                .unwrap();
            let answer = client.get("http://ironic.test/").send().await.unwrap();
            assert_eq!(answer.status(), 200, "{addresses:?}");
        }
        let took = began.elapsed();
        assert!(took < Duration::from_secs(3), "{took:?}");
    });
}

#[test]
fn no_nic_leads_to_the_loopback() {
    let walker = walker("eth0");
    for url in [
        "http://127.0.0.1:6385",
        "https://127.1.2.3",
        "http://[::1]:6385/v1",
        "http://localhost:6385",
    ] {
        assert!(!walker.is_meant(url), "{url}");
        let any_route = Walker {
            start: None,
            ..walker.clone()
        };
        assert!(any_route.is_meant(url), "{url}");
    }
    for url in ["http://192.0.2.1", "http://localhost.example", "nonsense"] {
        assert!(walker.is_meant(url), "{url}");
    }
}
