use std::path::PathBuf;

use super::*;
use landfall_boot_params::MacAddr;

fn data(name: &str) -> PathBuf {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/test_data/hosts");
    PathBuf::from(root).join(name)
}

fn directory(name: &str) -> HostArguments {
    HostArguments {
        hosts: Some(data(name)),
        ..HostArguments::default()
    }
}

fn agent_config(name: &str) -> HostArguments {
    HostArguments {
        agent_config: Some(data(name)),
        ..HostArguments::default()
    }
}

fn install_config(name: &str) -> HostArguments {
    HostArguments {
        install_config: Some(data(name)),
        ..HostArguments::default()
    }
}

/// A file of the crate that reads it.
fn manifest(name: &str) -> PathBuf {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/host-manifests/test_data");
    PathBuf::from(root).join(name)
}

/// The hosts as the agent will read them.
fn hosts(arguments: &HostArguments) -> Vec<EmbeddedHost> {
    let files = Hosts::read(arguments).unwrap().files();
    let texts = files.iter().map(|file| std::str::from_utf8(&file.bytes));
    texts
        .map(|text| EmbeddedHost::from_json(text.unwrap()).unwrap())
        .collect()
}

/// All faults, without the path of the test data.
fn faults(arguments: &HostArguments) -> Vec<String> {
    let error = Hosts::read(arguments).unwrap_err().to_string();
    let prefix = data("").display().to_string();
    let lines = error.lines().map(|line| line.replace(&prefix, ""));
    lines.map(|line| line.trim().to_owned()).collect()
}

fn mac(text: &str) -> MacAddr {
    text.parse().unwrap()
}

#[test]
fn without_any_there_is_none() {
    let found = Hosts::read(&HostArguments::default()).unwrap();
    assert!(found.hosts.is_empty() && found.warnings.is_empty());
}

#[test]
fn a_file_for_each_host() {
    let found = hosts(&directory("directory"));
    let names: Vec<_> = found.iter().map(EmbeddedHost::to_string).collect();
    assert_eq!(
        names,
        ["node1 (52:54:00:00:00:01)", "node2 (52:54:00:00:00:02)"]
    );
    let files = Hosts::read(&directory("directory")).unwrap().files();
    assert_eq!(files[0].path, "etc/landfall/hosts/node1.json");
    let text = std::fs::read_to_string(data("directory/node1.json")).unwrap();
    assert_eq!(found[0].document, Document::NetworkData(text));
}

#[test]
fn a_single_file_is_for_the_machine_that_has_its_nics() {
    let arguments = HostArguments {
        network_data: Some(data("directory/node1.json")),
        ..HostArguments::default()
    };
    let found = hosts(&arguments);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].host_name, None);
    assert_eq!(found[0].macs, [mac("52:54:00:00:00:01")]);
}

#[test]
fn every_fault_of_every_host_is_reported() {
    assert_eq!(
        faults(&directory("faulty")),
        [
            "7 faults:",
            "faulty/no_name.json: expected the name of a host before .json, found \"no_name\"",
            "faulty/notes.txt: expected a name that ends in .yaml (NMState) or .json (network_data)",
            "faulty/c.json: no network can be used",
            "faulty/c.json: network n: ip_address: expected an IPv4 address, found \"192.0.2.300\"; ignored",
            "faulty/c.json: network m: link: expected the id of a usable link, found \"port-9\"; ignored",
            "faulty/d.json: expected JSON: EOF while parsing a list at line 1 column 11",
            "faulty/b.json: 52:54:00:00:00:01 is a NIC of faulty/a.json as well",
        ]
    );
}

