//! The page for browsers. The tests of `landfall-image` look at it in a browser.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use landfall_host_media::HostVersion;
use landfall_image_service::{Endpoints, Listening, PublicUrl, listen};

use crate::client::Client;
use crate::fixture::Fixture;

fn page(fixture: &Fixture, path: &str) -> String {
    let answer = fixture.get(path, &[]);
    assert_eq!(answer.status, 200, "{path}");
    String::from_utf8(answer.body).unwrap()
}

/// A second listener for the same hosts.
fn listener(fixture: &Fixture, endpoints: Endpoints, url: Option<&str>) -> Listening {
    let url: Option<PublicUrl> = url.map(|url| url.parse().unwrap());
    let service = fixture.service.clone().with_public_url(url);
    fixture.runtime.block_on(async {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        listen(address, None, &service, endpoints).unwrap()
    })
}

#[test]
fn the_page_shows_the_reads_of_each_host() {
    let fixture = Fixture::new();
    let before = page(&fixture, "/");
    assert_eq!(before.matches("not yet").count(), 3, "{before}");
    let hostile = (
        "User-Agent",
        "</p><script>alert(1)</script> http://a:S3CRET@b/",
    );
    assert_eq!(fixture.get("/node1.iso", &[]).status, 200);
    let part = [("Range", "bytes=0-99999"), hostile];
    assert_eq!(fixture.get("/node2.iso", &part).status, 206);
    let after = page(&fixture, "/");
    let paths = fixture.service.store().paths("node1").unwrap();
    let size = fixture.iso.len();
    for expected in [
        format!("href=\"{}\"", paths.iso),
        format!("href=\"{}\"", paths.initramfs),
        format!("href=\"{}\"", paths.ipxe),
        "<strong class=\"done\">100 %</strong>".to_owned(),
        format!("max=\"{size}\" value=\"{size}\""),
        format!("max=\"{size}\" value=\"100000\""),
        ", 100.0 kB of ".to_owned(),
        "1 request by 127.0.0.1 (&lt;/p&gt;&lt;script&gt;".to_owned(),
        "<li>a description that this program cannot read</li>".to_owned(),
    ] {
        assert!(after.contains(&expected), "{expected}: {after}");
    }
    assert!(
        !after.contains("<script") && !after.contains("S3CRET"),
        "{after}"
    );
    for (query, hosts) in [
        ("?search=NODE2", vec!["node2"]),
        ("?search=127.0.0.1", vec!["node1", "node2"]),
        ("?search=node2&show=never", vec![]),
        ("?show=now", vec!["node1", "node2"]),
        ("?show=earlier", vec![]),
        ("?show=never", vec!["node3"]),
        (
            "?page=99999999999999999999",
            vec!["node1", "node2", "node3"],
        ),
    ] {
        let page = page(&fixture, &format!("/{query}"));
        let found = page.split("<h3>").skip(1);
        let found: Vec<&str> = found.map(|part| part.split('<').next().unwrap()).collect();
        assert_eq!(found, hosts, "{query}");
    }
    // Nobody has read the new version of the host.
    fixture
        .service
        .store()
        .put("node1", crate::fixture::host(9))
        .unwrap();
    assert!(page(&fixture, "/?search=node1").contains("of an earlier version"));
}

/// A listener that does not reveal ids has no page. The page of another listener
/// links to the files.
#[test]
fn only_listeners_with_the_status_have_the_page() {
    let fixture = Fixture::new();
    let get = |listening: &Listening, method: &str| {
        Client::connect(listening.address()).ask(method, "/", &[])
    };
    for endpoints in [Endpoints::Images, Endpoints::Versions] {
        let listening = listener(&fixture, endpoints, None);
        assert_eq!(get(&listening, "GET").status, 404, "{endpoints:?}");
    }
    let path = fixture.service.store().paths("node1").unwrap().iso;
    let url = "https://images.example.org:8443";
    for (url, expected) in [
        (Some(url), format!("href=\"{url}{path}\"")),
        (None, format!("<div>ISO: {path}</div>")),
    ] {
        let listening = listener(&fixture, Endpoints::Status, url);
        let answer = get(&listening, "GET");
        let page = String::from_utf8(answer.body.clone()).unwrap();
        assert!(page.contains(&expected), "{page}");
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; "), "{policy}");
        assert_eq!(get(&listening, "HEAD").status, 200);
        assert_eq!(get(&listening, "POST").status, 405);
    }
}

