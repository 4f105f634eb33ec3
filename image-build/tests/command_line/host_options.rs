//! Tests each option that names hosts with each command that takes it.

use std::fs;

use serde_json::{Value, json};

use crate::fixture::Fixture;
use crate::service::Service;

/// An option, and the hosts that it gives. Each host is a list: the name of its file
/// without `.json`, its first MAC address, the kind of its network, its first IPv4
/// address, and the names of its root device hints.
struct Row {
    options: &'static [&'static str],
    hosts: Value,
}

fn rows() -> [Row; 7] {
    let of_install_config = json!([
        [
            "master-0",
            "52:54:00:00:00:10",
            "nmstate",
            "192.0.2.10/24",
            ["serialNumber"]
        ],
        [
            "master-1",
            "52:54:00:00:00:11",
            "nmstate",
            "192.0.2.11/24",
            ["deviceName", "rotational"]
        ],
        [
            "worker-0.example.org",
            "52:54:00:00:00:12",
            "none",
            null,
            []
        ],
    ]);
    let mut with_directory = of_install_config.clone();
    with_directory[2] = json!([
        "worker-0.example.org",
        "52:54:00:00:00:12",
        "network_data",
        "192.0.2.12/24",
        []
    ]);
    [
        Row {
            options: &["--nmstate", "one.yaml"],
            hosts: json!([["any", null, "nmstate", "192.0.2.50/24", []]]),
        },
        Row {
            options: &["--network-data", "networks/worker-0.example.org.json"],
            hosts: json!([[
                "52-54-00-00-00-12",
                "52:54:00:00:00:12",
                "network_data",
                "192.0.2.12/24",
                []
            ]]),
        },
        Row {
            options: &["--hosts", "networks"],
            hosts: json!([[
                "worker-0.example.org",
                "52:54:00:00:00:12",
                "network_data",
                "192.0.2.12/24",
                []
            ]]),
        },
        Row {
            options: &["--agent-config", "agent-config.yaml"],
            hosts: json!([
                [
                    "master-0",
                    "00:ef:44:21:e6:a5",
                    "nmstate",
                    "192.0.2.80/24",
                    ["deviceName"]
                ],
                ["master-1", "00:ef:44:21:e6:b5", "none", null, []],
            ]),
        },
        Row {
            options: &["--install-config", "install-config.yaml"],
            hosts: of_install_config,
        },
        Row {
            options: &[
                "--install-config",
                "install-config.yaml",
                "--hosts",
                "networks",
            ],
            hosts: with_directory,
        },
        Row {
            options: &[
                "--bare-metal-hosts",
                "bare-metal-hosts.yaml",
                "--bare-metal-hosts",
                "more.yaml",
            ],
            hosts: json!([
                [
                    "node-0",
                    "52:54:00:12:34:56",
                    "nmstate",
                    "192.0.2.10/24",
                    ["serialNumber", "minSizeGigabytes"]
                ],
                [
                    "node-1.example.org",
                    "52:54:00:12:34:57",
                    "network_data",
                    "192.0.2.11/24",
                    ["model"]
                ],
                ["node-2", "52:54:00:12:34:58", "network_data", null, []],
                ["node-3", "52:54:00:12:34:59", "none", null, []],
                ["node-4", "52:54:00:12:34:5a", "none", null, ["wwn"]],
            ]),
        },
    ]
}

fn with_manifests() -> Fixture {
    let fixture = Fixture::new();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/");
    for (name, path) in [
        ("agent-config.yaml", "test_data/hosts/agent-config.yaml"),
        (
            "install-config.yaml",
            "host-manifests/test_data/install-config.yaml",
        ),
        (
            "bare-metal-hosts.yaml",
            "host-manifests/test_data/bare-metal-hosts.yaml",
        ),
    ] {
        fixture.put(name, &fs::read(format!("{root}{path}")).unwrap());
    }
    fixture.put("one.yaml", crate::service::nmstate("192.0.2.50").as_bytes());
    let network = crate::hosts::network_data("52:54:00:00:00:12", "192.0.2.12");
    fixture.put("networks/worker-0.example.org.json", network.as_bytes());
    fixture.put(
        "more.yaml",
        b"apiVersion: metal3.io/v1alpha1\nkind: BareMetalHost\nmetadata: {name: node-4}\n\
          spec: {bootMACAddress: \"52:54:00:12:34:5a\", rootDeviceHints: {wwn: \"0x5000\"}}\n",
    );
    fixture
}

