//! Tests against avahi-daemon in separate network namespaces.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;

use landfall_http_client::fixtures::{Reply, Server};
use landfall_http_client::{HttpOptions, ServiceClient};
use landfall_network::NetworkState;
use landfall_network::lab::{Lab, ip, on_a_machine};
use landfall_network::reach::Reach;
use landfall_sys::skip::skip;
use tempfile::TempDir;
use tokio::sync::watch;

use super::*;
use crate::clock::Clock;
use crate::{Expected, Place, Wanted, find};

fn question() -> Question {
    Question {
        instances: &["baremetal"],
        attempts: 3,
        interfaces: Vec::new(),
        https_only: false,
    }
}

/// Without this rule any host that answers first could switch the verification
/// of servers off.
#[test]
fn an_answer_without_tls_is_refused_where_servers_are_verified() {
    let strict = Question {
        https_only: true,
        ..question()
    };
    for (url, question, allowed) in [
        ("http://192.0.2.1:6385", &question(), true),
        ("https://192.0.2.1:6385", &strict, true),
        ("http://192.0.2.1:6385", &strict, false),
    ] {
        let endpoint = Endpoint {
            url: url.to_owned(),
            settings: Vec::new(),
        };
        let outcome = endpoint.allowed(question);
        assert_eq!(outcome.is_ok(), allowed, "{url}: {outcome:?}");
    }
}

/// An avahi-daemon in the namespace of the network. It is stopped on drop.
struct Publisher {
    child: Child,
    _files: TempDir,
}

impl Publisher {
    /// Publishes static services on one interface. Returns `None` if avahi is not
    /// installed.
    fn start(lab: &Lab, interface: &str, services: &[(&str, &str)]) -> Option<Self> {
        if Command::new("avahi-daemon")
            .arg("--version")
            .output()
            .is_err()
        {
            skip("there is no avahi-daemon here");
            return None;
        }
        let files = TempDir::new().unwrap();
        for (number, (name, rest)) in services.iter().enumerate() {
            let text = format!(
                "<?xml version=\"1.0\"?><!DOCTYPE service-group SYSTEM \"avahi-service.dtd\">\
                 <service-group><name>{name}</name><service><type>_openstack._tcp</type>{rest}\
                 </service></service-group>"
            );
            fs::write(files.path().join(format!("{number}.service")), text).unwrap();
        }
        let config = files.path().join("avahi.conf");
        fs::write(
            &config,
            format!(
                "[server]\nhost-name=lab\nenable-dbus=no\nallow-interfaces={interface}\n\
                 use-ipv4=yes\nuse-ipv6=yes\n[publish]\npublish-hinfo=no\npublish-workstation=no\n"
            ),
        )
        .unwrap();
        // avahi has fixed directories for services and for the PID file, so temporary
        // directories are mounted over them.
        let script = format!(
            "mount --bind {} /etc/avahi/services && mkdir -p /run/avahi-daemon && \
             mount -t tmpfs none /run/avahi-daemon && \
             exec avahi-daemon -f {} --no-drop-root --no-chroot --no-rlimits",
            files.path().display(),
            config.display()
        );
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "sh", "-c", &script])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = lab.on_network(move || command.spawn().unwrap());
        Some(Self {
            child,
            _files: files,
        })
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Repeats the query until the answer has this URL. avahi probes for a second before it
/// publishes, and separately for each address family.
async fn found(question: &Question, url: &str) -> Endpoint {
    let mut last = String::new();
    for _ in 0..8 {
        match ask_network(question).await {
            Ok((_, endpoint)) if endpoint.url == url => return endpoint,
            Ok((_, endpoint)) => last = endpoint.url,
            Err(failure) => last = failure.details,
        }
    }
    panic!("expected {url}, found {last}");
}

fn two_nics(lab: &Lab) {
    for number in [0, 1] {
        lab.plug_in(number);
        lab.port(&format!("addr add 192.0.{number}.1/24 dev port{number}"));
        lab.port(&format!("link set port{number} up"));
        ip(&format!("addr add 192.0.{number}.10/24 dev eth{number}"));
        ip(&format!("link set eth{number} up"));
    }
}

const TXT: &str = "<port>6385</port><txt-record>protocol=http</txt-record>\
    <txt-record>path=/baremetal</txt-record><txt-record>ipa_ntp_server=192.0.1.9</txt-record>";

