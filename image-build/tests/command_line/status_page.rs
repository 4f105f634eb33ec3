//! Tests the status page of `serve` in a browser, and that it shows no secrets.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use landfall_browser::{Browser, review};

use crate::service::{Service, fixture};

/// An NMState description of a bond with a VLAN. It is as long as those of real hosts.
fn bond(address: u32) -> String {
    format!(
        "# the password of the switch is S3CRET-COMMENT\ninterfaces:\n\
         - {{name: eno1, type: ethernet, state: up, mtu: 9000}}\n\
         - {{name: eno2, type: ethernet, state: up, mtu: 9000}}\n\
         - {{name: bond0, type: bond, state: up, mtu: 9000, link-aggregation: {{mode: 802.3ad, port: \
            [eno1, eno2]}}}}\n\
         - {{name: bond0.140, type: vlan, state: up, vlan: {{base-iface: bond0, id: 140}}, ipv4: \
            {{enabled: true, dhcp: false, address: [{{ip: 192.0.2.{address}, prefix-length: 24}}]}}, \
            ipv6: {{enabled: true, dhcp: false, autoconf: false, address: [{{ip: \
            '2001:db8:1234:5678::{address}', prefix-length: 64}}]}}}}\n\
         routes:\n  config: [{{destination: 0.0.0.0/0, next-hop-address: 192.0.2.1, \
            next-hop-interface: bond0.140}}]\n\
         dns-resolver:\n  config:\n    server: [192.0.2.53, '2001:db8:1234:5678::53']\n"
    )
}

/// Sends a request as a BMC does. Returns the length of the response in bytes, with its
/// headers.
fn read(service: &Service, path: &str, headers: &[&str]) -> usize {
    let mut stream = TcpStream::connect(&service.address).unwrap();
    let mut request = format!("GET {path} HTTP/1.0\r\n");
    for header in headers {
        write!(request, "{header}\r\n").unwrap();
    }
    write!(stream, "{request}\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap()
}

/// The texts that the page must not show.
const SECRETS: [&str; 6] = [
    "S3CRET-COMMENT",
    "S3CRET-TOKEN",
    "S3CRET-USER",
    "S3CRET-PASSWORD",
    "S3CRET-SITE",
    "S3CRET-AGENT",
];

#[test]
fn the_page_of_many_hosts_is_readable_and_has_no_secrets() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let fixture = fixture();
    for number in 0..118 {
        let name = format!(
            "hosts/rack-{:02}-node-{number:03}.example.org.yaml",
            number / 20
        );
        fixture.put(&name, bond(number + 60).as_bytes());
    }
    fixture.put("site.conf", b"[DEFAULT]\nagent_token = S3CRET-SITE\n");
    let service = Service::start(
        &fixture,
        &[
            "--config-file",
            "site.conf",
            "--karg",
            "ipa-agent-token=S3CRET-TOKEN",
            "--karg",
            "ipa-api-url=http://S3CRET-USER:S3CRET-PASSWORD@192.0.2.1:6385",
        ],
    );
    // The secrets are where they belong.
    let script = String::from_utf8(service.get("/node1.ipxe").1).unwrap();
    assert!(script.contains("S3CRET-TOKEN") && script.contains("S3CRET-PASSWORD"));
    let bmc = "User-Agent: iDRAC/9 (http://a:S3CRET-AGENT@example.org/)";
    let host = "/rack-00-node-007.example.org";
    for range in ["0-99999", "300000-449999", "1000000-1049999"] {
        read(
            &service,
            &format!("{host}.iso"),
            &[&format!("Range: bytes={range}"), bmc],
        );
    }
    read(&service, "/node1.iso", &["User-Agent: curl/7.88.1"]);
    read(&service, "/node2.initramfs", &["User-Agent: iPXE/1.21.1"]);
    read(&service, "/node2.ipxe", &["User-Agent: iPXE/1.21.1"]);

    let mut shown = String::new();
    for (name, path, expected) in [
        (
            "service",
            "/",
            &[
                "1 to 50 of 120",
                "page 1 of 3",
                "All 120",
                "Not read yet 117",
                "100 %",
                "iPXE/1.21.1",
            ][..],
        ),
        (
            "service-host",
            "/?search=node-007",
            &[
                "rack-00-node-007.example.org",
                "bond0: bond, mode 802.3ad, MTU 9000",
                "bond0.140: IPv4 192.0.2.67/24, 0.0.0.0/0 via 192.0.2.1",
                "3 requests by 127.0.0.1 (iDRAC/9",
                "300.0 kB of",
                "the last one",
            ],
        ),
        (
            "service-last",
            "/?page=3&show=never&follow=1",
            &["101 to 117 of 117", "Stop updating"],
        ),
        ("service-none", "/?search=nowhere", &["No host fits."]),
    ] {
        let url = format!("http://{}{path}", service.address);
        for seen in review(&mut browser, name, &url) {
            assert_eq!(seen.title, "Landfall image service");
            for text in expected {
                assert!(
                    seen.text.contains(text),
                    "{name}: {text:?} is not in {}",
                    seen.text
                );
            }
            shown += &seen.text;
            shown += &seen.dom;
        }
    }
    for path in ["/", "/?search=S3CRET", "/status.json", "/metrics"] {
        shown += &String::from_utf8(service.get(path).1).unwrap();
    }
    shown += &service.lines_so_far().concat();
    for secret in SECRETS {
        assert!(!shown.contains(secret), "{secret} is shown");
    }
}