/// The hosts in a ramdisk or an ISO, as [`Row`] lists them.
fn hosts_in(fixture: &Fixture, file: &str) -> Value {
    let inspection = fixture.inspect(file);
    assert_eq!(inspection["ramdisk"]["faults"], json!([]), "{file}");
    let hosts = inspection["ramdisk"]["hosts"].as_array().unwrap();
    let row = |host: &Value| {
        let path = host["file"].as_str().unwrap();
        let name = path.strip_prefix("etc/landfall/hosts/").unwrap();
        let interfaces = host["plan"]["interfaces"].as_array().unwrap();
        let address = interfaces
            .iter()
            .find_map(|interface| interface["ipv4"]["addresses"][0].as_str());
        let hints = match host["root_device_hints"].as_object() {
            Some(hints) => hints.iter().filter(|(_, hint)| !hint.is_null()),
            None => {
                return json!([
                    name.strip_suffix(".json"),
                    host["macs"][0],
                    host["kind"],
                    address,
                    []
                ]);
            }
        };
        let hints: Vec<&String> = hints.map(|(name, _)| name).collect();
        json!([
            name.strip_suffix(".json"),
            host["macs"][0],
            host["kind"],
            address,
            hints
        ])
    };
    hosts.iter().map(row).collect()
}

/// Sorts the names of each host's root device hints.
fn sorted(mut hosts: Value) -> Value {
    for host in hosts.as_array_mut().unwrap() {
        host[4]
            .as_array_mut()
            .unwrap()
            .sort_by_key(Value::to_string);
    }
    hosts
}

#[test]
fn each_option_gives_its_hosts_to_each_product() {
    let fixture = with_manifests();
    fixture.build("iso", "base.iso", &[]);
    fixture.build("pxe", "base", &[]);
    for Row { options, hosts } in rows() {
        let expected = sorted(hosts);
        for (command, output, inspected) in [
            ("initramfs", "initrd.img", "initrd.img"),
            ("iso", "own.iso", "own.iso"),
            ("pxe", "tree", "tree/initrd.img"),
        ] {
            fixture.build(command, output, &[options, &["--force"]].concat());
            assert_eq!(
                sorted(hosts_in(&fixture, inspected)),
                expected,
                "{command} {options:?}"
            );
        }
        for (command, inspected) in [
            (&["hosts", "-o", "hosts.img", "--force"][..], "hosts.img"),
            (
                &["customize", "base.iso", "-o", "c.iso", "--force"],
                "c.iso",
            ),
            (
                &["customize", "base/initrd.img", "-o", "c.img", "--force"],
                "c.img",
            ),
            (&["customize", "base", "-o", "c2.img", "--force"], "c2.img"),
        ] {
            let result = fixture.run(&[command, options].concat());
            let stderr = String::from_utf8_lossy(&result.stderr);
            assert!(result.status.success(), "{command:?} {options:?}: {stderr}");
            if inspected == "hosts.img" {
                // It is not a whole ramdisk, so join it to one.
                let mut joined = fs::read(fixture.path("base/initrd.img")).unwrap();
                joined.extend(fs::read(fixture.path("hosts.img")).unwrap());
                fixture.put("hosts.img", &joined);
            }
            assert_eq!(
                sorted(hosts_in(&fixture, inspected)),
                expected,
                "{command:?} {options:?}"
            );
        }
    }
}

#[test]
fn a_live_system_gets_the_same_hosts() {
    let fixture = with_manifests();
    fixture.put("live-agent", b"...org.freedesktop.NetworkManager...");
    let command = ["coreos-live", "--json", "--force", "-o", "live.ign"];
    let agent = [
        "--agent",
        "live-agent",
        "--agent-url",
        "http://192.0.2.1/agent",
    ];
    for Row { options, hosts } in rows() {
        let result = fixture.run(&[&command[..], &agent, options].concat());
        let stderr = String::from_utf8_lossy(&result.stderr);
        assert!(result.status.success(), "{options:?}: {stderr}");
        let summary: Value = serde_json::from_slice(&result.stdout).unwrap();
        let name = |host: &Value| format!("/etc/landfall/hosts/{}.json", host[0].as_str().unwrap());
        let expected: Vec<String> = hosts.as_array().unwrap().iter().map(name).collect();
        assert_eq!(summary["configuration"], json!(expected), "{options:?}");
    }
}

/// Each host's image has only that host.
#[test]
fn the_image_service_serves_the_hosts_of_each_option() {
    let fixture = with_manifests();
    fixture.build("iso", "base.iso", &[]);
    // A single network file names no host, so the service rejects it.
    let of_many = rows()
        .into_iter()
        .filter(|row| !["--nmstate", "--network-data"].contains(&row.options[0]));
    for Row { options, hosts } in of_many {
        let mut service = Service::start_with(&fixture, options);
        for host in hosts.as_array().unwrap() {
            let name = host[0].as_str().unwrap();
            for ending in ["iso", "initramfs"] {
                let (status, bytes) = service.get(&format!("/{name}.{ending}"));
                assert_eq!(status, 200, "{options:?} {name}.{ending}");
                let file = format!("served.{ending}");
                fixture.put(&file, &bytes);
                let expected = sorted(json!([host]));
                assert_eq!(sorted(hosts_in(&fixture, &file)), expected, "{options:?}");
            }
        }
        service.signal(nix::sys::signal::Signal::SIGTERM);
        service.child.wait().unwrap();
    }
}