#[test]
fn ironic_is_found_behind_the_second_nic() {
    on_a_machine(async |lab| {
        two_nics(lab);
        let services = [("nova", "<port>80</port>"), ("baremetal", TXT)];
        let Some(_avahi) = Publisher::start(lab, "port1", &services) else {
            return;
        };
        let endpoint = found(&question(), "http://192.0.1.1:6385/baremetal").await;
        assert_eq!(
            endpoint.settings,
            [("ipa_ntp_server".to_owned(), "192.0.1.9".to_owned())]
        );
        // Asks only on the operator's interface, where no host publishes.
        let elsewhere = Question {
            interfaces: vec!["192.0.0.10".to_owned(), "no address".to_owned()],
            attempts: 1,
            ..question()
        };
        let fault = ask_network(&elsewhere).await.unwrap_err();
        assert!(
            fault
                .details
                .contains("nobody on this network publishes baremetal"),
            "{fault}"
        );
    });
}

#[test]
fn a_name_outside_of_local_stays_a_name_and_the_inspector_is_preferred() {
    on_a_machine(async |lab| {
        two_nics(lab);
        let services = [
            (
                "baremetal",
                "<host-name>ironic.example</host-name><port>443</port>",
            ),
            ("baremetal-introspection", "<port>80</port>"),
        ];
        let Some(_avahi) = Publisher::start(lab, "port0", &services) else {
            return;
        };
        let both = Question {
            instances: &["baremetal-introspection", "baremetal"],
            ..question()
        };
        found(&both, "http://192.0.0.1:80").await;
    });
}

#[test]
fn a_network_of_link_local_ipv6_is_enough() {
    on_a_machine(async |lab| {
        lab.plug_in_up(0, &[]);
        ip("link set eth0 up");
        let Some(_avahi) = Publisher::start(lab, "port0", &[("baremetal", "<port>80</port>")])
        else {
            return;
        };
        serve(lab);
        let client = ServiceClient::new(&HttpOptions::default()).unwrap();
        let wanted = Wanted {
            what: crate::PROVISIONING_SERVICE,
            place: Place::Mdns(question()),
            expected: Expected::Ironic,
            timeout: ATTEMPT_LIMIT,
            must_be_trusted: false,
        };
        let (_, mut network) = watch::channel(NetworkState::default());
        let (reach, _) = watch::channel(Reach::default());
        let mut clock = Clock::of_another_system();
        let search = find(&client, &wanted, &mut network, &reach, &mut clock)
            .await
            .unwrap();
        let url = &search.urls[0];
        assert!(
            url.starts_with("http://[fe80::") && url.ends_with("%25eth0]:80"),
            "{url}"
        );
        assert_eq!(search.document, ROOT_DOCUMENT);
    });
}

const ROOT_DOCUMENT: &str = r#"{"default_version": {"id": "v1"}}"#;

/// An HTTP server in the network, on all addresses.
fn serve(lab: &Lab) {
    let listener = lab.on_network(|| TcpListener::bind("[::]:80").unwrap());
    Server::on(listener, None, |asked| {
        // The server must not see the zone.
        let host = asked.header("host").unwrap();
        assert!(host.starts_with("[fe80::") && !host.contains('%'), "{host}");
        Reply::new(200, ROOT_DOCUMENT)
    });
}

#[test]
fn a_missing_publisher_is_reported_after_three_attempts() {
    on_a_machine(async |lab| {
        two_nics(lab);
        let since = Instant::now();
        ask_network(&question()).await.unwrap_err();
        let took = since.elapsed();
        assert!(
            took >= 3 * ATTEMPT_LIMIT && took < 5 * ATTEMPT_LIMIT,
            "{took:?}"
        );
    });
}

/// Other packets on the mDNS port do not prevent a valid answer from being found.
#[test]
fn garbage_on_the_link_does_no_harm() {
    on_a_machine(async |lab| {
        two_nics(lab);
        let Some(_avahi) = Publisher::start(lab, "port1", &[("baremetal", TXT)]) else {
            return;
        };
        let socket = lab.on_network(|| std::net::UdpSocket::bind("192.0.1.1:0").unwrap());
        let noise = thread::spawn(move || {
            let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
            let text = fs::read(seeds).unwrap();
            for round in 0..2000_usize {
                let mut packet = text[round % 97..round % 97 + round % 400].to_vec();
                // An answer with many records, whose names point to themselves.
                if packet.len() > 14 {
                    packet[2..12].copy_from_slice(&[0x84, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 1]);
                    packet[12..14].copy_from_slice(&[0xc0, (round % 20) as u8]);
                }
                let _ = socket.send_to(&packet, "224.0.0.251:5353");
                thread::sleep(Duration::from_millis(1));
            }
        });
        let url = "http://192.0.1.1:6385/baremetal";
        let endpoint = found(&question(), url).await;
        noise.join().unwrap();
        // If a packet had ended avahi-daemon, there would be no more answers.
        assert_eq!(found(&question(), url).await, endpoint);
    });
}
