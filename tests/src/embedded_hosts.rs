//! Writes the networks of fifty hosts, including the test's host, in the input formats
//! of the builder. Nothing in the lab has the addresses of the other hosts.
//! [`install_config`] describes hosts that all run.

use std::fs;

use anyhow::Result;
use serde_json::{Value, json};

use crate::lab::{GUEST_V4, HOST_V4, Lab, MAC};

/// Number of hosts.
pub const COUNT: u8 = 50;
/// Name of the test's host.
pub const NAME: &str = "node37";
const NUMBER: u8 = 37;

/// Builder options for a folder of host files: NMState and network_data in turn.
pub fn folder(lab: &Lab) -> Result<Vec<String>> {
    let folder = lab.path("hosts");
    fs::create_dir(&folder)?;
    for number in 0..COUNT {
        let (mac, address) = mac_and_address(number);
        let (document, ending) = match number % 2 {
            0 => (nmstate("enp1s0", Some(&mac), &address), "yaml"),
            _ => (network_data(&mac, &address), "json"),
        };
        let file = folder.join(format!("node{number}.{ending}"));
        fs::write(file, format!("{document:#}\n"))?;
    }
    Ok(vec!["--hosts".to_owned(), folder.display().to_string()])
}

/// Builder options for the test's host alone, without a name: network_data.
pub fn one(lab: &Lab) -> Result<Vec<String>> {
    let file = lab.path("network_data.json");
    let document = network_data(MAC, &GUEST_V4.to_string());
    fs::write(&file, format!("{document:#}\n"))?;
    Ok(vec![
        "--network-data".to_owned(),
        file.display().to_string(),
    ])
}

/// Builder options for an agent-config.yaml. The file gives each host's NIC a name that
/// the NIC of the test's host does not have.
pub fn agent_config(lab: &Lab) -> Result<Vec<String>> {
    let host = |number| {
        let (mac, address) = mac_and_address(number);
        json!({
            "hostname": format!("node{number}"),
            "interfaces": [{"name": "provisioning", "macAddress": mac}],
            "networkConfig": nmstate("provisioning", None, &address),
        })
    };
    let hosts: Vec<Value> = (0..COUNT).map(host).collect();
    let document = json!({"apiVersion": "v1beta1", "kind": "AgentConfig", "hosts": hosts});
    let file = lab.path("agent-config.yaml");
    fs::write(&file, format!("{document:#}\n"))?;
    Ok(vec![
        "--agent-config".to_owned(),
        file.display().to_string(),
    ])
}

/// A host of an install-config.yaml.
pub struct InstallerHost {
    pub name: &'static str,
    pub mac: &'static str,
    pub address: &'static str,
    /// `rootDeviceHints`.
    pub hints: Value,
}

/// Builder options for an install-config.yaml with these hosts.
pub fn install_config<'a>(
    lab: &Lab,
    hosts: impl IntoIterator<Item = &'a InstallerHost>,
) -> Result<Vec<String>> {
    let host = |host: &InstallerHost| {
        json!({
            "name": host.name,
            "role": "worker",
            "bmc": {"address": "ipmi://198.51.100.1", "username": "admin", "password": "secret"},
            "bootMACAddress": host.mac,
            "rootDeviceHints": host.hints,
            "networkConfig": nmstate("enp1s0", Some(host.mac), host.address),
        })
    };
    let hosts: Vec<Value> = hosts.into_iter().map(host).collect();
    let document = json!({
        "apiVersion": "v1",
        "metadata": {"name": "lab"},
        "platform": {"baremetal": {"hosts": hosts}},
    });
    let file = lab.path("install-config.yaml");
    fs::write(&file, format!("{document:#}\n"))?;
    Ok(vec![
        "--install-config".to_owned(),
        file.display().to_string(),
    ])
}

fn mac_and_address(number: u8) -> (String, String) {
    match number {
        NUMBER => (MAC.to_owned(), GUEST_V4.to_string()),
        _ => (
            format!("52:54:00:e0:00:{number:02x}"),
            format!("198.51.100.{number}"),
        ),
    }
}

fn network_data(mac: &str, address: &str) -> Value {
    let gateway = json!({"network": "0.0.0.0", "netmask": "0.0.0.0", "gateway": HOST_V4});
    json!({
        "links": [{"id": "port", "type": "phy", "ethernet_mac_address": mac}],
        "networks": [{
            "id": "net", "type": "ipv4", "link": "port", "ip_address": address,
            "netmask": "255.255.255.0", "routes": [gateway],
        }],
        "services": [{"type": "dns", "address": HOST_V4}],
    })
}

/// The network of one host as JSON, which is valid YAML too.
fn nmstate(nic: &str, mac: Option<&str>, address: &str) -> Value {
    let mut interface = json!({
        "name": nic, "type": "ethernet", "state": "up",
        "ipv4": {
            "enabled": true, "dhcp": false,
            "address": [{"ip": address, "prefix-length": 24}],
        },
    });
    if let Some(mac) = mac {
        interface["identifier"] = json!("mac-address");
        interface["mac-address"] = json!(mac);
    }
    json!({
        "interfaces": [interface],
        "dns-resolver": {"config": {"server": [HOST_V4]}},
        "routes": {"config": [{
            "destination": "0.0.0.0/0", "next-hop-address": HOST_V4, "next-hop-interface": nic,
        }]},
    })
}
