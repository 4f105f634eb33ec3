//! The networks of fifty hosts, one of which is that of the test.

use std::fs;
use std::path::PathBuf;

use anyhow::Result;
use serde_json::json;

use crate::lab::{GUEST_V4, HOST_V4, Lab};
use crate::site::MAC;

/// How many there are.
pub const COUNT: u8 = 50;
/// What the host of the test is called in its file.
pub const NAME: &str = "node37";
const NUMBER: u8 = 37;

/// A folder for `landfall-image --hosts`. No other host has an address that
/// would lead anywhere here.
pub fn folder(lab: &Lab) -> Result<PathBuf> {
    let folder = lab.path("hosts");
    fs::create_dir(&folder)?;
    for number in 0..COUNT {
        let (mac, address) = match number {
            NUMBER => (MAC.to_owned(), GUEST_V4.to_string()),
            _ => (
                format!("52:54:00:e0:00:{number:02x}"),
                format!("198.51.100.{number}"),
            ),
        };
        let gateway = json!({"network": "0.0.0.0", "netmask": "0.0.0.0", "gateway": HOST_V4});
        let document = json!({
            "links": [{"id": "port", "type": "phy", "ethernet_mac_address": mac}],
            "networks": [{
                "id": "net", "type": "ipv4", "link": "port", "ip_address": address,
                "netmask": "255.255.255.0", "routes": [gateway],
            }],
            "services": [{"type": "dns", "address": HOST_V4}],
        });
        let file = folder.join(format!("node{number}.json"));
        fs::write(file, format!("{document:#}\n"))?;
    }
    Ok(folder)
}
