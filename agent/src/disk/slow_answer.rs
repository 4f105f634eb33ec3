//! Words about a disk that does not answer.
//!
//! Who waits for a disk can say nothing, and cannot be woken: the kernel waits
//! as long as the driver does, and that of a virtual disk waits for ever. So a
//! thread beside it looks at the clock. It gives nothing up: a flush of a disk
//! with a large cache may take minutes, and SCSI, ATA and NVMe drivers end what
//! hangs by themselves.

use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The first word comes after this time, the next after twice as long.
const SILENCE: Duration = Duration::from_secs(30);

/// What a disk was asked to do.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    /// In words: "writing".
    pub what: &'static str,
    /// Where, in bytes.
    pub offset: u64,
    /// How many bytes.
    pub len: u64,
}

#[derive(Debug)]
struct Pending {
    request: Request,
    since: Instant,
    next_word: Duration,
}

type Shared = Mutex<Option<Pending>>;

/// Watches the requests to one disk until it is dropped. One request at a time.
#[derive(Debug)]
pub struct SlowAnswer {
    pending: Arc<Shared>,
    /// Dropped, it ends the thread. `None`: there is no thread, and no words.
    _alive: Option<Sender<()>>,
}

impl SlowAnswer {
    /// Starts to watch the disk of this path.
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

    /// Does what the request says.
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
    fn silence_is_told_with_growing_pauses_and_answers_are_not() {
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
        let told = watched.during(request, || {
            [(); 3].map(|()| words.recv_timeout(Duration::from_secs(60)).unwrap())
        });
        assert_eq!(
            told[0].1,
            "/dev/sdx does not answer: writing 512 bytes at offset 4096 for 0 s"
        );
        assert!(told[2].0 - began >= 4 * silence, "{told:?}");
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
