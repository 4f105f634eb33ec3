//! Detects a boot that makes no progress. The agent writes a byte to its standard output
//! every 10 s, on the thread that runs all its network tasks. If that thread hangs, the
//! bytes stop. The end of the boot has a time limit of its own.

use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};

use super::shutdown::Ending;

/// The interval between two signs of life.
const SIGN: Duration = Duration::from_secs(10);

/// An agent that is silent for this long counts as hung. The limit is long, because a
/// machine can be very slow: if it is short of memory, or if its processor is emulated.
const SILENCE: Duration = Duration::from_secs(300);

/// Time limit for the end of the boot: the last writes to the disks, then the shutdown of
/// the drivers, each of which stops its device. A machine with many disks takes a minute.
const END: Duration = Duration::from_secs(120);

/// The phase of the boot, and its last sign of life.
#[derive(Debug, Default)]
pub(super) struct Progress(Mutex<Phase>);

#[derive(Debug, Default, Clone, Copy)]
enum Phase {
    /// Init has just started, or the agent has ended. Nothing can hang in this phase.
    #[default]
    NoAgent,
    /// Init prepares the boot, or the agent runs. Holds the time of the last sign
    /// of life.
    Alive(Instant),
    /// The boot ends, for example with a reboot. Holds the time when the end began.
    Ends(Instant),
    /// The machine is locked down and stays on until its BMC resets it.
    Stays,
}

impl Progress {
    /// Notes a sign of life of the agent, or of init before there is an agent.
    pub(super) fn sign_of_life(&self) {
        self.enter(Phase::Alive(Instant::now()));
    }

    pub(super) fn agent_ended(&self) {
        self.enter(Phase::NoAgent);
    }

    /// Notes that the end of the boot has begun. Later signs of life from the agent are
    /// ignored.
    pub(super) fn boot_ends(&self, ending: Ending) {
        self.enter(match ending {
            Ending::Reboot | Ending::Kexec | Ending::PowerOff => Phase::Ends(Instant::now()),
            Ending::LockDown => Phase::Stays,
        });
    }

    fn enter(&self, next: Phase) {
        let mut phase = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*phase, Phase::NoAgent | Phase::Alive(_)) {
            *phase = next;
        }
    }

    /// Returns what makes no progress, and for how long. `None` if that time is within
    /// the limit, and in the phases without a limit (no agent, or locked down).
    pub(super) fn hangs_since(&self, now: Instant) -> Option<(&'static str, Duration)> {
        let phase = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (what, since, limit) = match phase {
            Phase::NoAgent | Phase::Stays => return None,
            Phase::Alive(at) => ("the agent has made no progress", at, SILENCE),
            Phase::Ends(at) => ("the end of this boot has made no progress", at, END),
        };
        let silence = now.saturating_duration_since(since);
        (silence > limit).then_some((what, silence))
    }
}

/// Returns the pipe for the agent's signs of life and starts a thread that reads the
/// pipe. `None` if there is no pipe; the error is logged.
pub(super) fn receive_in_background(progress: Arc<Progress>) -> Option<PipeWriter> {
    let opened = io::pipe().and_then(|(reader, writer)| {
        // A full pipe must not block the agent, so its writes fail instead.
        fcntl(&writer, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok((reader, writer))
    });
    match opened {
        Ok((reader, writer)) => {
            let consequence = "if a watchdog runs, it is fed for 5 minutes only";
            super::spawn("progress", consequence, move || receive(reader, &progress));
            Some(writer)
        }
        Err(error) => {
            tracing::warn!(
                "cannot create a pipe to the agent: {error}; if a watchdog runs, it will reset this machine in 5 minutes"
            );
            None
        }
    }
}

fn receive(mut reader: PipeReader, progress: &Progress) {
    let mut signs = [0; 64];
    loop {
        match reader.read(&mut signs) {
            Ok(0) => return,
            Ok(_) => progress.sign_of_life(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                tracing::warn!("cannot read the agent's signs of life: {error}");
                return;
            }
        }
    }
}

/// Writes a byte to standard output, which init reads, every 10 s. The agent runs this on
/// the thread that runs its network tasks, so the bytes stop if that thread hangs.
pub async fn give_signs_of_life() -> ! {
    let mut interval = tokio::time::interval(SIGN);
    loop {
        interval.tick().await;
        // Ignore an error: if the pipe is full, init still has signs of life to read.
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
        progress.sign_of_life();
        assert_eq!(progress.hangs_since(Instant::now()), None);
        let (_, silence) = progress.hangs_since(later).unwrap();
        assert!(silence > SILENCE);
        progress.sign_of_life();
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
            // Init may read a sign of life late, when the boot already ends.
            progress.sign_of_life();
            assert_eq!(progress.hangs_since(Instant::now() + END / 2), None);
            let found = progress.hangs_since(Instant::now() + END * 2);
            assert_eq!(found.is_some(), hangs, "{ending:?}");
        }
    }
}
