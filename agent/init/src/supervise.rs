//! Keeps the agent alive, and reaps orphaned processes.

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
use super::watchdog::FedWatchdogs;
use super::zombie;

/// The pause before init restarts a crashed agent. It doubles up to [`LONGEST`].
const SHORTEST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(30);
/// An agent that ran for this long did not crash at its start, so the pause before its
/// restart is the shortest one again.
const HEALTHY: Duration = Duration::from_secs(60);

/// How long the agent may take to end after the end of the boot was ordered: the agent
/// may be committing to a slow disk. Less than Ironic's `soft_power_off_timeout` (600
/// s).
const END_LIMIT: Duration = Duration::from_secs(300);

/// How long a process may take to disappear after it has ended or was killed. A
/// thread that waits for a dead disk (state D) keeps the process forever.
const GONE_LIMIT: Duration = Duration::from_secs(10);

/// The pipes between init and the agent.
pub(super) struct Pipes {
    /// The agent's standard input. It reaches end of file when the devices present at
    /// boot have their drivers. For a restarted agent it may be at end of file from the
    /// start.
    pub(super) devices_settled: Option<PipeReader>,
    /// The agent's standard output, for its signs of life.
    pub(super) signs_of_life: Option<PipeWriter>,
}

/// What the threads of init need to know about the agent.
pub(super) struct Supervisor {
    state: Mutex<State>,
    changed: Condvar,
    pub(super) progress: Arc<Progress>,
    pub(super) fed_watchdogs: Arc<FedWatchdogs>,
    carry_out: CarryOut,
}

#[derive(Default)]
struct State {
    agent: Option<Pid>,
    /// How the boot must end, once this has been ordered. Takes precedence over what the
    /// agent requests.
    ordered: Option<Ending>,
}

/// Carries out an ending. Returns only in tests.
type CarryOut = Box<dyn Fn(Ending) + Send + Sync>;

