//! Warns about a disk that does not answer.
//!
//! A thread that waits for a disk cannot log anything, and no other thread can wake it.
//! The kernel waits as long as the driver does, and the driver of a virtual disk waits
//! forever. So a second thread measures the time and logs warnings. It aborts nothing,
//! because the flush of a disk with a large cache may take minutes. The drivers for
//! SCSI, ATA and NVMe abort hanging requests by themselves.

use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The agent logs the first warning after this time. It logs a further warning each
/// time the wait has doubled since the last warning.
const SILENCE: Duration = Duration::from_secs(30);

/// A request to a disk, as the warning describes it.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    /// The operation as the message names it: "writing".
    pub what: &'static str,
    /// In bytes from the start of the disk.
    pub offset: u64,
    /// In bytes; 0 if the request has no range.
    pub len: u64,
}

#[derive(Debug)]
struct Pending {
    request: Request,
    since: Instant,
    next_word: Duration,
}

type Shared = Mutex<Option<Pending>>;

/// Watches the requests to one disk until it is dropped. Watches only one request at a
/// time.
#[derive(Debug)]
pub struct SlowAnswer {
    pending: Arc<Shared>,
    /// Dropping this ends the thread. `None` if the thread could not be started;
    /// then there are no warnings.
    _alive: Option<Sender<()>>,
}

impl SlowAnswer {
    /// Starts a thread that watches the disk with this path.
    pub fn watch(path: &Path) -> Self {
        Self::watch_by(path, SILENCE, |line| tracing::warn!("{line}"))
    }

    fn watch_by(path: &Path, silence: Duration, say: impl Fn(&str) + Send + 'static) -> Self {
        let pending = Arc::new(Shared::default());
        let (alive, ended) = channel();
        let (shared, path) = (Arc::clone(&pending), path.display().to_string());
        let started = thread::Builder::new()
            .name("disk-answer".into())
            .spawn(move || {
                while ended.recv_timeout(silence / 6) == Err(RecvTimeoutError::Timeout) {
                    if let Some(line) = word(lock(&shared).as_mut(), silence) {
                        say(&format!("{path} {line}"));
                    }
                }
            });
        Self {
            pending,
            _alive: started.is_ok().then_some(alive),
        }
    }

    /// Runs `work`, which makes this request, and logs warnings while it waits.
    pub fn during<T>(&self, request: Request, work: impl FnOnce() -> T) -> T {
        *lock(&self.pending) = Some(Pending {
            request,
            since: Instant::now(),
            next_word: Duration::ZERO,
        });
        let done = work();
        *lock(&self.pending) = None;
        done
    }
}

fn lock(shared: &Shared) -> MutexGuard<'_, Option<Pending>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn word(pending: Option<&mut Pending>, silence: Duration) -> Option<String> {
    let Pending {
        request: Request { what, offset, len },
        since,
        next_word,
    } = pending?;
    let waited = since.elapsed();
    if waited < silence.max(*next_word) {
        return None;
    }
    *next_word = waited * 2;
    let seconds = waited.as_secs();
    Some(if *len == 0 {
        format!("does not answer: {what} for {seconds} s")
    } else {
        format!("does not answer: {what} {len} bytes at offset {offset} for {seconds} s")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_answer_is_reported_at_growing_intervals() {
        let (send, words) = channel();
        let silence = Duration::from_millis(60);
        let watched = SlowAnswer::watch_by(Path::new("/dev/sdx"), silence, move |line| {
            let _ = send.send((Instant::now(), line.to_owned()));
        });
        let request = Request {
            what: "writing",
            offset: 4096,
            len: 512,
        };
        let began = Instant::now();
        assert_eq!(watched.during(request, || 7), 7);
        let lines = watched.during(request, || {
            [(); 3].map(|()| words.recv_timeout(Duration::from_secs(60)).unwrap())
        });
        assert_eq!(
            lines[0].1,
            "/dev/sdx does not answer: writing 512 bytes at offset 4096 for 0 s"
        );
        assert!(lines[2].0 - began >= 4 * silence, "{lines:?}");
        assert!(words.recv_timeout(2 * silence).is_err(), "it has answered");
        drop(watched);
        let ended = words.recv_timeout(Duration::from_secs(60)).unwrap_err();
        assert_eq!(
            ended,
            RecvTimeoutError::Disconnected,
            "the thread has ended"
        );
    }
}
