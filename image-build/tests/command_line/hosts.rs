//! Tests that the hosts' networks are in every product.

use std::fs;

use serde_json::Value;

use crate::fixture::Fixture;
use crate::products::{offset_by_xorriso, same};

/// A network_data.json for a host with this MAC and address.
pub fn network_data(mac: &str, address: &str) -> String {
    format!(
        r#"{{"links": [{{"id": "a", "type": "phy", "ethernet_mac_address": "{mac}"}}],
            "networks": [{{"id": "n", "type": "ipv4", "link": "a",
                "ip_address": "{address}", "netmask": "255.255.255.0"}}]}}"#
    )
}

#[test]
fn the_networks_of_hosts_are_in_every_product() {
    let fixture = Fixture::new();
    for number in 1..=3 {
        let text = network_data(
            &format!("52:54:00:00:00:0{number}"),
            &format!("192.0.2.{number}"),
        );
        fixture.put(&format!("hosts/node{number}.json"), text.as_bytes());
    }
    for (command, output, inspected) in [
        ("initramfs", "initrd.img", "initrd.img"),
        ("iso", "a.iso", "a.iso"),
        ("pxe", "tree", "tree/initrd.img"),
    ] {
        let options = ["--hosts", "hosts", "--ca-bundle", "none"];
        fixture.build(command, output, &options);
        let inspection = fixture.inspect(inspected);
        let ramdisk = &inspection["ramdisk"];
        assert_eq!(ramdisk["hosts"].as_array().unwrap().len(), 3, "{command}");
        let second = &ramdisk["hosts"][1];
        assert_eq!(second["file"], "etc/landfall/hosts/node2.json");
        assert_eq!(second["host_name"], "node2");
        assert_eq!(second["macs"][0], "52:54:00:00:00:02");
        assert_eq!(second["kind"], "network_data");
        let ipv4 = &second["plan"]["interfaces"][0]["ipv4"];
        assert_eq!(ipv4["addresses"][0], "192.0.2.2/24");
        assert_eq!(ramdisk["configuration"].as_array().unwrap().len(), 0);
        assert_eq!(ramdisk["faults"].as_array().unwrap().len(), 0);
    }
    let text = fixture.run(&["inspect", "initrd.img"]).stdout;
    let text = String::from_utf8(text).unwrap();
    assert!(
        text.contains("hosts: 3\n  node1, 52:54:00:00:00:01, network_data\n"),
        "{text}"
    );
    let options = ["--hosts", "hosts", "--ca-bundle", "none"];
    fixture.build("initramfs", "again.img", &options);
    assert!(same(
        &fixture.path("initrd.img"),
        &fixture.path("again.img")
    ));
}

#[test]
fn one_host_of_many_is_shown() {
    let fixture = Fixture::new();
    for number in 1..=3 {
        let mac = format!("52:54:00:00:00:a{number}");
        let text = network_data(&mac, &format!("192.0.2.{number}"));
        fixture.put(&format!("hosts/node{number}.json"), text.as_bytes());
    }
    let made = fixture.run(&["hosts", "--hosts", "hosts", "-o", "hosts.img"]);
    assert!(made.status.success());
    for wanted in ["node2", "52:54:00:00:00:a2", "52-54-00-00-00-A2"] {
        let shown = fixture.run(&["inspect", "--host", wanted, "hosts.img"]);
        assert_eq!(shown.status.code(), Some(0), "{wanted}");
        let text = String::from_utf8(shown.stdout).unwrap();
        let head = "hosts.img: 3 hosts\n  node2, 52:54:00:00:00:a2, network_data\n    ";
        assert!(text.starts_with(head), "{text}");
        assert!(text.contains("IPv4 192.0.2.2/24"), "{text}");
        let others = ["node1", "192.0.2.1/", "node3", "192.0.2.3/"];
        assert!(!others.iter().any(|other| text.contains(other)), "{text}");
    }
    let json = fixture.run(&["inspect", "--json", "--host", "node3", "hosts.img"]);
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["hosts"], 3);
    assert_eq!(json["faults"], serde_json::json!([]));
    let all = &fixture.inspect("hosts.img")["ramdisk"]["hosts"];
    assert_eq!(json["host"], all[2]);

    let error = fixture.fails(&["inspect", "--host", "node4", "hosts.img"]);
    let expected = "cannot show one host of hosts.img: expected the name or a MAC address of a host in the file (3 hosts), found \"node4\" -- ";
    assert!(error.contains(expected), "{error}");
    let both = ["inspect", "--host", "node1", "--extract", "x", "hosts.img"];
    assert_eq!(fixture.run(&both).status.code(), Some(2));
}

