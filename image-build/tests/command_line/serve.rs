//! Tests `serve`: the real program, stopped and reloaded by signals.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::thread;
use std::time::Duration;

use landfall_media_formats::iso9660::Iso;
use nix::sys::signal::Signal;

use crate::fixture::Fixture;
use crate::service::{Service, fixture, nmstate};

fn customized(fixture: &Fixture, more: &[&str]) -> Vec<u8> {
    // The caller puts the network of one host into a directory of its own.
    let arguments = ["customize", "base.iso", "-o", "expected.iso", "--force"];
    let result = fixture.run(&[&arguments[..], more].concat());
    let stderr = String::from_utf8_lossy(&result.stderr);
    assert!(result.status.success(), "{stderr}");
    fs::read(fixture.path("expected.iso")).unwrap()
}

#[test]
fn a_served_iso_is_the_customized_iso() {
    let fixture = fixture();
    fixture.put("site.conf", b"[DEFAULT]\nlisten_port = 9998\n");
    let site = ["--config-file", "site.conf", "--karg", "b=2"];
    let url = ["--public-url", "http://192.0.2.1:8080"];
    let mut service = Service::start(&fixture, &[&site[..], &url].concat());
    fixture.put("one/node1.yaml", nmstate("192.0.2.51").as_bytes());
    let expected = customized(&fixture, &[&site[..], &["--hosts", "one"]].concat());
    assert!(service.get("/node1.iso").1 == expected);
    let (status, script) = service.get("/node2.ipxe");
    assert_eq!(status, 200);
    assert!(
        String::from_utf8(script)
            .unwrap()
            .contains(" quiet b=2 BOOTIF=")
    );
    assert_eq!(service.get("/node3.iso").0, 404);
    // The served ramdisk is one, with the host's network.
    let ramdisk = service.get("/node2.initramfs").1;
    fixture.put("node2.img", &ramdisk);
    let inspection = fixture.inspect("node2.img");
    assert_eq!(inspection["ramdisk"]["hosts"][0]["host_name"], "node2");
    assert_eq!(inspection["ramdisk"]["faults"], serde_json::json!([]));

    service.signal(Signal::SIGTERM);
    service.line("stopping");
    assert_eq!(service.child.wait().unwrap().code(), Some(0));
    let mut urls = String::new();
    service
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut urls)
        .unwrap();
    let lines: Vec<&str> = urls.lines().collect();
    assert_eq!(lines.len(), 2, "{urls}");
    for (line, name) in lines.into_iter().zip(["node1", "node2"]) {
        // The URL contains the id of one version, so a reload does not change what a BMC
        // reads.
        let start = format!("{name} http://192.0.2.1:8080/");
        let path = line.strip_prefix(&start).unwrap();
        let (id, file) = path.split_once('/').unwrap();
        assert_eq!((id.len(), file), (26, &*format!("{name}.iso")));
    }
}

/// The test of the crate landfall-image-service puts finished host versions into the
/// store; here the program reads the files of the hosts.
#[test]
#[ignore = "takes half a minute"]
fn files_of_ten_thousand_hosts_take_little_memory() {
    let fixture = Fixture::new();
    fixture.build("iso", "base.iso", &[]);
    for number in 0..10_000 {
        let address = format!("10.0.{}.{}", number / 250, number % 250 + 1);
        let text = nmstate(&address);
        fixture.put(&format!("many/node{number}.yaml"), text.as_bytes());
    }
    let service = Service::start_with(&fixture, &["--hosts", "many"]);
    assert_eq!(service.get("/node9999.ipxe").0, 200);
    let status = fs::read_to_string(format!("/proc/{}/status", service.child.id())).unwrap();
    let own = { status.lines() }.find_map(|line| line.strip_prefix("RssAnon:"));
    let own = own.unwrap().trim().strip_suffix(" kB").unwrap();
    println!("{own} KiB for 10,000 hosts");
    assert!(own.parse::<u32>().unwrap() < 64 << 10, "{own} KiB");
}

