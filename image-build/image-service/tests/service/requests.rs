//! Paths, methods, heads of answers, and requests that nobody should send.

use std::fs::{self, File};
use std::process::Command;

use landfall_host_media::fixtures::{self, Layout};
use landfall_image_service::Limits;

use crate::fixture::{Fixture, host};

#[test]
fn every_host_has_its_own_files() {
    let fixture = Fixture::new();
    for number in 1..=3 {
        let iso = fixture.get(&format!("/node{number}.iso"), &[]);
        assert!(iso.body == fixture.expected_iso(number), "node{number}");
        assert_eq!(iso.header("content-type"), Some("application/vnd.efi-iso"));
        let name = format!("attachment; filename=\"node{number}.iso\"");
        assert_eq!(iso.header("content-disposition"), Some(name.as_str()));
    }
    let ramdisk = fixture.get("/node1.initramfs", &[]).body;
    assert!(ramdisk.starts_with(&fixtures::ramdisk()));
    let text = String::from_utf8_lossy(&ramdisk).into_owned();
    assert!(text.contains("{\"number\":1}"));
    let script = fixture.get("/node1.ipxe", &[]).body;
    let script = String::from_utf8(script).unwrap();
    let paths = fixture.service.store().paths("node1").unwrap();
    let kernel = format!(
        "\nkernel {} initrd=initrd.img {} node=1 BOOTIF=01-${{netX/mac:hexhyp}} || goto failed\n",
        paths.kernel,
        fixtures::KERNEL_ARGS
    );
    assert!(script.contains(&kernel), "{script}");
    let initrd = format!(
        "\ninitrd --name initrd.img {} || goto failed\n",
        paths.initramfs
    );
    assert!(script.contains(&initrd), "{script}");
    let again = "\nchain --replace --autofree /node1.ipxe || goto failed\n";
    assert!(script.ends_with(again), "{script}");
    let kernel = fixture.get("/vmlinuz", &[]);
    assert!(fixture.get(&paths.kernel, &[]).body == kernel.body);
    assert_eq!(kernel.body.len(), Layout::default().kernel_size);
}

/// xorriso and cpio find the host's content in what a client got.
#[test]
fn other_programs_read_the_iso() {
    let fixture = Fixture::new();
    let path = |name: &str| fixture.directory.path().join(name);
    fs::write(path("node1.iso"), fixture.get("/node1.iso", &[]).body).unwrap();
    let mut xorriso = Command::new("xorriso");
    xorriso
        .args(["-osirrox", "on", "-indev"])
        .arg(path("node1.iso"));
    for area in ["boot/grub/kargs.env", "boot/embed.img"] {
        let name = area.rsplit('/').next().unwrap();
        xorriso.args(["-extract", area]).arg(path(name));
    }
    let output = xorriso.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let arguments = fs::read_to_string(path("kargs.env")).unwrap();
    let expected = format!("={} node=1\n", fixtures::KERNEL_ARGS);
    assert!(arguments.contains(&expected), "{arguments}");
    let mut cpio = Command::new("cpio");
    cpio.args([
        "--quiet",
        "-i",
        "--to-stdout",
        "etc/landfall/hosts/node1.json",
    ]);
    let archive = File::open(path("embed.img")).unwrap();
    let output = cpio.stdin(archive).output().unwrap();
    assert_eq!(output.stdout, b"{\"number\":1}", "{output:?}");
}

/// coreos-installer may put arguments with `$` into an ISO, and GRUB passes them on.
#[test]
fn arguments_that_no_script_can_pass_on() {
    let mut iso = fixtures::base_iso(Layout::default());
    for at in 0..iso.len() {
        if iso[at..].starts_with(b"quiet a=1") {
            iso[at..][..9].copy_from_slice(b"quiet a=$");
        }
    }
    let fixture = Fixture::of(iso, Limits::default(), None);
    let fault = fixture.service.store().base().script_fault(&host(1));
    assert!(fault.unwrap().to_string().contains("a=$"));
    assert!(fixture.get("/node1.iso", &[]).body == fixture.expected_iso(1));
    assert_eq!(fixture.get("/node1.initramfs", &[]).status, 200);
    let script = fixture.get("/node1.ipxe", &[]);
    assert_eq!(script.status, 404);
    let reason = String::from_utf8(script.body).unwrap();
    assert!(reason.contains("`$` cannot be passed"), "{reason}");
    let whole = Fixture::new();
    let base = whole.service.store().base();
    assert_eq!(base.script_fault(&host(1)), None);
}

#[test]
fn unknown_paths() {
    let fixture = Fixture::new();
    for (path, status) in [
        ("/node4.iso", 404),
        ("/?", 200),
        ("/index.html", 404),
        ("/node1", 404),
        ("/a/node1.iso", 404),
        ("/../node1.iso", 404),
        ("/%6eode1.iso", 404),
        ("/node1%2eiso", 404),
        ("/node1%2f.iso", 404),
        ("//node1.iso", 404),
        ("/node1.iso/", 404),
        ("/abcdefghijklmnopqrstuvwx27/node1.iso", 503),
        ("/abcdefghijklmnopqrstuvwx27/node4.iso", 503),
        ("/abcdefghijklmnopqrstuvwx27/vmlinuz", 503),
        ("/node1.iso?x=1", 200),
    ] {
        assert_eq!(fixture.get(path, &[]).status, status, "{path}");
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "BREW"] {
        let answer = fixture.client().ask(method, "/node1.iso", &[]);
        assert_eq!(answer.status, 405, "{method}");
        assert_eq!(answer.header("allow"), Some("GET, HEAD"));
    }
}