/// `inspect --host` also shows that the file is damaged.
#[test]
fn faults_of_the_file_are_shown_with_one_host() {
    let fixture = Fixture::new();
    let text = network_data("52:54:00:00:00:01", "192.0.2.1");
    fixture.put("hosts/node1.json", text.as_bytes());
    let options = ["--hosts", "hosts", "--compress", "none"];
    fixture.build("initramfs", "initrd.img", &options);
    let mut ramdisk = fs::read(fixture.path("initrd.img")).unwrap();
    // Rename the member `init`, so that the kernel finds no /init.
    let end_of_header = b"00000000";
    let member = [&end_of_header[..], b"init\0"].concat();
    let mut places = ramdisk.windows(member.len());
    let at = places.position(|bytes| bytes == member).unwrap();
    ramdisk[at + end_of_header.len()] = b'x';
    fixture.put("bad.img", &ramdisk);
    for command in [&["inspect"][..], &["inspect", "--json"]] {
        let shown = fixture.run(&[command, &["--host", "node1", "bad.img"]].concat());
        assert_eq!(shown.status.code(), Some(1));
        let text = String::from_utf8(shown.stdout).unwrap();
        assert!(text.contains("192.0.2.1/24"), "{text}");
        assert!(text.contains("there is no /init"), "{text}");
    }
}

#[test]
fn nothing_is_built_with_a_host_whose_network_has_a_fault() {
    let fixture = Fixture::new();
    let mac = "52:54:00:00:00:01";
    fixture.put("hosts/a.json", network_data(mac, "192.0.2.300").as_bytes());
    fixture.put("hosts/b.json", network_data("x", "192.0.2.2").as_bytes());
    fixture.put("hosts/c.json", b"{");
    let arguments = [
        "--agent",
        "agent",
        "--kernel-dir",
        "kernel",
        "--hosts",
        "hosts",
    ];
    for command in ["initramfs", "iso", "pxe"] {
        let result = fixture.run(&[&[command, "-o", "out"], &arguments[..]].concat());
        assert_eq!(result.status.code(), Some(1));
        let stderr = String::from_utf8(result.stderr).unwrap();
        for expected in [
            "landfall-image: FAILED 6 faults:\n",
            "  hosts/a.json: network n: ip_address: expected",
            "  hosts/b.json: link a: ethernet_mac_address: expected",
            "  hosts/c.json: expected JSON: ",
        ] {
            assert!(stderr.contains(expected), "{stderr}");
        }
        assert!(!fixture.path("out").is_file());
        assert!(!fixture.path("out/initrd.img").exists());
    }
}

#[test]
fn one_host_or_many() {
    let fixture = Fixture::new();
    fixture.put(
        "a.json",
        network_data("52:54:00:00:00:01", "192.0.2.1").as_bytes(),
    );
    fixture.build("initramfs", "initrd.img", &["--network-data", "a.json"]);
    let inspection = fixture.inspect("initrd.img");
    let hosts = &inspection["ramdisk"]["hosts"];
    assert_eq!(
        hosts[0]["file"],
        "etc/landfall/hosts/52-54-00-00-00-01.json"
    );
    assert_eq!(hosts[0]["host_name"], Value::Null);
    let both = ["--network-data", "a.json", "--hosts", "."];
    let command = [
        "initramfs",
        "--agent",
        "agent",
        "--kernel-dir",
        "kernel",
        "-o",
        "x",
    ];
    let result = fixture.run(&[&command[..], &both].concat());
    assert_eq!(result.status.code(), Some(2));
}

#[test]
fn hosts_are_added_to_a_finished_ramdisk_and_iso() {
    let fixture = Fixture::new();
    for (folder, mac, address) in [("one", "01", "192.0.2.1"), ("two", "02", "192.0.2.2")] {
        let text = network_data(&format!("52:54:00:00:00:{mac}"), address);
        fixture.put(&format!("{folder}/a.json"), text.as_bytes());
    }
    fixture.build("initramfs", "initrd.img", &["--hosts", "one"]);
    fixture.build("iso", "a.iso", &["--hosts", "one"]);
    let result = fixture.run(&["hosts", "--hosts", "two", "-o", "hosts.img", "--json"]);
    let summary: Value = serde_json::from_slice(&result.stdout).unwrap();
    assert_eq!(summary["hosts"], 1);

    let more = fs::read(fixture.path("hosts.img")).unwrap();
    let mut ramdisk = fs::read(fixture.path("initrd.img")).unwrap();
    ramdisk.extend_from_slice(&more);
    fixture.put("both.img", &ramdisk);
    let mut iso = fs::read(fixture.path("a.iso")).unwrap();
    let area = offset_by_xorriso(&fixture, "boot/embed.img");
    iso[area..area + more.len()].copy_from_slice(&more);
    fixture.put("both.iso", &iso);
    for (file, mac) in [
        ("initrd.img", "01"),
        ("a.iso", "01"),
        ("both.img", "02"),
        ("both.iso", "02"),
    ] {
        let hosts = &fixture.inspect(file)["ramdisk"]["hosts"];
        assert_eq!(hosts.as_array().unwrap().len(), 1, "{file}");
        let expected = format!("52:54:00:00:00:{mac}");
        assert_eq!(hosts[0]["macs"][0], expected, "{file}");
    }
    assert!(
        fixture
            .fails(&["hosts", "-o", "x"])
            .contains("expected hosts, found none -- give --hosts")
    );
}
