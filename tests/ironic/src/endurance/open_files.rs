//! Describes what a process has open. For a connection the text names the peer, because
//! a number of open files alone does not show whether a connection is idle or lost.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;

use procfs::net::{TcpNetEntry, TcpState};
use procfs::process::{FDTarget, Process};

/// The number of open files of a process, by kind. The kind is a path or a description
/// in words.
pub type OpenFiles = BTreeMap<String, u64>;

/// The prefix of the kind of a connection that another program has opened to the
/// process.
const FROM: &str = "TCP from ";

/// Reads the open files of a process. The process may be in another network namespace
/// than this one. `None` if the process has ended.
#[must_use]
pub fn open_files(pid: i32) -> Option<OpenFiles> {
    let process = Process::new(pid).ok()?;
    let files = process.fd().ok()?;
    let sockets = sockets(&process);
    let mut kinds = OpenFiles::new();
    // A file that is closed meanwhile has no target.
    for file in files.flatten() {
        let kind = match file.target {
            FDTarget::Socket(inode) => sockets
                .get(&inode)
                .cloned()
                .unwrap_or_else(|| "other socket".to_owned()),
            FDTarget::Path(path) => path.display().to_string(),
            FDTarget::AnonInode(name) => name,
            FDTarget::Pipe(_) => "pipe".to_owned(),
            _ => "other".to_owned(),
        };
        *kinds.entry(kind).or_default() += 1;
    }
    Some(kinds)
}

/// How many connections others have opened to the process.
#[must_use]
pub fn from_clients(open: &OpenFiles) -> u64 {
    let of_clients = open.iter().filter(|(kind, _)| kind.starts_with(FROM));
    of_clients.map(|(_, count)| count).sum()
}

/// Whether the process has a connection to this address.
#[must_use]
pub fn is_connected_to(open: &OpenFiles, address: SocketAddr) -> bool {
    open.contains_key(&format!("TCP to {address}, Established"))
}

/// Which kinds of files are more in `later`, in words.
#[must_use]
pub fn more_of(earlier: &OpenFiles, later: &OpenFiles) -> String {
    let before = |kind: &String| earlier.get(kind).copied().unwrap_or_default();
    let more = later.iter().filter(|(kind, count)| **count > before(kind));
    let more: Vec<String> = more
        .map(|(kind, count)| format!("{kind}: {} -> {count}", before(kind)))
        .collect();
    more.join("; ")
}

/// The sockets of the process's network namespace in words, by inode. A kernel without
/// IPv6 has no tables for it.
fn sockets(process: &Process) -> HashMap<u64, String> {
    let mut tcp = process.tcp().unwrap_or_default();
    tcp.extend(process.tcp6().unwrap_or_default());
    let listens: Vec<u16> = tcp
        .iter()
        .filter(|entry| entry.state == TcpState::Listen)
        .map(|entry| entry.local_address.port())
        .collect();
    let tcp = tcp
        .iter()
        .map(|entry| (entry.inode, tcp_in_words(entry, &listens)));
    let mut words: HashMap<u64, String> = tcp.collect();
    let mut udp = process.udp().unwrap_or_default();
    udp.extend(process.udp6().unwrap_or_default());
    for entry in udp {
        words.insert(
            entry.inode,
            format!("UDP to {}", shown(entry.remote_address)),
        );
    }
    words
}

fn tcp_in_words(entry: &TcpNetEntry, listens: &[u16]) -> String {
    let (local, remote) = (entry.local_address.port(), entry.remote_address);
    let state = &entry.state;
    if *state == TcpState::Listen {
        format!("TCP, listens on port {local}")
    } else if listens.contains(&local) {
        let client = remote.ip().to_canonical();
        format!("{FROM}{client} to port {local}, {state:?}")
    } else {
        format!("TCP to {}, {state:?}", shown(remote))
    }
}

fn shown(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn connections_are_listed_by_peer() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        let clients = [(); 3].map(|()| TcpStream::connect(("127.0.0.1", port)).unwrap());
        let accepted = [(); 3].map(|()| server.accept().unwrap());
        let own = open_files(std::process::id() as i32).unwrap();
        for (kind, count) in [
            (format!("TCP, listens on port {port}"), 1),
            (format!("TCP to 127.0.0.1:{port}, Established"), 3),
            (format!("TCP from 127.0.0.1 to port {port}, Established"), 3),
        ] {
            assert_eq!(own.get(&kind), Some(&count), "{kind}: {own:?}");
        }
        assert_eq!(from_clients(&own), 3);
        assert!(is_connected_to(&own, server.local_addr().unwrap()));
        let more = more_of(&OpenFiles::new(), &own);
        assert!(more.contains(": 0 -> 3"), "{more}");
        drop((clients, accepted));
        assert_eq!(open_files(i32::MAX), None);
    }
}
