//! Whether the agent makes progress: it writes a byte to its standard output every
//! few seconds, from the thread that all its conversations run on.

use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};

use super::supervise::Supervisor;

/// Between two signs of life.
const SIGN: Duration = Duration::from_secs(10);

/// An agent that has been silent for this long hangs. Long, because a machine that
/// is short of memory or whose clock runs in an emulator can be very slow.
const SILENCE: Duration = Duration::from_secs(300);

/// When the running agent was last heard of.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// `None`: no agent runs; it has ended, or init is about to start it again.
    last_sign: Mutex<Option<Instant>>,
}

impl Progress {
    pub(super) fn started(&self) {
        self.set(Some(Instant::now()));
    }

    pub(super) fn ended(&self) {
        self.set(None);
    }

    fn set(&self, sign: Option<Instant>) {
        *self
            .last_sign
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = sign;
    }

    /// How long the running agent has been silent, if that is too long at `now`.
    pub(super) fn hangs_since(&self, now: Instant) -> Option<Duration> {
        let last = *self
            .last_sign
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let silence = now.saturating_duration_since(last?);
        (silence > SILENCE).then_some(silence)
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
            Ok(_) => supervisor.progress.started(),
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
        progress.started();
        assert_eq!(progress.hangs_since(Instant::now()), None);
        assert!(progress.hangs_since(later) > Some(SILENCE));
        progress.started();
        assert_eq!(progress.hangs_since(Instant::now() + SILENCE / 2), None);
        progress.ended();
        assert_eq!(progress.hangs_since(later), None, "it crashed");
    }
}
