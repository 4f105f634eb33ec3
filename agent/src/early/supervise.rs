//! Keeps the agent alive, and reaps what is left behind.

use std::io::{PipeReader, PipeWriter};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;

use super::progress::Progress;
use super::shutdown::Ending;

/// The wait before a crashed agent is started again; doubles up to [`LONGEST`].
const SHORTEST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(30);
/// An agent that lived this long has not crashed at start.
const HEALTHY: Duration = Duration::from_secs(60);

/// How long the agent may take to end when the machine is to be switched off: a
/// commit on a slow disk. Less than Ironic's `soft_power_off_timeout` (600 s).
const END_LIMIT: Duration = Duration::from_secs(300);

/// The pipes between init and the agent.
pub(super) struct Pipes {
    /// Its standard input, which reaches end of file when the devices present at
    /// boot have their drivers: an agent started later finds it ended.
    pub(super) devices_settled: Option<PipeReader>,
    /// Its standard output, for its signs of life.
    pub(super) signs_of_life: Option<PipeWriter>,
}

/// What threads of init need to know of the agent.
pub(super) struct Supervisor {
    state: Mutex<State>,
    changed: Condvar,
    pub(super) progress: Progress,
}

#[derive(Default)]
struct State {
    agent: Option<Pid>,
    power_off: bool,
}

impl Supervisor {
    pub(super) fn new() -> Self {
        Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            progress: Progress::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the agent end as soon as it is not in the middle of a commit, and the
    /// machine switched off then.
    pub(super) fn power_off(self: &Arc<Self>, why: &str) {
        let mut state = self.lock();
        if std::mem::replace(&mut state.power_off, true) {
            return;
        }
        tracing::warn!("{why}: this machine powers off");
        signal(state.agent, Signal::SIGTERM);
        drop(state);
        self.changed.notify_all();
        let supervisor = Arc::clone(self);
        let consequence = "an agent that does not end is not killed";
        super::spawn("power off", consequence, move || {
            std::thread::sleep(END_LIMIT);
            let state = supervisor.lock();
            if state.agent.is_some() {
                tracing::error!(
                    "the agent has not ended {} s after the order to power off -- killing it",
                    END_LIMIT.as_secs()
                );
                signal(state.agent, Signal::SIGKILL);
            }
        });
    }

    /// Runs the agent, again after each crash, until it asks for an ending or the
    /// machine is to be switched off.
    pub(super) fn agent_until_its_end(&self, pipes: &Pipes) -> Ending {
        let mut pause = SHORTEST;
        loop {
            let started = Instant::now();
            let ending = self.run_agent(pipes);
            let state = self.lock();
            if state.power_off {
                return Ending::PowerOff;
            }
            if let Some(ending) = ending {
                return ending;
            }
            if started.elapsed() > HEALTHY {
                pause = SHORTEST;
            }
            // Either outcome of the wait leads to another look at the state.
            drop(
                self.changed
                    .wait_timeout_while(state, pause, |state| !state.power_off),
            );
            if self.lock().power_off {
                return Ending::PowerOff;
            }
            pause = (pause * 2).min(LONGEST);
        }
    }

    /// Runs the agent once. `None` if it ended without asking for an ending.
    fn run_agent(&self, pipes: &Pipes) -> Option<Ending> {
        let mut state = self.lock();
        let child = match start_agent(pipes) {
            Ok(child) => child,
            Err(error) => {
                tracing::error!("starting the agent: {error} -- trying again");
                return None;
            }
        };
        state.agent = Some(Pid::from_raw(child.id().cast_signed()));
        // Pressed before there was an agent.
        if state.power_off {
            signal(state.agent, Signal::SIGTERM);
        }
        drop(state);
        self.progress.started();
        let status = self.reap_until_exit_of(&child);
        self.progress.ended();
        match status {
            WaitStatus::Exited(_, code) => {
                let ending = Ending::from_exit_code(code);
                if ending.is_none() {
                    tracing::error!("the agent ended with code {code} -- starting it again");
                }
                ending
            }
            // As it ends when it has not yet begun to listen for the signal.
            WaitStatus::Signaled(_, Signal::SIGTERM, _) if self.lock().power_off => None,
            WaitStatus::Signaled(_, signal, _) => {
                tracing::error!(
                    "the agent was killed by {} -- starting it again",
                    signal.as_str()
                );
                None
            }
            other => {
                tracing::error!("the agent ended: {other:?} -- starting it again");
                None
            }
        }
    }

    /// Waits for any child, since PID 1 inherits every orphan, until it is this one.
    fn reap_until_exit_of(&self, child: &Child) -> WaitStatus {
        let agent = Pid::from_raw(child.id().cast_signed());
        loop {
            // Leaves the child a zombie, so that its number is nobody else's while
            // a signal is sent to it. Errors are those of the next call.
            let _ = waitid(Id::All, WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT);
            let mut state = self.lock();
            let status = match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(status @ (WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, _, _)))
                    if pid == agent =>
                {
                    status
                }
                // Without children there is no agent: start one.
                Err(Errno::ECHILD) => WaitStatus::StillAlive,
                // Any other error is about another child (nix knows no real-time
                // signals); a second agent next to the first would be worse.
                Ok(_) | Err(_) => continue,
            };
            state.agent = None;
            return status;
        }
    }
}

fn signal(agent: Option<Pid>, signal: Signal) {
    if let Some(agent) = agent
        && let Err(error) = kill(agent, signal)
    {
        tracing::warn!("sending {} to the agent: {error}", signal.as_str());
    }
}

fn start_agent(pipes: &Pipes) -> std::io::Result<Child> {
    let stdin = match &pipes.devices_settled {
        Some(pipe) => Stdio::from(pipe.try_clone()?),
        None => Stdio::null(),
    };
    let stdout = match &pipes.signs_of_life {
        Some(pipe) => Stdio::from(pipe.try_clone()?),
        None => Stdio::null(),
    };
    Command::new("/proc/self/exe")
        .arg("run")
        .env_clear()
        .stdin(stdin)
        .stdout(stdout)
        .stderr(Stdio::null())
        .spawn()
}