#[test]
fn changed_files_take_effect_and_faults_do_not() {
    let fixture = fixture();
    let service = Service::start(&fixture, &[]);
    let old = service.get("/node1.iso").1;
    fixture.put("hosts/node3.yaml", nmstate("192.0.2.53").as_bytes());
    service.line("reloaded: serving 3 hosts");
    assert_eq!(service.get("/node3.iso").0, 200);
    fs::remove_file(fixture.path("hosts/node2.yaml")).unwrap();
    service.line("reloaded: serving 2 hosts");
    assert_eq!(service.get("/node2.iso").0, 404);

    // A program has begun to write the file.
    fixture.put("hosts/node1.yaml", b"");
    let line = service.line("all hosts keep their old content");
    let expected = "warning: hosts/node1.yaml: expected the network of node1, found an empty file";
    assert!(line.starts_with(expected), "{line}");
    assert!(service.get("/node1.iso").1 == old);
    fixture.put("hosts/node1.yaml", b"interfaces: 7\n");
    let line = service.line("all hosts keep their old content");
    assert!(line.starts_with("warning: hosts/node1.yaml: "), "{line}");
    assert!(service.get("/node1.iso").1 == old);
    let metrics = String::from_utf8(service.get("/metrics").1).unwrap();
    let refused = "landfall_image_service_reloads_total{result=\"refused\"} 2";
    assert!(metrics.contains(refused), "{metrics}");

    fixture.put("hosts/node1.yaml", nmstate("192.0.2.99").as_bytes());
    service.line("reloaded: serving 2 hosts");
    assert!(service.get("/node1.iso").1 != old);
    // SIGHUP says that the files are complete.
    fixture.put("hosts/node1.yaml", b"");
    service.line("all hosts keep their old content");
    service.signal(Signal::SIGHUP);
    service.line("reloaded: serving 2 hosts");
    // A directory that takes the place of the old one.
    fixture.put("new/node4.yaml", nmstate("192.0.2.54").as_bytes());
    fs::rename(fixture.path("hosts"), fixture.path("old")).unwrap();
    fs::rename(fixture.path("new"), fixture.path("hosts")).unwrap();
    service.line("reloaded: serving 1 host");
    assert_eq!(service.get("/node4.iso").0, 200);
}

#[test]
fn a_new_base_is_read_on_sighup() {
    let fixture = fixture();
    let service = Service::start(&fixture, &["--no-watch"]);
    let old = service.get("/node1.iso").1;
    // Without a watch only the signal counts.
    fixture.put("hosts/node3.yaml", nmstate("192.0.2.53").as_bytes());
    thread::sleep(Duration::from_secs(1));
    assert_eq!(service.get("/node3.iso").0, 404);
    fixture.build("iso", "base.iso", &["--karg", "new=1", "--force"]);
    service.signal(Signal::SIGHUP);
    service.line("reloaded: serving 3 hosts");
    let new = service.get("/node1.iso").1;
    assert!(new != old);
    assert!(String::from_utf8_lossy(&new).contains(" quiet new=1\""));

    fixture.put("base.iso", &new[..100_000]);
    service.signal(Signal::SIGHUP);
    let line = service.line("all hosts keep their old content");
    assert!(line.contains("base.iso: "), "{line}");
    assert!(line.contains("cut off"), "{line}");
    assert!(service.get("/node1.iso").1 == new);
    // A copy of which a part has not arrived yet.
    let mut torn = new.clone();
    let middle = torn.len() / 2;
    torn[middle..].fill(0);
    fixture.put("base.iso", &torn);
    service.signal(Signal::SIGHUP);
    let line = service.line("all hosts keep their old content");
    assert!(line.contains("base.iso: "), "{line}");
    assert!(service.get("/node1.iso").1 == new);
    fs::remove_file(fixture.path("base.iso")).unwrap();
    service.signal(Signal::SIGHUP);
    service.line("all hosts keep their old content");
    assert!(service.get("/node1.iso").1 == new);
}

#[test]
fn a_service_with_unusable_files_ends_at_once() {
    let fixture = fixture();
    fixture.put("bad/node1.yaml", b"interfaces: 7\n");
    fixture.put("key.pem", b"no key");
    fixture.build("pxe", "tree", &[]);
    let ramdisk = fs::read(fixture.path("tree/initrd.img")).unwrap();
    fixture.put("tree/initrd.img", &ramdisk[..ramdisk.len() / 2]);
    let good = ["serve", "--iso", "base.iso", "--hosts", "hosts"];
    let tls = [
        "--tls-listen",
        "127.0.0.1:0",
        "--tls-cert",
        "key.pem",
        "--tls-key",
        "key.pem",
    ];
    for (arguments, expected) in [
        (
            &["serve", "--iso", "none.iso", "--hosts", "hosts"][..],
            "none.iso",
        ),
        (&["serve", "--iso", "agent", "--hosts", "hosts"], "agent: "),
        (
            &["serve", "--iso", "base.iso", "--hosts", "bad"],
            "bad/node1.yaml: ",
        ),
        (
            &["serve", "--iso", "base.iso"],
            "expected hosts, found none -- give --hosts",
        ),
        (
            &[&good[..], &["--pxe", "tree"]].concat(),
            "tree/initrd.img: ramdisk at byte ",
        ),
        (
            &[&good[..], &["--karg", "a\"b"]].concat(),
            "cannot be passed through GRUB",
        ),
        (
            &[&good[..], &["--listen", "192.0.2.1:1"]].concat(),
            "cannot listen on 192.0.2.1:1",
        ),
        (
            &[&good[..], &tls].concat(),
            "expected a certificate chain in PEM",
        ),
    ] {
        let error = fixture.run(arguments);
        assert_eq!(error.status.code(), Some(1), "{arguments:?}");
        let stderr = String::from_utf8(error.stderr).unwrap();
        let failed = stderr
            .find("landfall-image: FAILED ")
            .map(|at| &stderr[at..]);
        assert!(
            failed.is_some_and(|line| line.contains(expected)),
            "{stderr}"
        );
    }
}