/// Old programs compare the names of headers case-sensitively.
#[test]
fn header_names_have_capitals() {
    let fixture = Fixture::new();
    let answer = fixture.client().ask("HEAD", "/node1.iso", &[]);
    let names: Vec<&str> = answer
        .headers
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    for expected in ["Accept-Ranges", "Content-Length", "Content-Type", "Etag"] {
        assert!(names.contains(&expected), "{expected} in {names:?}");
    }
    let len = fixture.iso.len().to_string();
    assert_eq!(answer.header("content-length"), Some(len.as_str()));
}

#[test]
fn heads_have_limits() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.send(format!("GET /{} HTTP/1.1\r\n", "a".repeat(20_000)).as_bytes());
    let answer = client.answer(true).unwrap();
    assert!([414, 431].contains(&answer.status), "{answer:?}");

    let mut client = fixture.client();
    let headers: String = (0..100).map(|at| format!("x{at}: y\r\n")).collect();
    client.send(format!("GET / HTTP/1.1\r\n{headers}\r\n").as_bytes());
    assert_eq!(client.answer(true).unwrap().status, 431);

    for garbage in [
        &b"\0\0\0\0\r\n\r\n"[..],
        b"GET\r\n\r\n",
        b"\x16\x03\x01\x02\0\x01\r\n\r\n",
    ] {
        let mut client = fixture.client();
        client.send(garbage);
        assert!(
            client
                .answer(true)
                .is_none_or(|answer| answer.status == 400)
        );
    }
    assert_eq!(fixture.get("/healthz", &[]).status, 200);
}

#[test]
fn a_connection_is_kept() {
    let fixture = Fixture::new();
    let whole = fixture.expected_iso(1);
    let mut client = fixture.client();
    for at in 0..1000 {
        let range = format!("bytes={}-{}", at * 100, at * 100 + 99);
        let answer = client.get("/node1.iso", &[("Range", &range)]);
        assert!(answer.body == whole[at * 100..at * 100 + 100]);
    }
    // Several requests at once, and HTTP/1.0.
    let request = "GET /node1.iso HTTP/1.1\r\nHost: x\r\nRange: bytes=0-9\r\n\r\n";
    client.send(request.repeat(3).as_bytes());
    for _ in 0..3 {
        assert!(client.answer(true).unwrap().body == whole[..10]);
    }
    let mut client = fixture.client();
    for _ in 0..2 {
        client
            .send(b"GET /node1.iso HTTP/1.0\r\nConnection: keep-alive\r\nRange: bytes=0-9\r\n\r\n");
        assert!(client.answer(true).unwrap().body == whole[..10]);
    }
    client.send(b"GET /node1.iso HTTP/1.0\r\nRange: bytes=0-9\r\n\r\n");
    assert!(client.answer(true).unwrap().body == whole[..10]);
    assert!(client.answer(true).is_none(), "the connection is closed");
}

#[test]
fn the_status_lists_reads_with_client() {
    let fixture = Fixture::new();
    let status = || -> serde_json::Value {
        serde_json::from_slice(&fixture.get("/status.json", &[]).body).unwrap()
    };
    assert_eq!(status()["reads"], serde_json::json!([]));
    let agent = ("User-Agent", "a BMC");
    fixture.get("/node1.iso", &[("Range", "bytes=0-99"), agent]);
    fixture.get("/node1.iso", &[("Range", "bytes=200-299"), agent]);
    fixture.get("/node2.iso", &[]);
    fixture.client().ask("HEAD", "/node3.iso", &[]);
    let status = status();
    let hosts = status["hosts"].as_object().unwrap();
    assert_eq!(hosts.len(), 3);
    let paths = fixture.service.store().paths("node1").unwrap();
    assert_eq!(hosts["node1"], paths.iso);
    let reads = status["reads"].as_array().unwrap();
    assert_eq!(reads.len(), 2, "HEAD reads nothing: {reads:?}");
    assert_eq!(reads[0]["host"], "node1");
    assert_eq!(reads[0]["ranges"], serde_json::json!([[0, 99], [200, 299]]));
    assert_eq!(reads[0]["complete"], false);
    assert_eq!(reads[0]["last_client"], "127.0.0.1");
    assert_eq!(reads[0]["last_user_agent"], "a BMC");
    assert_eq!(reads[1]["complete"], true);
    let metrics = fixture.get("/metrics", &[]);
    assert!(
        metrics
            .header("content-type")
            .unwrap()
            .starts_with("application/openmetrics-text")
    );
    let metrics = String::from_utf8(metrics.body).unwrap();
    for line in [
        "landfall_image_service_requests_total{file=\"iso\",status=\"206\"} 2",
        "landfall_image_service_hosts 3",
    ] {
        assert!(
            metrics.lines().any(|found| found == line),
            "{line}\n{metrics}"
        );
    }
}
