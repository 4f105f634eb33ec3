//! Whether the boot makes progress. The agent writes a byte to its standard output
//! every few seconds, from the thread that all its conversations run on. The end of
//! the boot has a time of its own.

use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};

use super::shutdown::Ending;
use super::supervise::Supervisor;

/// Between two signs of life.
const SIGN: Duration = Duration::from_secs(10);

/// An agent that has been silent for this long hangs. Long, because a machine that
/// is short of memory or whose clock runs in an emulator can be very slow.
const SILENCE: Duration = Duration::from_secs(300);

/// How long the end of the boot may take: the last writes of the disks, then the
/// drivers, each of which stops its device. A machine with many disks takes a minute.
const END: Duration = Duration::from_secs(120);

/// What is going on, and since when nothing was heard of it.
#[derive(Debug, Default)]
pub(super) struct Progress(Mutex<Phase>);

#[derive(Debug, Default, Clone, Copy)]
enum Phase {
    /// No agent runs; it has ended, or init is about to start it again.
    #[default]
    NoAgent,
    /// Init prepares the boot, or the agent runs.
    Heard(Instant),
    /// The machine reboots, say, since then.
    Ends(Instant),
    /// The machine stays as it is, for good.
    Stays,
}

impl Progress {
    /// The agent, or init before it, is alive.
    pub(super) fn heard(&self) {
        self.enter(Phase::Heard(Instant::now()));
    }

    pub(super) fn agent_ended(&self) {
        self.enter(Phase::NoAgent);
    }

    /// The boot ends from now on. What is still heard of an agent does not count.
    pub(super) fn boot_ends(&self, ending: Ending) {
        self.enter(match ending {
            Ending::Reboot | Ending::Kexec | Ending::PowerOff => Phase::Ends(Instant::now()),
            Ending::LockDown => Phase::Stays,
        });
    }

    fn enter(&self, next: Phase) {
        let mut phase = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*phase, Phase::NoAgent | Phase::Heard(_)) {
            *phase = next;
        }
    }

    /// What stands still at `now`, and for how long; `None` while that is no longer
    /// than it may be.
    pub(super) fn hangs_since(&self, now: Instant) -> Option<(&'static str, Duration)> {
        let phase = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (what, since, limit) = match phase {
            Phase::NoAgent | Phase::Stays => return None,
            Phase::Heard(at) => ("the agent has made no progress", at, SILENCE),
            Phase::Ends(at) => ("this boot has not come to its end", at, END),
        };
        let silence = now.saturating_duration_since(since);
        (silence > limit).then_some((what, silence))
    }
}

/// The pipe for the agent's signs of life. A thread of its own reads it.
pub(super) fn receive_in_background(supervisor: &Arc<Supervisor>) -> Option<PipeWriter> {
    let opened = io::pipe().and_then(|(reader, writer)| {
        // A pipe that nobody reads must not stop the agent.
        fcntl(&writer, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok((reader, writer))
    });
    match opened {
        Ok((reader, writer)) => {
            let supervisor = Arc::clone(supervisor);
            let consequence = "the watchdog is fed for 5 minutes only";
            super::spawn("progress", consequence, move || {
                receive(reader, &supervisor)
            });
            Some(writer)
        }
        Err(error) => {
            tracing::warn!("pipe(2): {error}; a watchdog will reset this machine in 5 minutes");
            None
        }
    }
}

fn receive(mut reader: PipeReader, supervisor: &Supervisor) {
    let mut signs = [0; 64];
    loop {
        match reader.read(&mut signs) {
            Ok(0) => return,
            Ok(_) => supervisor.progress.heard(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                tracing::warn!("reading the agent's signs of life: {error}");
                return;
            }
        }
    }
}

/// Gives signs of life to init for as long as the process lives. For the agent.
pub async fn give_signs_of_life() -> ! {
    let mut interval = tokio::time::interval(SIGN);
    loop {
        interval.tick().await;
        // A full pipe means that init has enough of them.
        let _ = io::stdout()
            .write_all(b".")
            .and_then(|()| io::stdout().flush());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_running_agent_can_hang() {
        let progress = Progress::default();
        let later = Instant::now() + SILENCE * 2;
        assert_eq!(progress.hangs_since(later), None, "not started yet");
        progress.heard();
        assert_eq!(progress.hangs_since(Instant::now()), None);
        let (_, silence) = progress.hangs_since(later).unwrap();
        assert!(silence > SILENCE);
        progress.heard();
        assert_eq!(progress.hangs_since(Instant::now() + SILENCE / 2), None);
        progress.agent_ended();
        assert_eq!(progress.hangs_since(later), None, "it crashed");
    }

    #[test]
    fn an_end_that_does_not_come_hangs() {
        for (ending, hangs) in [
            (Ending::Reboot, true),
            (Ending::Kexec, true),
            (Ending::PowerOff, true),
            (Ending::LockDown, false),
        ] {
            let progress = Progress::default();
            progress.boot_ends(ending);
            // A sign of life that was read late.
            progress.heard();
            assert_eq!(progress.hangs_since(Instant::now() + END / 2), None);
            let found = progress.hangs_since(Instant::now() + END * 2);
            assert_eq!(found.is_some(), hangs, "{ending:?}");
        }
    }
}