/// The program runs outside of a cluster and without KUBECONFIG.
#[cfg(feature = "controller")]
#[test]
fn a_controller_without_a_cluster_opens_no_port() {
    let fixture = fixture();
    let options = ["--iso", "base.iso", "--public-url", "http://192.0.2.1"];
    let listen = ["--listen", "127.0.0.1:0", "--status-listen", "127.0.0.1:0"];
    let mut command = fixture.command(&[&["controller"], &options[..], &listen].concat());
    command.env_remove("KUBECONFIG").env("HOME", "/nonexistent");
    let ended = command.output().unwrap();
    let stderr = String::from_utf8(ended.stderr).unwrap();
    assert!(stderr.contains("cannot find the API server: "), "{stderr}");
    assert!(!stderr.contains("listening on "), "{stderr}");
}

/// Returns standard error of a service that cannot listen on its address, and therefore
/// ends after its warnings.
fn warnings(fixture: &Fixture, more: &[&str]) -> String {
    let arguments = ["serve", "--iso", "base.iso", "--hosts", "hosts"];
    let nowhere = ["--listen", "192.0.2.1:1"];
    let error = fixture.run(&[&arguments[..], &nowhere, more].concat());
    String::from_utf8(error.stderr).unwrap()
}

/// Changes a file in the base ISO as coreos-installer does: in place, without changing
/// its size.
fn change_in_iso(fixture: &Fixture, path: &str, change: impl Fn(&[u8]) -> Vec<u8>) {
    let mut options = fs::File::options();
    let options = options.read(true).write(true);
    let iso = options.open(fixture.path("base.iso")).unwrap();
    let place = Iso::open(iso.try_clone().unwrap()).unwrap();
    let place = { place }.find(path).unwrap();
    let mut old = vec![0; place.size as usize];
    iso.read_exact_at(&mut old, place.offset).unwrap();
    iso.write_all_at(&change(&old), place.offset).unwrap();
}

/// A served ramdisk has no Ignition config even if the ISO or the PXE tree has one, so
/// the service warns.
#[test]
fn an_ignition_config_that_stays_out_is_reported() {
    let fixture = fixture();
    fixture.build("pxe", "tree", &[]);
    let output = warnings(&fixture, &["--pxe", "tree"]);
    assert!(!output.contains("Ignition"), "{output}");
    fixture.put("tree/images/ignition.img", b"a config");
    change_in_iso(&fixture, "images/ignition.img", |_| b"a config".to_vec());
    let output = warnings(&fixture, &["--pxe", "tree"]);
    for file in [
        "images/ignition.img in base.iso",
        "tree/images/ignition.img",
    ] {
        let line = format!("warning: {file} has an Ignition config, which is not in");
        assert!(output.contains(&line), "{output}");
    }
}

#[test]
fn arguments_that_no_script_can_hold_are_reported() {
    let fixture = fixture();
    change_in_iso(&fixture, "boot/grub/kargs.env", |old| {
        let text = String::from_utf8(old.to_vec()).unwrap();
        text.replace(" quiet", " c=$d1").into_bytes()
    });
    let output = warnings(&fixture, &[]);
    let line = "warning: base.iso: kernel argument `";
    assert!(
        output.contains(line) && output.contains("no host has"),
        "{output}"
    );
    let output = warnings(&fixture, &["--karg-delete", "c"]);
    assert!(!output.contains("no host has"), "{output}");
}

/// systemd itself reads the unit.
#[test]
fn systemd_accepts_the_unit() {
    let fixture = Fixture::new();
    let unit = include_str!("../../systemd/landfall-image.service");
    // The program is not installed here.
    let program = env!("CARGO_BIN_EXE_landfall-image");
    let unit = unit.replace("/usr/bin/landfall-image ", &format!("{program} "));
    fixture.put("landfall-image.service", unit.as_bytes());
    let verified = std::process::Command::new("systemd-analyze")
        .args(["verify", "--man=no"])
        .arg(fixture.path("landfall-image.service"))
        .output();
    let Ok(verified) = verified else {
        return landfall_sys::skip::skip("there is no systemd-analyze");
    };
    let stderr = String::from_utf8_lossy(&verified.stderr);
    assert!(verified.status.success(), "{stderr}");
    assert!(!stderr.contains("landfall-image.service:"), "{stderr}");
}

/// The program accepts the options in the unit's example, and fails only because their
/// files do not exist.
#[test]
fn the_unit_gives_options_that_the_program_has() {
    let fixture = Fixture::new();
    let unit = include_str!("../../systemd/landfall-image.service");
    let example = unit.lines().find_map(|line| line.split_once("OPTIONS="));
    let start = unit
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart="));
    let start = start.unwrap().replace("$OPTIONS", example.unwrap().1);
    let arguments: Vec<&str> = start.split(' ').skip(1).collect();
    let output = fixture.run(&arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("FAILED /srv/landfall/base.iso"), "{stderr}");
}
