//! Parses NetworkManager's and Landfall's keyfiles, and converts them to the normal
//! form of a plan.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// The values by section and key.
#[derive(Debug, Default)]
pub struct Keyfile {
    sections: BTreeMap<String, BTreeMap<String, String>>,
    current: String,
}

impl Keyfile {
    pub fn parse(text: &str) -> Keyfile {
        let mut file = Keyfile::default();
        for line in text.lines() {
            file.read_line(line);
        }
        file
    }

    /// Parses the next line.
    pub fn read_line(&mut self, line: &str) {
        let section = line.strip_prefix('[').and_then(|l| l.strip_suffix(']'));
        if let Some(section) = section {
            self.current = section.to_owned();
            self.sections.entry(section.to_owned()).or_default();
        } else if let Some((key, value)) = line.split_once('=') {
            let section = self.sections.entry(self.current.clone()).or_default();
            section.insert(key.to_owned(), unescaped(value));
        }
    }

    pub fn get(&self, section: &str, key: &str) -> Option<&str> {
        self.sections.get(section)?.get(key).map(String::as_str)
    }

    fn number(&self, section: &str, key: &str) -> Option<u64> {
        self.get(section, key)?.parse().ok()
    }

    fn is_true(&self, section: &str, key: &str) -> bool {
        self.get(section, key) == Some("true")
    }

    /// The profile as an interface in normal form. Adds the member `last_choice`: true
    /// if the priority of the profile is below its writer's usual priority.
    pub fn interface(
        &self,
        usual_priority: i64,
        controller: impl Fn(&str) -> Option<String>,
    ) -> Value {
        let kind = match self.get("connection", "type") {
            Some("802-3-ethernet") | None => "ethernet",
            Some(kind) => kind,
        };
        let controller = self.get("connection", "master").map(|text| {
            // NetworkManager refers to a controller by the UUID of its profile, which
            // `controller` turns into a name.
            controller(text).unwrap_or_else(|| text.to_owned())
        });
        let mac = self
            .get("ethernet", "mac-address")
            .or(self.get("infiniband", "mac-address"));
        // The generator writes the MTU to a section that NetworkManager ignores for
        // InfiniBand.
        let mtu = self
            .number("ethernet", "mtu")
            .or(self.number("infiniband", "mtu"));
        let priority = self.get("connection", "autoconnect-priority");
        let priority = priority.and_then(|text| text.parse().ok()).unwrap_or(0);
        let mut form = json!({
            "last_choice": priority < usual_priority,
            "match": {
                "name": self.get("connection", "interface-name"),
                "mac": mac.map(str::to_lowercase),
            },
            "type": kind,
            "multi": self.get("connection", "multi-connect") == Some("3"),
            "mtu": mtu,
            "set_mac": self.get("ethernet", "cloned-mac-address").map(str::to_lowercase),
            "needed": self.get("connection", "wait-device-timeout").is_some(),
        });
        match kind {
            "vlan" => {
                form["vlan"] = json!({
                    "id": self.number("vlan", "id").unwrap_or(0),
                    "parent": self.get("vlan", "parent"),
                });
            }
            "bond" => form["bond"] = json!(self.sections.get("bond")),
            "bridge" => form["bridge"] = json!({"stp": self.is_true("bridge", "stp")}),
            "team" => form["team"] = json!({}),
            "infiniband" => {
                form["infiniband"] = json!({
                    "transport_mode": self.get("infiniband", "transport-mode"),
                    "parent": self.get("infiniband", "parent"),
                    "p_key": self.number("infiniband", "p-key"),
                });
            }
            _ => {}
        }
        let speed = self.number("ethernet", "speed");
        let autoneg = self.is_true("ethernet", "auto-negotiate");
        if autoneg || speed.is_some() {
            form["ethtool"] = json!({"autoneg": autoneg, "speed": speed});
        }
        match controller {
            Some(controller) => form["controller"] = json!(controller),
            None => {
                form["ipv4"] = self.family("ipv4");
                form["ipv6"] = self.family("ipv6");
            }
        }
        form
    }

    fn family(&self, family: &str) -> Value {
        let get = |key: &str| self.get(family, key);
        let numbered = |name: &str| -> Vec<&str> {
            // NetworkManager counts from one, nmstate and Landfall from zero.
            let values = (0..100).filter_map(|index| get(&format!("{name}{index}")));
            values.collect()
        };
        let list = |text: Option<&str>| -> Vec<String> {
            let items = text.unwrap_or_default().split(';');
            items.filter(|i| !i.is_empty()).map(str::to_owned).collect()
        };
        let mut gateway = get("gateway");
        let mut addresses = Vec::new();
        for text in numbered("address") {
            let mut words = text.splitn(2, ',');
            addresses.extend(words.next());
            gateway = gateway.or(words.next());
        }
        let routes: Vec<Value> = numbered("route").into_iter().map(route).collect();
        let method = get("method").unwrap_or_default();
        let mut form = json!({
            "method": method,
            "addresses": addresses,
            "gateway": gateway,
            "dns": list(get("dns")),
            "routes": routes,
            "required": get("may-fail") == Some("false"),
        });
        if method == "auto" || method == "dhcp" {
            form["required_timeout_ms"] = json!(self.number(family, "required-timeout"));
            form["ignore_auto_dns"] = json!(self.is_true(family, "ignore-auto-dns"));
            form["dhcp_timeout"] = json!(self.number(family, "dhcp-timeout"));
            form["dhcp_hostname"] = json!(get("dhcp-hostname").or(get("dhcp-fqdn")));
            // OpenShift's images set "mac" if nothing else is set.
            form["dhcp_client_id"] = json!(get("dhcp-client-id").filter(|id| *id != "mac"));
            form["vendor_class"] = json!(get("dhcp-vendor-class-identifier"));
        }
        form
    }
}

fn route(text: &str) -> Value {
    let words: Vec<&str> = text.split(',').collect();
    let word = |at: usize| words.get(at).filter(|word| !word.is_empty());
    let via = word(1).filter(|via| !matches!(**via, "0.0.0.0" | "::"));
    let metric: Option<u64> = word(2).and_then(|text| text.parse().ok());
    json!({"dst": words[0], "via": via, "metric": metric})
}

/// Reads a value as GKeyFile does: `a\\sb` becomes `a\sb`.
fn unescaped(text: &str) -> String {
    let mut plain = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (letter, letter == '\\') {
            (_, false) => plain.push(letter),
            (_, true) => match letters.next() {
                Some('s') => plain.push(' '),
                Some('n') => plain.push('\n'),
                Some('t') => plain.push('\t'),
                Some('r') => plain.push('\r'),
                Some(other) => plain.push(other),
                None => plain.push('\\'),
            },
        }
    }
    plain
}
