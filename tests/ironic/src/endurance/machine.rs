//! A machine that an agent runs on. This module has the role of the power switch and of
//! init.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, gettid};

use super::clock;
use super::disk::Disk;
use super::private_machine::{self, AGENT, KERNEL_LOG, TAKEN};

/// Exit codes with which the agent requests the end of the boot (`Ending` in
/// agent/init/src/shutdown.rs).
const ENDINGS: [(i32, &str); 4] = [
    (80, "reboot"),
    (81, "power off"),
    (82, "lock down"),
    (83, "kexec"),
];

/// The number of times that an agent may end by itself. After the last one it is not
/// started again.
const MOST_CRASHES: usize = 10;

/// The pause before the restart of an agent that has ended by itself.
const BEFORE_RESTART: Duration = Duration::from_secs(1);

/// If an agent is silent for this time, init considers it hung (`SILENCE` in
/// agent/init/src/progress.rs).
pub const SILENCE: Duration = Duration::from_secs(300);

/// What has happened to the agent since the last power on.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// The process, while it runs.
    pub pid: Option<i32>,
    /// The ending that the agent has requested.
    pub ending: Option<&'static str>,
    /// How the agent has ended by itself, each time.
    pub crashes: Vec<String>,
    /// The time of the last byte on the agent's standard output. The agent writes one
    /// every ten seconds, as a sign of life.
    pub last_sign: Option<Instant>,
    powered: bool,
}

impl Seen {
    /// Whether the agent has ended by itself and is not started again.
    #[must_use]
    pub fn ended_for_good(&self) -> bool {
        !self.powered && self.ending.is_none() && !self.crashes.is_empty()
    }
}

pub struct Machine {
    orders: Sender<String>,
    seen: Arc<Mutex<Seen>>,
    /// The ID of the thread whose namespaces are the machine's.
    pub thread: i32,
}

/// What a machine is made of.
pub struct Parts {
    pub name: String,
    pub agent: PathBuf,
    /// The file with the clock's offset, see [`super::clock`].
    pub clock: PathBuf,
    pub clock_jumps: bool,
    pub disk: Disk,
    /// The file to which the agent's log is appended whenever the agent ends.
    pub log: PathBuf,
}

impl Machine {
    /// Makes the machine. It is off.
    pub fn make(parts: Parts) -> Result<Self> {
        let (orders, received) = channel();
        let (ready, is_ready) = channel();
        let seen = Arc::<Mutex<Seen>>::default();
        let shared = Arc::clone(&seen);
        thread::Builder::new()
            .name(parts.name.clone())
            .spawn(move || be(&parts, &shared, &ready, &received))?;
        let thread = is_ready.recv().context("a machine was not made")??;
        Ok(Self {
            orders,
            seen,
            thread,
        })
    }

    /// Switches the machine on. It boots with this kernel command line.
    pub fn power_on(&self, command_line: &str) {
        lock(&self.seen).ending = None;
        // The thread receives until this `Machine` is dropped, so there is no error.
        let _ = self.orders.send(command_line.to_owned());
    }

    /// Switches the machine off, whatever the agent does.
    pub fn power_off(&self) {
        let mut seen = lock(&self.seen);
        seen.powered = false;
        if let Some(pid) = seen.pid {
            // The process may have ended meanwhile.
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }

    #[must_use]
    pub fn seen(&self) -> Seen {
        lock(&self.seen).clone()
    }

    #[must_use]
    pub fn is_on(&self) -> bool {
        lock(&self.seen).powered
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The main function of a machine's thread.
fn be(parts: &Parts, seen: &Mutex<Seen>, ready: &Sender<Result<i32>>, orders: &Receiver<String>) {
    // Created before the file systems become read-only for this thread.
    let log = File::create(&parts.log).with_context(|| format!("making {}", parts.log.display()));
    let entered = log.and_then(|log| {
        private_machine::enter(&parts.name, &parts.agent, &parts.clock, &parts.disk)?;
        Ok(log)
    });
    let mut log = match entered {
        Ok(log) => log,
        Err(error) => return drop(ready.send(Err(error))),
    };
    if ready.send(Ok(gettid().as_raw())).is_err() {
        return;
    }
    for command_line in orders {
        *lock(seen) = Seen {
            powered: true,
            last_sign: Some(Instant::now()),
            ..Seen::default()
        };
        if let Err(error) = boot(parts, seen, &command_line, &mut log) {
            lock(seen).crashes.push(format!("{error:#}"));
        }
        lock(seen).powered = false;
    }
}

/// Runs agents until one requests the end of the boot or the power is off.
fn boot(parts: &Parts, seen: &Mutex<Seen>, command_line: &str, log: &mut File) -> Result<()> {
    private_machine::prepare_boot(command_line)?;
    loop {
        let mut child = {
            let mut seen = lock(seen);
            if !seen.powered {
                return Ok(());
            }
            let child = start(parts.clock_jumps)?;
            seen.pid = i32::try_from(child.id()).ok();
            child
        };
        follow(&mut child, seen);
        let status = child.wait()?;
        let _ = log.write_all(&fs::read(KERNEL_LOG)?);
        let mut seen = lock(seen);
        seen.pid = None;
        let ending = ENDINGS
            .iter()
            .find(|(code, _)| status.code() == Some(*code));
        if let Some((_, ending)) = ending {
            seen.ending = Some(ending);
            return Ok(());
        }
        if !seen.powered {
            return Ok(());
        }
        seen.crashes.push(match status.signal() {
            Some(signal) => format!("signal {signal}"),
            None => format!("exit code {}", status.code().unwrap_or_default()),
        });
        ensure!(seen.crashes.len() < MOST_CRASHES, "not started again");
        drop(seen);
        thread::sleep(BEFORE_RESTART);
    }
}

/// Reads the signs of life until the agent ends.
fn follow(child: &mut Child, seen: &Mutex<Seen>) {
    let Some(mut signs) = child.stdout.take() else {
        return;
    };
    let mut bytes = [0; 64];
    while signs.read(&mut bytes).is_ok_and(|length| length > 0) {
        lock(seen).last_sign = Some(Instant::now());
    }
}

fn start(clock_jumps: bool) -> Result<Child> {
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL"])
        .arg(format!("--bounding-set={TAKEN}"))
        .arg("--")
        .env_clear();
    if clock_jumps {
        command.arg(clock::RUNNER).envs(clock::ENVIRONMENT);
    }
    command
        .args([AGENT, "run"])
        // The end of its standard input tells the agent that init has loaded the
        // drivers of the devices.
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("starting the agent")
}