#[test]
fn an_agent_config_says_which_nics_its_names_mean() {
    let found = hosts(&agent_config("agent-config.yaml"));
    let names: Vec<_> = found.iter().map(EmbeddedHost::to_string).collect();
    assert_eq!(
        names,
        [
            "master-0 (00:ef:44:21:e6:a5 00:ef:44:21:e6:a6)",
            "master-1 (00:ef:44:21:e6:b5)"
        ]
    );
    assert_eq!(found[0].nics["eno2"], mac("00:ef:44:21:e6:a6"));
    let Document::NmState(text) = &found[0].document else {
        panic!("{:?}", found[0].document)
    };
    assert!(text.contains("\"prefix-length\": 24"), "{text}");
    let plan = found[0].plan().unwrap();
    let nic = &plan.interfaces[0];
    assert_eq!(nic.matches.mac, Some(mac("00:ef:44:21:e6:a5")));
    assert_eq!(nic.matches.name, None);
    let hints = found[0].root_device_hints.as_ref().unwrap();
    assert_eq!(hints.to_string(), "deviceName: \"/dev/sdb\"");
    // agent-config.yaml has no network for this host, and without --hosts no directory is
    // read.
    assert_eq!(found[1].document, Document::None);
    assert_eq!(found[1].root_device_hints, None);
}

#[test]
fn an_agent_config_identifies_the_hosts_of_a_directory() {
    let files = tempfile::tempdir().unwrap();
    let index = files.path().join("index.yaml");
    std::fs::write(
        &index,
        "hosts:\n- hostname: a\n  interfaces: [{macAddress: 52:54:00:00:00:0a}]\n\
         - hostname: b\n  interfaces: [{macAddress: 52:54:00:00:00:0b}]\n",
    )
    .unwrap();
    let directory = files.path().join("hosts");
    std::fs::create_dir(&directory).unwrap();
    let text = std::fs::read_to_string(data("directory/node1.json")).unwrap();
    std::fs::write(directory.join("a.json"), &text).unwrap();
    std::fs::write(directory.join("b.yaml"), "\n").unwrap();
    let found = hosts(&HostArguments {
        hosts: Some(directory.clone()),
        agent_config: Some(index),
        ..HostArguments::default()
    });
    assert_eq!(found[0].macs, [mac("52:54:00:00:00:0a")]);
    assert_eq!(found[0].document, Document::NetworkData(text));
    assert_eq!(found[1].macs, [mac("52:54:00:00:00:0b")]);
    assert_eq!(found[1].document, Document::None);

    // Without agent-config.yaml, no MAC address identifies host b.
    let error = Hosts::read(&HostArguments {
        hosts: Some(directory),
        ..HostArguments::default()
    });
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("b.yaml: no MAC address identifies the machine -- give"),
        "{error}"
    );
}

#[test]
fn a_pipe_among_the_hosts_is_not_waited_for() {
    let files = tempfile::tempdir().unwrap();
    let pipe = files.path().join("a.yaml");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    std::os::unix::fs::symlink("nowhere", files.path().join("b.yaml")).unwrap();
    let (sender, outcome) = std::sync::mpsc::channel();
    let arguments = HostArguments {
        hosts: Some(files.path().to_owned()),
        ..HostArguments::default()
    };
    std::thread::spawn(move || sender.send(Hosts::read(&arguments).map(drop)));
    let found = outcome.recv_timeout(std::time::Duration::from_secs(10));
    let error = found.expect("it waits for ever").unwrap_err().to_string();
    for name in ["a.yaml: expected a file", "b.yaml: expected a file"] {
        assert!(error.contains(name), "{error}");
    }
}

#[test]
fn faults_of_an_agent_config_have_their_paths() {
    let known = "expected keys of hostname, interfaces, networkConfig, role, rootDeviceHints; \
                 found \"networkconfig\"";
    assert_eq!(
        faults(&agent_config("faulty-agent-config.yaml")),
        [
            "9 faults:",
            &format!("faulty-agent-config.yaml: hosts[0]: {known}"),
            "faulty-agent-config.yaml: hosts[0].hostname: expected a host name, found \"node_1\"",
            "faulty-agent-config.yaml: hosts[0].interfaces[0].macAddress: expected six hexadecimal \
             bytes joined by ':' or '-', found \"00:ef:44:21:e6\"",
            "faulty-agent-config.yaml: hosts[1].interfaces[1].name: eno1 already stands for 00:ef:44:21:e6:a5",
            "faulty-agent-config.yaml: hosts[1].interfaces[2].macAddress: 00:ef:44:21:e6:a5 is given twice",
            "faulty-agent-config.yaml: hosts[2].interfaces: expected at least one interface with a macAddress, found none",
            "faulty-agent-config.yaml: hosts[3].interfaces: expected a list, found keys and values",
            "faulty-agent-config.yaml: hosts[3].interfaces: expected at least one interface with a macAddress, found none",
            "faulty-agent-config.yaml: hosts[4]: expected keys and values, found text",
        ]
    );
}