/// The page stays small and quick with many hosts.
#[test]
fn the_page_of_ten_thousand_hosts_is_small() {
    let fixture = Fixture::new();
    let store = fixture.service.store();
    let network = |number: u32| {
        let text = format!(
            "interfaces:\n- {{name: eno1, type: ethernet, state: up, ipv4: {{enabled: true, dhcp: \
             false, address: [{{ip: 10.0.{}.{}, prefix-length: 16}}]}}}}\n",
            number / 250,
            number % 250 + 1
        );
        let file = serde_json::json!({"format": 1, "host_name": format!("node{number}"), "macs": [],
            "nics": {}, "kind": "nmstate", "text": text});
        let path = format!("etc/landfall/hosts/node{number}.json");
        HostVersion::default().with_file(path, file.to_string())
    };
    let hosts = (0..10_000).map(|number| (format!("node{number:05}"), network(number)));
    store.replace(store.base(), hosts.collect()).unwrap();
    for path in ["/", "/?page=200", "/?search=node0999"] {
        let start = Instant::now();
        let page = page(&fixture, path);
        println!("{path}: {} bytes, {:?}", page.len(), start.elapsed());
        assert!(page.len() < 100_000, "{}", page.len());
        assert!(
            start.elapsed() < Duration::from_secs(5),
            "{:?}",
            start.elapsed()
        );
    }
    let last = page(&fixture, "/?page=200");
    assert!(last.contains("9951 to 10000 of 10000"), "{last}");
    assert!(
        last.contains("<li>eno1: IPv4 10.0.39.250/16</li>"),
        "{last}"
    );
}

/// A page that follows the reads is loaded every ten seconds. The networks of its hosts
/// stay the same, so they are described only once.
#[test]
fn a_description_is_read_once() {
    let layout = landfall_host_media::fixtures::Layout {
        embed_size: 128 << 10,
        ..landfall_host_media::fixtures::Layout::default()
    };
    let fixture = Fixture::with(layout, landfall_image_service::Limits::default(), None);
    let interface = |number| {
        format!(
            "- {{name: e{number}, type: ethernet, state: up, ipv4: {{enabled: true, dhcp: true}}}}\n"
        )
    };
    let interfaces: String = (0..300).map(interface).collect();
    let text = format!("interfaces:\n{interfaces}");
    let file = serde_json::json!({"format": 1, "host_name": "n", "macs": [], "nics": {},
        "kind": "nmstate", "text": text});
    let version = HostVersion::default().with_file("etc/landfall/hosts/n.json", file.to_string());
    let hosts = (0..4).map(|number| (format!("node{number}"), version.clone()));
    let store = fixture.service.store();
    store.replace(store.base(), hosts.collect()).unwrap();
    let load = || {
        let start = Instant::now();
        assert!(page(&fixture, "/").contains("<li>e0: "));
        start.elapsed()
    };
    let first = load();
    let again = (0..3).map(|_| load()).min().unwrap();
    println!("first {first:?}, then {again:?}");
    assert!(again * 3 < first, "first {first:?}, then {again:?}");
}

/// An operator watches a BMC that reads slowly.
#[test]
fn the_page_shows_a_transfer_that_is_under_way() {
    let layout = landfall_host_media::fixtures::Layout {
        kernel_size: 40 << 20,
        ..landfall_host_media::fixtures::Layout::default()
    };
    let fixture = Fixture::with(layout, landfall_image_service::Limits::default(), None);
    let mut slow = fixture.client();
    slow.send(b"GET /node1.iso HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(slow.head().unwrap().status, 200);
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        let page = page(&fixture, "/?search=node1");
        if page.contains("1 request by 127.0.0.1") {
            assert!(!page.contains("100 %</strong>"), "{page}");
            return;
        }
        assert!(Instant::now() < end, "{page}");
        let mut buffer = [0; 64 << 10];
        assert!(slow.read_some(&mut buffer) > 0);
    }
}
