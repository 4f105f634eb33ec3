//! The network of a host as lines of text. The text contains no secrets: it is made from
//! the parsed plan, which has names, addresses and numbers only, and never from the
//! host's original text, which may hold passwords (802.1X).

use landfall_boot_params::without_secrets;
use landfall_host_media::HostVersion;
use landfall_network_plan::describe::describe;
use landfall_network_plan::embedded::{DIRECTORY, SUFFIX};
use landfall_network_plan::{Document, EmbeddedHost};

/// The maximum size in bytes of a file that is read. A page has many hosts, and most
/// files have one or two kilobytes.
const LARGEST_FILE: usize = 64 << 10;
const MAX_LINES: usize = 16;
/// The maximum length of a line in characters.
const MAX_LINE: usize = 300;

/// One line for each setting of an interface, at most `MAX_LINES` lines. If there are
/// none, a line with the reason.
pub(crate) fn network_in_words(version: &HostVersion) -> Vec<String> {
    let is_host = |path: &str| {
        let name = path.strip_prefix(DIRECTORY);
        name.is_some_and(|name| name.starts_with('/') && name.ends_with(SUFFIX))
    };
    let files = version.files().iter().filter(|file| is_host(&file.path));
    let mut lines: Vec<String> = files.flat_map(|file| words_of(&file.bytes)).collect();
    if lines.is_empty() {
        lines.push("none of its own".to_owned());
    }
    if lines.len() > MAX_LINES {
        let more = lines.len() - (MAX_LINES - 1);
        lines.truncate(MAX_LINES - 1);
        lines.push(format!("and {more} more lines"));
    }
    lines
}

fn words_of(file: &[u8]) -> Vec<String> {
    if file.len() > LARGEST_FILE {
        return vec![format!("a description of {} bytes", file.len())];
    }
    let text = str::from_utf8(file).ok();
    let host = text.and_then(|text| EmbeddedHost::from_json(text).ok());
    // The reason is not shown: it quotes the description.
    let unknown = || vec!["a description that this program cannot read".to_owned()];
    match host {
        Some(host) if host.document == Document::None => Vec::new(),
        Some(host) => match host.plan() {
            Ok(plan) => describe(&plan).iter().map(|line| shown(line)).collect(),
            Err(_) => unknown(),
        },
        None => unknown(),
    }
}

fn shown(line: &str) -> String {
    let line = without_secrets(line);
    let printable = line.chars().filter(|char| !char.is_control());
    printable.take(MAX_LINE).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(kind: &str, text: &str) -> Vec<String> {
        let file = serde_json::json!({
            "format": 1, "host_name": "node1", "macs": [], "nics": {}, "kind": kind, "text": text,
        });
        let version = HostVersion::default()
            .with_file("etc/landfall/site.conf", "S3CRET")
            .with_file("etc/landfall/hosts/node1.json", file.to_string());
        network_in_words(&version)
    }

    #[test]
    fn the_words_are_those_of_the_console() {
        let vlan = "interfaces:\n\
            - {name: eno1, type: ethernet, state: up, mtu: 9000}\n\
            - {name: eno1.7, type: vlan, state: up, vlan: {base-iface: eno1, id: 7}, ipv4: \
               {enabled: true, dhcp: false, address: [{ip: 192.0.2.51, prefix-length: 24}]}}\n";
        let found = lines("nmstate", vlan);
        for expected in [
            "eno1: MTU 9000",
            "eno1.7: VLAN 7 on eno1",
            "eno1.7: IPv4 192.0.2.51/24",
        ] {
            assert!(found.iter().any(|line| line == expected), "{found:?}");
        }
        assert_eq!(lines("none", ""), ["none of its own"]);
        assert_eq!(
            network_in_words(&HostVersion::default()),
            ["none of its own"]
        );
    }

    /// A password may be at a wrong place of a description, or the description may be
    /// invalid at the place of the password.
    #[test]
    fn no_password_of_a_description_becomes_a_word() {
        for text in [
            "interfaces:\n- name: eno1\n  type: ethernet\n  state: up\n  802.1x: {identity: a, eap-methods: [peap], private-key-password: S3CRET}\n",
            "interfaces:\n- name: eno1\n  type: S3CRET\n",
            "interfaces: S3CRET\n",
            "S3CRET: [",
        ] {
            let found = lines("nmstate", text);
            assert!(!found.is_empty());
            assert!(!found.concat().contains("S3CRET"), "{found:?}");
        }
        let found = lines("network_data", "{\"links\": \"S3CRET\"}");
        assert!(!found.concat().contains("S3CRET"), "{found:?}");
    }

    #[test]
    fn a_large_network_takes_few_lines() {
        let interface = |number| {
            format!(
                "- {{name: e{number}, type: ethernet, state: up, ipv4: {{enabled: true, dhcp: true}}}}\n"
            )
        };
        let many: String = (0..200).map(interface).collect();
        let found = lines("nmstate", &format!("interfaces:\n{many}"));
        assert_eq!(found.len(), MAX_LINES);
        assert!(found[MAX_LINES - 1].ends_with(" more lines"), "{found:?}");
        let found = lines("nmstate", &" ".repeat(LARGEST_FILE));
        assert!(found[0].starts_with("a description of "), "{found:?}");
    }
}
