//! The servers in the configuration files of chrony and systemd-timesyncd.

use landfall_boot_params::argument_value::{ArgumentValue as _, NtpServer};

/// The servers, pools and peers of chrony.conf(5), in order: `server NAME iburst`.
pub(crate) fn of_chrony(content: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(content);
    let mut servers = Vec::new();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let directive = words.next().unwrap_or_default().to_ascii_lowercase();
        if ["server", "pool", "peer"].contains(&directive.as_str()) {
            servers.extend(words.next().and_then(server));
        }
    }
    servers
}

/// The servers of timesyncd.conf(5), in order: `NTP=NAME NAME`.
pub(crate) fn of_timesyncd(content: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(content);
    let mut servers = Vec::new();
    for line in text.lines() {
        let Some((key, names)) = line.split_once('=') else {
            continue;
        };
        if key.trim() == "NTP" {
            servers.extend(names.split_ascii_whitespace().filter_map(server));
        }
    }
    servers
}

/// A name or address that the agent accepts.
fn server(text: &str) -> Option<String> {
    NtpServer::parse(text).map(|server| server.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_in_their_order() {
        let chrony = b"# server old\n\nserver ntp1.example iburst\nPool 2001:db8::7\n\
            server\nserver a;b\ndriftfile /var/lib/chrony/drift\npeer 192.0.2.7\n";
        assert_eq!(
            of_chrony(chrony),
            ["ntp1.example", "2001:db8::7", "192.0.2.7"]
        );
        let timesyncd = b"[Time]\nNTP = a.example b.example\n#NTP=c\nFallbackNTP=d\n";
        assert_eq!(of_timesyncd(timesyncd), ["a.example", "b.example"]);
    }
}
