//! Batches unpacked on several threads; they come back in the order in which
//! they were given.

use std::collections::VecDeque;
use std::fmt;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::disk::qcow2::batch::{BATCH, Batch};
use crate::disk::qcow2::header::{Compression, Header};
use crate::disk::qcow2::unpack::Unpacker;

/// More do not help: four inflate 2 GB/s, which no network brings.
const MOST_THREADS: usize = 4;
/// What all batches may take, packed (a cluster may grow by that to its double)
/// and unpacked.
const MOST_MEMORY: u64 = 12 << 20;

type Outcome = Result<Batch, String>;

/// The threads and what they have.
pub struct UnpackThreads {
    jobs: Jobs,
    /// In the order in which they were given, with the first byte of the file
    /// that each is of.
    pending: VecDeque<(u64, Pending)>,
    most_pending: usize,
    spare: Vec<Batch>,
    cluster_size: u64,
}

enum Jobs {
    /// The caller's thread does it.
    Here(Unpacker),
    /// Other threads do, until this is dropped.
    Threads(SyncSender<Job>),
}

struct Job {
    batch: Batch,
    done: SyncSender<Outcome>,
}

enum Pending {
    Done(Outcome),
    Running(Receiver<Outcome>),
}

impl UnpackThreads {
    /// For the clusters of a file with this header. With one thread, or where no
    /// other can be started, the caller's does it.
    pub fn new(header: &Header, threads: usize) -> Self {
        let threads = threads.min(MOST_THREADS);
        let batch = 2 * header.cluster_size().max(BATCH as u64);
        // Two more than the threads: one to write out, one to begin with.
        let most_pending = (threads + 2).min((MOST_MEMORY / batch) as usize);
        let (sender, receiver) = sync_channel::<Job>(most_pending);
        let receiver = Arc::new(Mutex::new(receiver));
        let wanted = if threads > 1 { threads } else { 0 };
        let started = (0..wanted)
            .take_while(|_| start(&receiver, header.compression))
            .count();
        let jobs = if started > 0 {
            Jobs::Threads(sender)
        } else {
            Jobs::Here(Unpacker::new(header.compression))
        };
        Self {
            jobs,
            pending: VecDeque::new(),
            most_pending,
            spare: Vec::new(),
            cluster_size: header.cluster_size(),
        }
    }

    /// An empty batch.
    pub fn batch(&mut self) -> Batch {
        self.spare
            .pop()
            .unwrap_or_else(|| Batch::new(self.cluster_size))
    }

    /// Takes a batch back that is no longer needed.
    pub fn give_back(&mut self, mut batch: Batch) {
        batch.clear();
        self.spare.push(batch);
    }

    /// Whether one must be waited for before the next can be begun.
    pub fn is_full(&self) -> bool {
        self.pending.len() >= self.most_pending
    }

    /// Begins to unpack a batch.
    pub fn begin(&mut self, mut batch: Batch) {
        let first = batch.used().map(|(host, _)| host).min().unwrap_or(0);
        let pending = match &mut self.jobs {
            Jobs::Here(unpacker) => Pending::Done(batch.unpack(unpacker).map(|()| batch)),
            Jobs::Threads(sender) => {
                let (done, outcome) = sync_channel(1);
                // The threads end when this end is dropped, not before.
                let _ = sender.send(Job { batch, done });
                Pending::Running(outcome)
            }
        };
        self.pending.push_back((first, pending));
    }

    /// Whether something of what was begun lies before this byte of the file.
    pub fn begins_before(&self, host: u64) -> bool {
        self.pending.iter().any(|(first, _)| *first < host)
    }

    /// The oldest of the batches that were begun, when it is unpacked; `None` if
    /// there is none.
    pub fn wait(&mut self) -> Option<Outcome> {
        Some(match self.pending.pop_front()?.1 {
            Pending::Done(outcome) => outcome,
            Pending::Running(outcome) => outcome
                .recv()
                .unwrap_or_else(|_| Err("the thread that unpacks it is gone".to_owned())),
        })
    }
}

/// Whether a thread could be started.
fn start(jobs: &Arc<Mutex<Receiver<Job>>>, compression: Compression) -> bool {
    let jobs = Arc::clone(jobs);
    thread::Builder::new()
        .name("image-unpack".into())
        .spawn(move || work(&jobs, Unpacker::new(compression)))
        .is_ok()
}

fn work(jobs: &Mutex<Receiver<Job>>, mut unpacker: Unpacker) {
    loop {
        // Waits inside of the lock, the others for the lock.
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Job { mut batch, done }) = job else {
            return;
        };
        let outcome = batch.unpack(&mut unpacker).map(|()| batch);
        // Nobody may wait for it any longer.
        let _ = done.send(outcome);
    }
}

impl fmt::Debug for UnpackThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UnpackThreads({} pending)", self.pending.len())
    }
}
