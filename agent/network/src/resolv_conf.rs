//! Writes the two files that name resolution reads: resolv.conf and hosts.

use std::fmt;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::Path;

/// The C library uses no more servers (MAXNS in resolv.h).
const MOST_SERVERS: usize = 3;

const HOSTS: &str = "127.0.0.1 localhost\n::1 localhost\n";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsServer {
    pub address: IpAddr,
    /// The interface that leads to the server. Set only for a link-local address,
    /// because such an address is valid only on one link.
    pub interface: Option<String>,
}

impl DnsServer {
    /// The server at this address, announced on this interface.
    pub fn by(interface: &str, address: IpAddr) -> DnsServer {
        let is_link_local = matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local());
        DnsServer {
            address,
            interface: is_link_local.then(|| interface.to_owned()),
        }
    }
}

impl fmt::Display for DnsServer {
    /// Formats the address as in resolv.conf(5): `fe80::1%eth0`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.interface {
            Some(interface) => write!(f, "{}%{interface}", self.address),
            None => self.address.fmt(f),
        }
    }
}

/// Replaces the file with these servers and search domains. Readers never see a
/// partly written file.
///
/// # Errors
/// If the file cannot be written. The error names the file.
pub fn write(path: &Path, servers: &[DnsServer], search: &[String]) -> io::Result<()> {
    write_file(path, &text(servers, search))
}

/// Writes a hosts file that resolves `localhost`, unless the file exists.
///
/// # Errors
/// If the file cannot be written. The error names the file.
pub fn write_hosts(path: &Path) -> io::Result<()> {
    if path.exists() {
        return Ok(());
    }
    write_file(path, HOSTS)
}

fn text(servers: &[DnsServer], search: &[String]) -> String {
    let mut text = String::new();
    if !search.is_empty() {
        text.push_str(&format!("search {}\n", search.join(" ")));
    }
    for server in servers.iter().take(MOST_SERVERS) {
        text.push_str(&format!("nameserver {server}\n"));
    }
    text
}

fn write_file(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("new");
    fs::write(&new, text)
        .and_then(|()| fs::rename(&new, path))
        .map_err(|error| io::Error::other(format!("cannot write {}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_three_servers_and_all_domains() {
        let servers = ["192.0.2.1", "fe80::1", "192.0.2.2", "192.0.2.3"]
            .map(|text| DnsServer::by("eth0", text.parse().unwrap()));
        let search = ["lab".to_owned(), "example.org".to_owned()];
        assert_eq!(
            text(&servers, &search),
            "search lab example.org\nnameserver 192.0.2.1\nnameserver fe80::1%eth0\nnameserver 192.0.2.2\n"
        );
        assert_eq!(text(&[], &[]), "");
    }

    #[test]
    fn replaces_the_file_and_leaves_no_other_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("resolv.conf");
        write(&path, &[DnsServer::by("eth0", [192, 0, 2, 1].into())], &[]).unwrap();
        write(&path, &[], &["lab".to_owned()]).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "search lab\n");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        let path = dir.path().join("missing/resolv.conf");
        let missing = write(&path, &[], &[]).unwrap_err();
        let expected = format!("cannot write {}: ", path.display());
        assert!(missing.to_string().starts_with(&expected), "{missing}");
    }

    #[test]
    fn an_existing_hosts_file_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hosts");
        write_hosts(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), HOSTS);
        fs::write(&path, "192.0.2.1 ironic\n").unwrap();
        write_hosts(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "192.0.2.1 ironic\n");
    }
}
