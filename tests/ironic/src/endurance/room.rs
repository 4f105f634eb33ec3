//! All machines of a run, with their disks and links.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use landfall_tests::artifacts;
use landfall_tests::conductor;
use landfall_tests::lab::{Family, HOST_V4, Lab};
use landfall_tests::program;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::cast::{Link, Part, Trouble};
use super::clock::JumpingClock;
use super::disk::{self, Disk};
use super::images;
use super::machine::{Machine, Parts};
use super::poor_link::{Counts, Forwarder};

/// In bytes, of the file system below the disk of [`Trouble::FullDisk`].
const SMALL_FILE_SYSTEM: usize = images::SIZE / 2;

/// In bytes, of the disk of [`Trouble::LargeImage`].
const SMALL_DISK: u64 = images::SIZE as u64 / 2;

/// The port of the lab's syslog server.
pub const SYSLOG_PORT: u16 = 514;

pub struct Room {
    pub machines: Vec<Machine>,
    /// The file below each machine's disk.
    pub disks: Vec<PathBuf>,
    pub frames: Arc<Counts>,
    forwarder: Forwarder,
    clock: PathBuf,
    _jumping: JumpingClock,
}

impl Room {
    /// Makes one machine for each part of the cast. All machines are off.
    pub async fn make(lab: &Lab, cast: &[Part], agent: &Path) -> Result<Self> {
        own_mounts()?;
        more_files()?;
        let logs = artifacts::out_dir().join("logs").join(lab.name());
        std::fs::create_dir_all(&logs)?;
        let forwarder = Forwarder::start()?;
        let clock = lab.path("clock");
        let mut room = Self {
            machines: Vec::new(),
            disks: Vec::new(),
            frames: Arc::clone(&forwarder.counts),
            forwarder,
            _jumping: JumpingClock::start(clock.clone())?,
            clock,
        };
        for part in cast {
            room.add(lab, part, agent, &logs)
                .await
                .with_context(|| format!("making the machine of {}", part.name()))?;
        }
        Ok(room)
    }

    async fn add(&mut self, lab: &Lab, part: &Part, agent: &Path, logs: &Path) -> Result<()> {
        let folder = lab.path(&part.name());
        std::fs::create_dir_all(&folder)?;
        if part.trouble == Trouble::FullDisk {
            let size = format!("size={SMALL_FILE_SYSTEM}");
            let kind = Some("tmpfs");
            mount(kind, &folder, kind, MsFlags::empty(), Some(&*size))?;
        }
        let size = match part.trouble {
            Trouble::LargeImage => SMALL_DISK,
            _ => disk::SIZE,
        };
        let disk = Disk::make(&folder.join("disk.raw"), size).await?;
        self.disks.push(disk.file.clone());
        let machine = Machine::make(Parts {
            name: part.name(),
            agent: agent.to_owned(),
            clock: self.clock.clone(),
            clock_jumps: part.clock_jumps(),
            disk,
            log: logs.join(format!("{}.log", part.name())),
        })?;
        self.plug_in(part, machine.thread).await?;
        self.machines.push(machine);
        Ok(())
    }

    /// Connects the machine to the lab's bridge. A machine with a poor link has a
    /// bridge of its own, and the poor link joins this bridge and the lab's. The
    /// machine's NIC is always a veth, because the agent ignores taps.
    async fn plug_in(&self, part: &Part, thread: i32) -> Result<()> {
        let (number, mac) = (part.number, part.mac());
        let bridge = match part.link {
            Link::Good => "br0".to_owned(),
            Link::Poor => {
                let own = format!("own{number}");
                let taps = [format!("near{number}"), format!("far{number}")];
                self.forwarder.join(&taps[0], &taps[1], u64::from(number))?;
                ip(&format!(
                    "link add {own} type bridge forward_delay 0 stp_state 0 mcast_snooping 0"
                ))
                .await?;
                for (tap, bridge) in taps.iter().zip([&*own, "br0"]) {
                    ip(&format!("link set {tap} master {bridge} up")).await?;
                }
                ip(&format!("link set {own} up")).await?;
                own
            }
        };
        let port = format!("port{number}");
        ip(&format!(
            "link add {port} type veth peer name eth0 address {mac} netns {thread}"
        ))
        .await?;
        ip(&format!("link set {port} master {bridge} up")).await
    }
}

/// The kernel command line of a machine.
#[must_use]
pub fn command_line(part: &Part) -> String {
    let (mac, address) = (part.mac().replace(':', "-"), part.address());
    let api = Family::V4.url(conductor::PORT);
    // In a run with 200 agents, 20 of them make the image server fail for 5 s each,
    // possibly one after the other. 40 retries with pauses of 3 s take longer than
    // these 100 s.
    let retries = 40;
    format!(
        "ipa-api-url={api} BOOTIF=01-{mac} ip={address}::{HOST_V4}:255.255.255.0:::none \
         landfall.syslog=udp://{HOST_V4}:{SYSLOG_PORT} \
         ipa-image-download-connection-timeout=20 ipa-image-download-connection-retries={retries} \
         ipa-image-download-connection-retry-interval=3"
    )
}

async fn ip(line: &str) -> Result<()> {
    let words: Vec<&str> = line.split_whitespace().collect();
    program::run("ip", &words).await.map(drop)
}

/// Gives the lab's thread its own mount namespace, for the small file systems.
fn own_mounts() -> Result<()> {
    let none = None::<&str>;
    unshare(CloneFlags::CLONE_NEWNS).context("making a mount namespace")?;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)
        .context("making the mounts private")
}

/// Raises the limit of open files to the hard limit. A poor link has two open files, a
/// machine has four, and each heartbeat that Ironic answers needs one more for a
/// moment.
fn more_files() -> Result<()> {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, most, most).context("raising the limit of open files")
}
