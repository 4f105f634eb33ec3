//! Works on several drives at the same time, each in its own thread. A drive that does
//! not answer blocks only its own thread, in the kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::media_wait::MediaWait;

/// A wait is logged only if it takes longer than this.
const LOG_AFTER: Duration = Duration::from_secs(2);

/// The drives that a thread of this process works on, so that a new search does not start
/// another thread for a drive that does not answer.
static BUSY: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// When a drive has last delivered something.
#[derive(Debug, Clone)]
pub(super) struct Progress {
    last: Arc<Mutex<Instant>>,
    media_wait: MediaWait,
}

impl Progress {
    pub(super) fn new(media_wait: &MediaWait) -> Self {
        Self {
            last: Arc::new(Mutex::new(Instant::now())),
            media_wait: media_wait.clone(),
        }
    }

    pub(super) fn made(&self) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.media_wait.progress();
    }

    fn silence(&self) -> Duration {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.elapsed()
    }
}

/// Runs one thread for each drive, and collects their results.
#[derive(Debug)]
pub(super) struct SideBySide<T> {
    media_wait: MediaWait,
    /// The search does not wait for a drive that has made no progress for this long.
    silence: Duration,
    /// What the threads do, for the console.
    what: &'static str,
    is_logged: bool,
    sender: Sender<(PathBuf, T)>,
    results: Receiver<(PathBuf, T)>,
    pending: BTreeMap<PathBuf, Progress>,
}

impl<T: Send + 'static> SideBySide<T> {
    pub(super) fn new(media_wait: &MediaWait, silence: Duration, what: &'static str) -> Self {
        let (sender, results) = channel();
        Self {
            media_wait: media_wait.clone(),
            silence,
            what,
            is_logged: false,
            sender,
            results,
            pending: BTreeMap::new(),
        }
    }

    /// Starts a thread with `work` for this drive; `work` reports each read to
    /// `progress`. Does nothing if a thread of this search still works on the drive.
    /// Returns false if a thread of an earlier search still works on the drive.
    pub(super) fn start(
        &mut self,
        node: PathBuf,
        progress: Progress,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> bool {
        if self.pending.contains_key(&node) {
            return true;
        }
        let Some(busy) = Busy::with(&node) else {
            return false;
        };
        self.pending.insert(node.clone(), progress);
        let sender = self.sender.clone();
        std::thread::spawn(move || {
            let result = work();
            // Mark the drive as free before the result is sent: the receiver may start
            // new work at once.
            drop(busy);
            // Ignore an error: after the end of the search nobody receives the result.
            let _ = sender.send((node, result));
        });
        true
    }

    /// Waits until each drive has a result or has been silent for too long, or until the
    /// thread that reads the media must end. Returns the new results, in the order of the
    /// device nodes.
    pub(super) fn wait(&mut self) -> BTreeMap<PathBuf, T> {
        let start = Instant::now();
        let mut results = BTreeMap::new();
        loop {
            let left = self.left();
            let may_log = !self.is_logged && !left.is_zero();
            let until_log = LOG_AFTER.saturating_sub(start.elapsed());
            if may_log && until_log.is_zero() {
                self.is_logged = true;
                let (what, drives) = (self.what, in_words(self.pending.keys()));
                tracing::info!("{what}: waiting for {drives}, at most {} s", left.as_secs());
                continue;
            }
            let timeout = if may_log { left.min(until_log) } else { left };
            match self.results.recv_timeout(timeout) {
                Ok((node, result)) => {
                    self.pending.remove(&node);
                    results.insert(node, result);
                }
                // Check the time again, because progress may have extended the wait.
                Err(_) if self.left().is_zero() => return results,
                Err(_) => {}
            }
        }
    }

    /// How long to wait for the drives in `pending` if nothing more is read.
    fn left(&self) -> Duration {
        let of_drives = self.pending.values();
        let of_drives = of_drives.map(|drive| self.silence.saturating_sub(drive.silence()));
        let longest = of_drives.max().unwrap_or_default();
        longest.min(self.media_wait.left_to_reader())
    }

    /// The drives that have no result yet.
    pub(super) fn pending(&self) -> impl Iterator<Item = &PathBuf> {
        self.pending.keys()
    }
}

/// A drive in [`BUSY`] until this value is dropped.
struct Busy(PathBuf);

impl Busy {
    /// Marks the drive as busy; `None` if it is busy already.
    fn with(node: &Path) -> Option<Self> {
        let node = node.to_owned();
        let is_free = busy().insert(node.clone());
        // Create a `Busy` only if the drive was free: dropping it marks the drive as
        // free.
        is_free.then(|| Self(node))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        busy().remove(&self.0);
    }
}

fn busy() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    BUSY.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn in_words<'a>(nodes: impl IntoIterator<Item = &'a PathBuf>) -> String {
    let nodes: Vec<String> = nodes
        .into_iter()
        .map(|node| node.display().to_string())
        .collect();
    nodes.join(", ")
}
