//! Sends messages to the service manager that started this process (sd_notify(3)),
//! as datagrams to the socket in NOTIFY_SOCKET.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The maximum length of a status in bytes. systemd shows it on one line.
const STATUS_LIMIT: usize = 200;

/// The connection to the service manager.
#[derive(Debug)]
pub struct ServiceNotify {
    socket: UnixDatagram,
    manager: SocketAddr,
}

impl ServiceNotify {
    /// Connects to the service manager. Returns `None` if NOTIFY_SOCKET is not set.
    ///
    /// # Errors
    /// If NOTIFY_SOCKET is not a valid address of a Unix socket, or if the process cannot
    /// create a socket. Whether the service manager listens is not checked.
    pub fn from_environment() -> io::Result<Option<Self>> {
        match std::env::var_os("NOTIFY_SOCKET") {
            Some(path) => Self::to(&path).map(Some),
            None => Ok(None),
        }
    }

    fn to(path: &OsStr) -> io::Result<Self> {
        let manager = match path.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            _ => SocketAddr::from_pathname(path)?,
        };
        let socket = UnixDatagram::unbound()?;
        // A service manager that does not read must not block the agent.
        socket.set_nonblocking(true)?;
        Ok(Self { socket, manager })
    }

    /// Reports that the service has started.
    ///
    /// # Errors
    /// If the manager's socket does not accept the message.
    pub fn ready(&self) -> io::Result<()> {
        self.send("READY=1")
    }

    /// Reports what the service is doing, for `systemctl status`.
    ///
    /// # Errors
    /// As for [`ServiceNotify::ready`].
    pub fn status(&self, text: &str) -> io::Result<()> {
        // Send only the first line, because every line of a message is a separate
        // variable.
        let line = text.lines().next().unwrap_or_default();
        let end = line.floor_char_boundary(STATUS_LIMIT);
        self.send(&format!("STATUS={}", &line[..end]))
    }

    /// Reports that the service is alive.
    ///
    /// # Errors
    /// As for [`ServiceNotify::ready`].
    pub fn alive(&self) -> io::Result<()> {
        self.send("WATCHDOG=1")
    }

    fn send(&self, text: &str) -> io::Result<()> {
        let sent = self.socket.send_to_addr(text.as_bytes(), &self.manager);
        sent.map(drop)
    }
}

/// The interval for calls of [`ServiceNotify::alive`]: half of the manager's
/// watchdog time (sd_watchdog_enabled(3)). `None` if the manager does not watch
/// this process.
pub fn watchdog_interval() -> Option<Duration> {
    let own = std::process::id().to_string();
    let process = std::env::var_os("WATCHDOG_PID");
    interval(std::env::var_os("WATCHDOG_USEC"), process, &own)
}

fn interval(limit: Option<OsString>, process: Option<OsString>, own: &str) -> Option<Duration> {
    if process.is_some_and(|process| process != own) {
        return None;
    }
    let limit: u64 = limit?.to_str()?.parse().ok()?;
    (limit > 1).then(|| Duration::from_micros(limit / 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_it_by_path_and_by_abstract_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let name = format!("landfall-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        for (socket, target) in [
            (
                UnixDatagram::bind(&path).unwrap(),
                path.clone().into_os_string(),
            ),
            (
                UnixDatagram::bind_addr(&address).unwrap(),
                format!("@{name}").into(),
            ),
        ] {
            let notify = ServiceNotify::to(&target).unwrap();
            notify.ready().unwrap();
            notify.status("one\ntwo").unwrap();
            notify.status(&"\u{e9}".repeat(STATUS_LIMIT)).unwrap();
            notify.alive().unwrap();
            let mut bytes = [0; 500];
            let long = format!("STATUS={}", "\u{e9}".repeat(STATUS_LIMIT / 2));
            for expected in ["READY=1", "STATUS=one", &long, "WATCHDOG=1"] {
                let length = socket.recv(&mut bytes).unwrap();
                assert_eq!(String::from_utf8_lossy(&bytes[..length]), *expected);
            }
        }
        assert!(
            ServiceNotify::to(OsStr::new("/nowhere"))
                .unwrap()
                .ready()
                .is_err()
        );
    }

    #[test]
    fn the_watchdog_is_fed_twice_in_its_time() {
        for (limit, process, expected) in [
            (None, None, None),
            (Some("30000000"), None, Some(15)),
            (Some("30000000"), Some("7"), Some(15)),
            (Some("30000000"), Some("8"), None),
            (Some("0"), None, None),
            (Some("x"), None, None),
        ] {
            let found = interval(limit.map(Into::into), process.map(Into::into), "7");
            assert_eq!(
                found,
                expected.map(Duration::from_secs),
                "{limit:?} {process:?}"
            );
        }
    }
}
