//! Unpacks batches on several threads and returns them in the order in which they
//! were begun.

use std::collections::VecDeque;
use std::fmt;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::image::qcow2::batch::{BATCH, Batch, BatchError};
use crate::image::qcow2::header::{Compression, Header};
use crate::image::qcow2::unpack::Unpacker;

/// More threads rarely help: four threads inflate 2 GB/s, and networks seldom deliver
/// more.
const MOST_THREADS: usize = 4;
/// Memory limit in bytes for the pending batches, packed and unpacked. It assumes
/// that packed data is not longer than unpacked data, although qcow2 allows twice
/// the length.
const MOST_MEMORY: u64 = 12 << 20;

type Outcome = Result<Batch, BatchError>;

pub struct UnpackThreads {
    jobs: Jobs,
    /// Batches in the order in which they were begun, each with the lowest file
    /// offset of its clusters.
    pending: VecDeque<(u64, Pending)>,
    most_pending: usize,
    spare: Vec<Batch>,
    cluster_size: u64,
}

enum Jobs {
    /// The caller's thread unpacks.
    Here(Unpacker),
    /// Other threads unpack. They end when this sender is dropped.
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
    /// Prepares for the clusters of a file with this header. The caller's thread
    /// unpacks if `threads` is 1 or if no thread can be started.
    pub fn new(header: &Header, threads: usize) -> Self {
        let threads = threads.min(MOST_THREADS);
        let batch = 2 * header.cluster_size().max(BATCH as u64);
        // Two more batches than threads: one batch that is being written, and one
        // that waits for a thread.
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

    /// Returns an empty batch.
    pub fn batch(&mut self) -> Batch {
        self.spare
            .pop()
            .unwrap_or_else(|| Batch::new(self.cluster_size))
    }

    /// Takes back a batch for reuse.
    pub fn give_back(&mut self, mut batch: Batch) {
        batch.clear();
        self.spare.push(batch);
    }

    /// Whether the caller must wait for a batch before it can begin another one.
    pub fn is_full(&self) -> bool {
        self.pending.len() >= self.most_pending
    }

    pub fn begin(&mut self, mut batch: Batch) {
        let first = batch.used().map(|(host, _)| host).min().unwrap_or(0);
        let pending = match &mut self.jobs {
            Jobs::Here(unpacker) => Pending::Done(batch.unpack(unpacker).map(|()| batch)),
            Jobs::Threads(sender) => {
                let (done, outcome) = sync_channel(1);
                // Cannot fail: the threads run until this sender is dropped.
                let _ = sender.send(Job { batch, done });
                Pending::Running(outcome)
            }
        };
        self.pending.push_back((first, pending));
    }

    /// Whether any pending batch has a cluster that begins before offset `host` of
    /// the file.
    pub fn begins_before(&self, host: u64) -> bool {
        self.pending.iter().any(|(first, _)| *first < host)
    }

    /// Waits until the oldest pending batch is unpacked. Returns `None` if no batch
    /// is pending.
    pub fn wait(&mut self) -> Option<Outcome> {
        Some(match self.pending.pop_front()?.1 {
            Pending::Done(outcome) => outcome,
            Pending::Running(outcome) => outcome.recv().unwrap_or(Err(BatchError::ThreadGone)),
        })
    }
}

/// Starts a thread. Returns `false` if that fails.
fn start(jobs: &Arc<Mutex<Receiver<Job>>>, compression: Compression) -> bool {
    let jobs = Arc::clone(jobs);
    thread::Builder::new()
        .name("image-unpack".into())
        .spawn(move || work(&jobs, Unpacker::new(compression)))
        .is_ok()
}

fn work(jobs: &Mutex<Receiver<Job>>, mut unpacker: Unpacker) {
    loop {
        // One thread waits for a job and holds the lock; the other threads wait for
        // the lock.
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Job { mut batch, done }) = job else {
            return;
        };
        let outcome = batch.unpack(&mut unpacker).map(|()| batch);
        // The receiver may be gone.
        let _ = done.send(outcome);
    }
}

impl fmt::Debug for UnpackThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UnpackThreads({} pending)", self.pending.len())
    }
}
