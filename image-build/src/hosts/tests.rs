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

/// The hosts as the agent will read them.
fn hosts(arguments: &HostArguments) -> Vec<EmbeddedHost> {
    let files = Hosts::read(arguments).unwrap().files;
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
    assert!(found.files.is_empty() && found.warnings.is_empty());
}

#[test]
fn a_file_for_each_host() {
    let found = hosts(&directory("directory"));
    let names: Vec<_> = found.iter().map(EmbeddedHost::to_string).collect();
    assert_eq!(
        names,
        ["node1 (52:54:00:00:00:01)", "node2 (52:54:00:00:00:02)"]
    );
    let files = Hosts::read(&directory("directory")).unwrap().files;
    assert_eq!(files[0].name, "hosts/node1.json");
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
fn every_fault_of_every_host_is_told() {
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
    // The file has no network for this host, and the directory is not used.
    assert_eq!(found[1].document, Document::None);
}

#[test]
fn an_agent_config_tells_the_hosts_of_a_directory() {
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

    // Without the agent-config.yaml, nothing says which machine is b.
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
fn one_address_for_two_hosts_is_told() {
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
fn what_only_the_installed_system_gets_is_refused_by_strict() {
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