impl Supervisor {
    pub(super) fn new(carry_out: impl Fn(Ending) + Send + Sync + 'static) -> Self {
        Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            progress: Arc::default(),
            fed_watchdogs: Arc::default(),
            carry_out: Box::new(carry_out),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Orders the end of the boot: the agent ends as soon as no commit is in progress,
    /// then init carries out `ending`. Init kills an agent that has not ended after
    /// [`END_LIMIT`]. Later orders are ignored.
    pub(super) fn order_end(self: &Arc<Self>, ending: Ending, why: &str) {
        let mut state = self.lock();
        if state.ordered.is_some() {
            return;
        }
        state.ordered = Some(ending);
        tracing::warn!(
            "{why}: {} as soon as the agent is not finishing a disk (at most {} s)",
            ending.doing(),
            END_LIMIT.as_secs()
        );
        signal(state.agent, Signal::SIGTERM);
        drop(state);
        self.changed.notify_all();
        let supervisor = Arc::clone(self);
        let consequence = "init does not kill an agent that does not end";
        super::spawn("end", consequence, move || {
            supervisor.end_without_agent(END_LIMIT, GONE_LIMIT);
        });
    }

    /// Kills the agent if it has not ended after `limit`. If the agent's process still
    /// exists `gone_limit` later, ends the boot as ordered, without the agent.
    fn end_without_agent(&self, limit: Duration, gone_limit: Duration) {
        std::thread::sleep(limit);
        let state = self.lock();
        if state.agent.is_none() {
            return;
        }
        tracing::error!(
            "the agent has not ended {} s after the request; killing it",
            limit.as_secs()
        );
        signal(state.agent, Signal::SIGKILL);
        drop(state);
        std::thread::sleep(gone_limit);
        let state = self.lock();
        if let (Some(agent), Some(ending)) = (state.agent, state.ordered) {
            tracing::error!(
                "the agent (process {agent}) cannot be killed, because it waits for a device; {} anyway",
                ending.doing()
            );
            self.end(&state, ending);
        }
    }

    /// Starts a thread that ends the boot if the agent has ended but its process stays.
    /// Such an agent does no work any more, but a second agent would find the port of its
    /// API and the disk in use. This needs its own thread, because the main thread waits
    /// in [`Self::reap_until_exit_of`].
    pub(super) fn watch_for_stuck_agent(self: &Arc<Self>) {
        let supervisor = Arc::clone(self);
        let consequence = "init waits forever for an agent that a dead disk blocks";
        super::spawn("stuck agent", consequence, move || {
            let mut stuck = None;
            loop {
                std::thread::sleep(GONE_LIMIT / 2);
                supervisor.end_without_stuck_agent(&mut stuck, Instant::now());
            }
        });
    }

    /// Ends the boot if the agent's process has been stuck for too long. `stuck` is the
    /// process and the time when it was first found stuck.
    fn end_without_stuck_agent(&self, stuck: &mut Option<(Pid, Instant)>, now: Instant) {
        let state = self.lock();
        let found = state.agent.and_then(|agent| {
            let status = zombie::status(agent)?;
            Some((agent, status))
        });
        let Some((agent, status)) = found else {
            *stuck = None;
            return;
        };
        let since = match *stuck {
            Some((same, since)) if same == agent => since,
            _ => now,
        };
        *stuck = Some((agent, since));
        let wanted = match status {
            WaitStatus::Exited(_, code) => Ending::from_exit_code(code),
            _ => None,
        };
        // If there is no ending, the agent has crashed. Wait longer in this case: if
        // the disk answers again, the process disappears and init can restart the
        // agent.
        let (ending, limit) = match state.ordered.or(wanted) {
            Some(ending) => (ending, GONE_LIMIT),
            None => (Ending::Reboot, END_LIMIT),
        };
        if now.duration_since(since) >= limit {
            tracing::error!(
                "the agent has ended, but its process {agent} still waits for a device; {} anyway",
                ending.doing()
            );
            self.end(&state, ending);
        }
    }

    /// Carries out an ending. The caller has locked the state, so that no other thread
    /// carries out an ending at the same time.
    fn end(&self, _state: &MutexGuard<'_, State>, ending: Ending) {
        self.progress.boot_ends(ending);
        if ending == Ending::Kexec {
            self.fed_watchdogs.leave_time_for_next_system();
        }
        (self.carry_out)(ending);
    }

    /// Runs the agent, and restarts it after each crash, until it requests an
    /// ending or an ending is ordered. Carries out that ending.
    pub(super) fn agent_until_its_end(&self, pipes: &Pipes) {
        let ending = self.ending_of_agent(pipes);
        self.end(&self.lock(), ending);
    }

    fn ending_of_agent(&self, pipes: &Pipes) -> Ending {
        let mut pause = SHORTEST;
        loop {
            let started = Instant::now();
            let ending = self.run_agent(pipes);
            let state = self.lock();
            if let Some(ending) = state.ordered.or(ending) {
                return ending;
            }
            if started.elapsed() > HEALTHY {
                pause = SHORTEST;
            }
            // Ignore why the wait ended (timeout or order), because the state is read
            // again below.
            drop(
                self.changed
                    .wait_timeout_while(state, pause, |state| state.ordered.is_none()),
            );
            if let Some(ending) = self.lock().ordered {
                return ending;
            }
            pause = (pause * 2).min(LONGEST);
        }
    }

    /// Runs the agent once. `None` if it cannot be started, or ends without requesting an
    /// ending.
    fn run_agent(&self, pipes: &Pipes) -> Option<Ending> {
        let mut state = self.lock();
        let child = match start_agent(pipes) {
            Ok(child) => child,
            Err(error) => {
                tracing::error!("cannot start the agent: {error}; retrying");
                return None;
            }
        };
        state.agent = Some(Pid::from_raw(child.id().cast_signed()));
        // The end of the boot was ordered before there was an agent.
        if state.ordered.is_some() {
            signal(state.agent, Signal::SIGTERM);
        }
        drop(state);
        self.progress.sign_of_life();
        let status = self.reap_until_exit_of(&child);
        self.progress.agent_ended();
        match status {
            WaitStatus::Exited(_, code) => {
                let ending = Ending::from_exit_code(code);
                if ending.is_none() {
                    tracing::error!("the agent ended with code {code}; starting it again");
                }
                ending
            }
            // SIGTERM ends an agent that has no handler for it yet.
            WaitStatus::Signaled(_, Signal::SIGTERM, _) if self.lock().ordered.is_some() => None,
            WaitStatus::Signaled(_, signal, _) => {
                tracing::error!(
                    "the agent was killed by {}; starting it again",
                    signal.as_str()
                );
                None
            }
            other => {
                tracing::error!("the agent ended: {other:?}; starting it again");
                None
            }
        }
    }

    /// Reaps children until one of them is `child`, and returns its wait status. Other
    /// children are orphans, which PID 1 inherits. Returns `StillAlive` if there are no
    /// children at all.
    fn reap_until_exit_of(&self, child: &Child) -> WaitStatus {
        let agent = Pid::from_raw(child.id().cast_signed());
        loop {
            // Leaves the child as a zombie, so that its process number stays taken
            // while another thread sends a signal to it. An error is ignored here
            // because `waitpid` returns it again.
            let _ = waitid(Id::All, WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT);
            let mut state = self.lock();
            let status = match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(status @ (WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, _, _)))
                    if pid == agent =>
                {
                    status
                }
                // There are no children, so no agent is running, and init can start one.
                Err(Errno::ECHILD) => WaitStatus::StillAlive,
                // Any other result is about another child. An error can be about
                // another child, too: nix fails for a child that was killed by a
                // real-time signal. Returning here would start a second agent.
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
        tracing::warn!("cannot send {} to the agent: {error}", signal.as_str());
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use super::*;

    /// A supervisor whose agent ended in the same way as this shell command. The
    /// agent's process stays because nobody waits for it, as if one of its threads
    /// waited for a dead disk.
    fn with_stuck_agent(line: &str) -> (Arc<Supervisor>, Child, Receiver<Ending>) {
        let (report, endings) = channel();
        let supervisor = Supervisor::new(move |ending| report.send(ending).unwrap());
        let child = Command::new("/bin/sh").args(["-c", line]).spawn().unwrap();
        let agent = Pid::from_raw(child.id().cast_signed());
        while zombie::status(agent).is_none() {
            std::thread::sleep(Duration::from_millis(10));
        }
        supervisor.lock().agent = Some(agent);
        (Arc::new(supervisor), child, endings)
    }

    #[test]
    fn an_agent_that_cannot_be_killed_does_not_keep_the_boot() {
        let (supervisor, mut child, endings) = with_stuck_agent("exit 0");
        supervisor.lock().ordered = Some(Ending::PowerOff);
        supervisor.end_without_agent(Duration::ZERO, Duration::ZERO);
        assert_eq!(endings.try_recv(), Ok(Ending::PowerOff));
        supervisor.lock().agent = None;
        supervisor.end_without_agent(Duration::ZERO, Duration::ZERO);
        assert!(endings.try_recv().is_err(), "it has ended in time");
        child.wait().unwrap();
    }

    #[test]
    fn the_end_that_the_agent_wanted_comes_although_its_process_stays() {
        for (line, ordered, limit, expected) in [
            ("exit 80", None, GONE_LIMIT, Ending::Reboot),
            ("exit 83", None, GONE_LIMIT, Ending::Kexec),
            (
                "exit 80",
                Some(Ending::PowerOff),
                GONE_LIMIT,
                Ending::PowerOff,
            ),
            ("exit 101", None, END_LIMIT, Ending::Reboot),
            ("kill -9 $$", None, END_LIMIT, Ending::Reboot),
            (
                "kill -9 $$",
                Some(Ending::PowerOff),
                GONE_LIMIT,
                Ending::PowerOff,
            ),
        ] {
            let (supervisor, mut child, endings) = with_stuck_agent(line);
            supervisor.lock().ordered = ordered;
            let (start, mut stuck) = (Instant::now(), None);
            let moment = Duration::from_secs(1);
            for after in [Duration::ZERO, limit - moment] {
                supervisor.end_without_stuck_agent(&mut stuck, start + after);
                assert!(endings.try_recv().is_err(), "{line} after {after:?}");
            }
            supervisor.end_without_stuck_agent(&mut stuck, start + limit);
            assert_eq!(endings.try_recv(), Ok(expected), "{line}");
            child.wait().unwrap();
        }
    }
}
