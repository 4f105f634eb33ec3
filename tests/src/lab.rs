//! Creates the private environment of one test: a network namespace, a folder
//! and a journal.
//!
//! The namespace belongs to the test's thread and to the programs that it starts.
//! It has no name, so the kernel removes it when they end, even after SIGKILL.
//! Every test can use the same ports and addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::geteuid;
use tempfile::TempDir;

use crate::artifacts;
use crate::guest_slots;
use crate::journal::{Journal, Source};
use crate::program;

/// The host's address on the lab's bridge (RFC 5737, TEST-NET-1).
pub const HOST_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// The guest's address, whether static or assigned by DHCP.
pub const GUEST_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 10);
/// The MAC address of the guest's first NIC.
pub const MAC: &str = "52:54:00:c0:ff:01";
/// The host's IPv6 address on the bridge (RFC 3849).
pub const HOST_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
/// The guest's IPv6 address.
pub const GUEST_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x10);

/// The taps on the bridge: one for each NIC that a host can have, and one for its
/// [`crate::peer::Peer`].
pub const TAPS: [&str; 3] = ["tap0", "tap1", "peer0"];
/// The index of the peer's tap in [`TAPS`].
pub const PEER_TAP: usize = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    V4,
    V6,
}

impl Family {
    #[must_use]
    pub fn host(self) -> IpAddr {
        match self {
            Self::V4 => HOST_V4.into(),
            Self::V6 => HOST_V6.into(),
        }
    }

    /// The base URL of a service on the host's `port`.
    #[must_use]
    pub fn url(self, port: u16) -> String {
        format!("http://{}", SocketAddr::new(self.host(), port))
    }
}

pub struct Lab {
    pub journal: Journal,
    name: String,
    folder: TempDir,
}

impl Lab {
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A path in the test's folder. The folder is deleted after the test.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The path for the log of `what`, next to the journal's file. It is kept after
    /// the test.
    #[must_use]
    pub fn log_path(&self, what: &str) -> PathBuf {
        artifacts::out_dir()
            .join("logs")
            .join(format!("{}.{what}.log", self.name))
    }

    fn journal_path(&self) -> PathBuf {
        artifacts::out_dir()
            .join("logs")
            .join(format!("{}.log", self.name))
    }

    /// Writes the journal to a file for the developer.
    fn keep_journal(&self) -> Result<PathBuf> {
        let path = self.journal_path();
        let text: String = self
            .journal
            .events()
            .iter()
            .map(|event| format!("{event}\n"))
            .collect();
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
        std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        Ok(path)
    }

    fn print_tail(&self) {
        const TAIL: usize = 60;
        let events = self.journal.events();
        eprintln!("---- {}: the last of {} events", self.name, events.len());
        for event in events.iter().skip(events.len().saturating_sub(TAIL)) {
            eprintln!("{event}");
        }
        eprintln!("---- all of them: {}", self.journal_path().display());
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Err(error) = self.keep_journal() {
            eprintln!("{}: {error:#}", self.name);
        }
        if std::thread::panicking() {
            self.print_tail();
        }
    }
}

/// Runs a test's body in its own lab, as soon as a guest slot is free. Prints the
/// end of the journal if the body fails or panics.
pub fn run<T, B>(name: &str, body: B) -> Result<T>
where
    T: Send,
    B: AsyncFnOnce(&Lab) -> Result<T> + Send,
{
    run_with_journal(name, Journal::default(), body)
}

/// Like [`run`], with the caller's journal.
pub fn run_with_journal<T, B>(name: &str, journal: Journal, body: B) -> Result<T>
where
    T: Send,
    B: AsyncFnOnce(&Lab) -> Result<T> + Send,
{
    ensure!(
        geteuid().is_root(),
        "the lab needs root: it makes a network namespace, a bridge and taps"
    );
    let _slot = guest_slots::take()?;
    std::thread::scope(|scope| {
        let worker = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn_scoped(scope, || {
                unshare(CloneFlags::CLONE_NEWNET).context("making a network namespace")?;
                tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()?
                    .block_on(in_namespace(name, journal, body))
            })?;
        match worker.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

async fn in_namespace<T, B>(name: &str, journal: Journal, body: B) -> Result<T>
where
    B: AsyncFnOnce(&Lab) -> Result<T>,
{
    let scratch = artifacts::out_dir().join("run");
    std::fs::create_dir_all(&scratch)?;
    remove_orphans(&scratch)?;
    let lab = Lab {
        journal,
        name: name.to_owned(),
        folder: tempfile::Builder::new()
            .prefix(&format!("{}-{name}-", std::process::id()))
            .tempdir_in(scratch)?,
    };
    lab.journal.record(Source::Machine, format!("test {name}"));
    make_network().await.context("making the lab's network")?;
    let result = body(&lab).await;
    if let Err(error) = &result {
        lab.journal
            .record(Source::Machine, format!("test failed: {error:#}"));
        lab.print_tail();
    }
    result
}

/// Removes folders whose process no longer exists.
fn remove_orphans(scratch: &Path) -> Result<()> {
    for entry in std::fs::read_dir(scratch)? {
        let entry = entry?;
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.split('-').next());
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            // Ignore an error: another test may be removing the same folder.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
    Ok(())
}

/// Creates the bridge with the host's addresses and the taps on it.
async fn make_network() -> Result<()> {
    let ip = async |line: String| {
        let words: Vec<&str> = line.split(' ').collect();
        program::run("ip", &words).await.map(drop)
    };
    ip("link set lo up".into()).await?;
    // Switch snooping off: it would drop neighbour solicitations until a guest has
    // joined its groups and a querier has sent a query, and this network has no
    // querier.
    ip("link add br0 type bridge forward_delay 0 stp_state 0 mcast_snooping 0".into()).await?;
    ip(format!("addr add {HOST_V4}/24 dev br0")).await?;
    ip(format!("-6 addr add {HOST_V6}/64 dev br0 nodad")).await?;
    for tap in TAPS {
        ip(format!("tuntap add {tap} mode tap")).await?;
        ip(format!("link set {tap} master br0 up")).await?;
    }
    ip("link set br0 up".into()).await
}