#[test]
fn an_install_config_gives_networks_and_hints() {
    let found = hosts(&HostArguments {
        install_config: Some(manifest("install-config.yaml")),
        ..HostArguments::default()
    });
    let shown: Vec<String> = { found.iter() }
        .map(|host| {
            let hints = host.root_device_hints.as_ref();
            format!(
                "{host}: {}",
                hints.map(ToString::to_string).unwrap_or_default()
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            "master-0 (52:54:00:00:00:10): serialNumber: \"S4EV0001\"",
            "master-1 (52:54:00:00:00:11): deviceName: \
             \"/dev/disk/by-path/pci-0000:00:1f.2-ata-1\", rotational: false",
            "worker-0.example.org (52:54:00:00:00:12): ",
        ]
    );
}

#[test]
fn every_fault_of_an_install_config_is_reported() {
    const AT: &str = "faulty-install-config.yaml: platform.baremetal.hosts";
    assert_eq!(
        faults(&install_config("faulty-install-config.yaml")),
        [
            "8 faults:".to_owned(),
            format!("{AT}[1].rootDeviceHints.serialNumber: expected a text in quotes, found 12"),
            format!(
                "{AT}[1].rootDeviceHints.size: no such hint; the nearest is `minSizeGigabytes`"
            ),
            format!("{AT}[3].name: expected a host name, found \"a/b\""),
            format!(
                "{AT}[3].bootMACAddress: expected six hexadecimal bytes joined by ':' or '-', \
                 found \"52:54:00:00:00\""
            ),
            format!(
                "{AT}[0] (master-0): interfaces[0].ipv4.address[0].ip: expected an IPv4 address, \
                 found \"192.0.2.300\""
            ),
            format!("{AT}[3] (a/b): interfaces[0].mut: no such key; the nearest is `mtu`"),
            format!("{AT}[1] (master-1): 52:54:00:00:00:10 is a NIC of {AT}[0] (master-0) as well"),
            format!("{AT}[2] (master-0): has the same host name as {AT}[0] (master-0)"),
        ]
    );
}

#[test]
fn hosts_of_several_manifests_are_distinguished() {
    let files = tempfile::tempdir().unwrap();
    let host = |name: &str, keys: &str| {
        format!("kind: BareMetalHost\nmetadata: {{name: {name}}}\nspec: {{{keys}}}\n")
    };
    let put = |name: &str, text: String| {
        let path = files.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let secret = "kind: Secret\nmetadata: {name: s}\nstringData:\n  nmstate: |\n    interfaces:\n    \
                  - {name: eno1, identifier: mac-address, mac-address: 52:54:00:00:00:0c}\n";
    let mac = |last: &str| format!("bootMACAddress: 52:54:00:00:00:{last}");
    let read = |texts: &[String]| {
        let paths = (0..)
            .zip(texts)
            .map(|(number, text)| put(&format!("{number}.yaml"), text.clone()));
        Hosts::read(&HostArguments {
            bare_metal_hosts: paths.collect(),
            ..HostArguments::default()
        })
    };
    let named = "preprovisioningNetworkDataName: s";
    // BareMetalHost `c` has no bootMACAddress: the MAC address comes from the network in
    // its Secret.
    let good = read(&[host("a", &mac("0a")), host("c", named), secret.to_owned()]);
    let good = good.unwrap().hosts;
    assert_eq!(good[1].to_string(), "c (52:54:00:00:00:0c)");
    for (texts, fault) in [
        (
            vec![host("a", &mac("0a")), host("b", &mac("0a"))],
            "52:54:00:00:00:0a is a NIC of",
        ),
        (
            vec![host("a", &mac("0c")), host("c", named), secret.to_owned()],
            "52:54:00:00:00:0c is a NIC of",
        ),
        // A single BareMetalHost also describes one particular machine, so it needs a MAC
        // address.
        (
            vec![host("a", "online: true")],
            "no MAC address identifies the machine -- give the BareMetalHost its bootMACAddress",
        ),
    ] {
        let error = read(&texts).unwrap_err().to_string();
        assert!(error.contains(fault), "{error}");
    }
}

#[test]
fn hosts_of_an_install_config_may_have_their_networks_in_a_directory() {
    let files = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(data("directory/node1.json")).unwrap();
    let text = text.replace("52:54:00:00:00:01", "52:54:00:00:00:12");
    std::fs::write(files.path().join("worker-0.example.org.json"), text).unwrap();
    let found = hosts(&HostArguments {
        install_config: Some(manifest("install-config.yaml")),
        hosts: Some(files.path().to_owned()),
        ..HostArguments::default()
    });
    assert_eq!(found[2].document.kind(), "network_data");
    assert_eq!(found[2].macs, [mac("52:54:00:00:00:12")]);
}

#[test]
fn one_address_for_two_hosts_is_reported() {
    let files = tempfile::tempdir().unwrap();
    for (name, last) in [("a", "1"), ("b", "2")] {
        let text = std::fs::read_to_string(data("directory/node1.json")).unwrap();
        let text = text.replace("00:00:01", &format!("00:00:0{last}"));
        std::fs::write(files.path().join(format!("{name}.json")), text).unwrap();
    }
    let found = Hosts::read(&HostArguments {
        hosts: Some(files.path().to_owned()),
        ..HostArguments::default()
    });
    let warnings = found.unwrap().warnings;
    assert_eq!(warnings.len(), 1);
    assert!(
        warnings[0].contains("b.json: 192.0.2.11 is an address of "),
        "{warnings:?}"
    );
}

#[test]
fn strict_rejects_settings_for_the_installed_system_only() {
    let files = tempfile::tempdir().unwrap();
    let state = files.path().join("state.yml");
    let text = "interfaces: [{name: ovs0, type: ovs-interface, ipv4: {enabled: true, dhcp: true}}, \
                {name: br0, type: ovs-bridge, bridge: {port: [{name: eth0}, {name: ovs0}]}}]";
    std::fs::write(&state, text).unwrap();
    let read = |strict| {
        Hosts::read(&HostArguments {
            nmstate: Some(state.clone()),
            strict,
            ..HostArguments::default()
        })
    };
    let warnings = read(false).unwrap().warnings;
    let words = "the ramdisk has no Open vSwitch: eth0 has the addresses of ovs0";
    assert!(
        warnings.iter().any(|warning| warning.ends_with(words)),
        "{warnings:?}"
    );
    let error = read(true).unwrap_err().to_string();
    assert!(error.contains(words), "{error}");
}

#[test]
fn a_gateway_outside_of_the_subnet_is_a_warning() {
    let files = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(data("directory/node1.json")).unwrap();
    let mut document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let route = r#"{"network": "0.0.0.0", "netmask": "0.0.0.0", "gateway": "203.0.113.1"}"#;
    document["networks"][0]["routes"] = serde_json::from_str(&format!("[{route}]")).unwrap();
    std::fs::write(files.path().join("a.json"), document.to_string()).unwrap();
    let warnings = Hosts::read(&HostArguments {
        hosts: Some(files.path().to_owned()),
        ..HostArguments::default()
    });
    let warnings = warnings.unwrap().warnings;
    assert!(
        warnings[0].contains("gateway 203.0.113.1 is outside"),
        "{warnings:?}"
    );
}
