//! Fetches, hashes and decodes an image into buffers of 1 MiB. Each stage has a
//! thread of its own, and hashing runs in parallel with decoding. The queues
//! between the stages are bounded, so memory use does not grow with the image.

use std::io::{self, BufRead, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::Bytes;
use landfall_download::digest::{Computed, Hasher, Hashing};
use landfall_download::fetch::{Download, Event, Place};
use landfall_report::failure::{Failure, Result};
use landfall_sys::freed_memory::FreedMemoryKept;

use crate::device::aligned_buffer::AlignedBuffer;
use crate::image::decode::{Decoder, Packing};

/// The size in bytes of a buffer of unpacked data. One write to the disk is at most this
/// long, except for qcow2 clusters that are larger.
pub const UNIT: usize = 1 << 20;
/// The number of buffers that circulate between the decoder and the writer.
const UNITS: usize = 4;
/// The number of downloaded chunks that may wait to be hashed. The decoder shares
/// their memory.
const HASH_QUEUE: usize = 8;
/// In bytes. After a decoder error the agent reads the rest of the download for its
/// digest, to distinguish a damaged transfer from a damaged image. If the rest is
/// longer than this, the agent does not read it.
const REST_LIMIT: u64 = 64 << 20;

/// In bytes. A compressed stream can continue forever without producing any data (empty
/// gzip members, skippable zstd frames), so the download has a limit. Before the first
/// unit the limit is this number. After each unit the limit is this number plus the size
/// of the disk, or plus the size unpacked so far if that is larger, because a qcow2 file
/// may be longer than the disk. The consumer of the units limits the unpacked size.
const PACKED_SLACK: u64 = 64 << 20;
/// How long to wait for a step before reporting [`Step::Wait`].
const TICK: Duration = Duration::from_secs(5);

/// The messages of the pipeline, in this order: one `Begin`, units, one `End`. A `Wait`
/// may come before each of them.
#[derive(Debug)]
pub enum Step {
    /// The download and the decoder have started.
    Begin(Stream),
    /// The next bytes of the image, and their number: a full unit, except at the end
    /// of the image.
    Unit(AlignedBuffer, usize),
    /// Nothing has arrived for a while.
    Wait,
    /// The image is complete and was decoded without an error. Its digest has not
    /// been compared yet.
    End,
}

/// What is known about the stream at its start.
#[derive(Debug, Clone)]
pub struct Stream {
    /// The URL without secrets, for messages.
    pub url: String,
    /// Where the stream comes from, to download parts of it again.
    pub place: Place,
    /// The number of bytes to download, if the server stated it.
    pub total: Option<u64>,
    pub packing: Packing,
    /// A lower bound of the unpacked size in bytes, if the header of a zstd stream states
    /// one.
    pub promised: Option<u64>,
}

/// A failure of the download or the decoder.
#[derive(Debug)]
pub struct Broken {
    pub failure: Failure,
    /// Whether the agent read the download to its end despite the failure, so that
    /// its digest can be compared.
    pub digest_complete: bool,
}

type Message = std::result::Result<Step, Broken>;

/// The running stages. Dropping this ends them.
#[derive(Debug)]
pub struct Pipeline {
    steps: Receiver<Message>,
    free: SyncSender<AlignedBuffer>,
    hasher: JoinHandle<Computed>,
    downloaded: Arc<AtomicU64>,
    /// Makes the allocator keep freed memory, because the chunks of the download
    /// are freed as fast as they arrive.
    _kept: FreedMemoryKept,
}

impl Pipeline {
    /// Starts the stages for this download, which is an image for a disk of
    /// `disk_size` bytes.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn start(download: Download, hashing: Hashing, disk_size: u64) -> Result<Self> {
        let no_thread = |e: io::Error| {
            Failure::image_write(format!("cannot start a thread for the image: {e}"))
        };
        let kept = FreedMemoryKept::begin();
        let (to_hash, chunks) = sync_channel::<Bytes>(HASH_QUEUE);
        let hasher = thread::Builder::new()
            .name("image-digest".into())
            .spawn(move || hash(&chunks, &hashing))
            .map_err(no_thread)?;

        let (free, buffers) = sync_channel(UNITS);
        for _ in 0..UNITS {
            // This neither blocks nor fails: the queue has room for all buffers, and
            // its receiver exists.
            let _ = free.send(AlignedBuffer::zeroed(UNIT));
        }
        let (sender, steps) = sync_channel(UNITS);
        let downloaded = Arc::new(AtomicU64::new(0));
        let input = Tee {
            download,
            current: Bytes::new(),
            to_hash,
            downloaded: Arc::clone(&downloaded),
            limit: Arc::new(AtomicU64::new(PACKED_SLACK)),
            ended: false,
        };
        thread::Builder::new()
            .name("image-decode".into())
            .spawn(move || {
                let end = decode(input, &sender, &buffers, disk_size);
                // This fails if the receiver is gone; then nobody needs the outcome.
                let _ = sender.send(end.map(|()| Step::End));
            })
            .map_err(no_thread)?;
        Ok(Self {
            steps,
            free,
            hasher,
            downloaded,
            _kept: kept,
        })
    }

    /// Waits for the next step. Returns [`Step::Wait`] if no step arrives in time.
    ///
    /// # Errors
    /// If the download or the decoder has failed.
    pub fn next(&self) -> Message {
        match self.steps.recv_timeout(TICK) {
            Ok(message) => message,
            Err(RecvTimeoutError::Timeout) => Ok(Step::Wait),
            Err(RecvTimeoutError::Disconnected) => Err(Broken {
                failure: Failure::image_write("the decoder thread ended without a result"),
                digest_complete: false,
            }),
        }
    }

    /// Returns the buffer of a unit to the decoder, for the next bytes.
    pub fn give_back(&self, buffer: AlignedBuffer) {
        // The decoder may have ended already.
        let _ = self.free.try_send(buffer);
    }

    /// Bytes downloaded so far.
    pub fn downloaded(&self) -> u64 {
        self.downloaded.load(Ordering::Relaxed)
    }

    /// The digest of everything downloaded. Call this after [`Step::End`] or a failure.
    ///
    /// # Errors
    /// If the hashing thread has panicked.
    pub fn digest(self) -> Result<Computed> {
        // This drop ends a decoder that waits for a buffer, or for room in the queue of
        // steps. The end of the decoder also closes the queue of the hashing thread.
        drop((self.steps, self.free));
        self.hasher
            .join()
            .map_err(|_| Failure::image_write("the digest ended without a result"))
    }
}

fn hash(chunks: &Receiver<Bytes>, hashing: &Hashing) -> Computed {
    let mut hasher = Hasher::new(hashing.algorithm);
    let mut bytes = 0;
    for chunk in chunks {
        hasher.update(&chunk);
        bytes += chunk.len() as u64;
    }
    Computed {
        with_suffix: hasher.with_suffix(&hashing.suffix),
        digest: hasher.finish(),
        bytes,
    }
}

/// Reads the download for the decoder, and sends every chunk to the hashing thread
/// as well. The chunks are shared, not copied.
struct Tee {
    download: Download,
    current: Bytes,
    to_hash: SyncSender<Bytes>,
    downloaded: Arc<AtomicU64>,
    /// How many bytes may be downloaded. The number is shared, because `decode` raises
    /// it while the decoder owns this `Tee`.
    limit: Arc<AtomicU64>,
    ended: bool,
}

impl Tee {
    fn begin(&mut self) -> Result<Place> {
        match self.download.next_event()? {
            Event::Begin(place) => Ok(place),
            Event::Chunk(_) | Event::End => {
                Err(Failure::image_write("the download began without a head"))
            }
        }
    }
}

impl BufRead for Tee {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.current.is_empty() && !self.ended {
            match self.download.next_event().map_err(io::Error::other)? {
                Event::Begin(_) => {}
                Event::Chunk(chunk) => {
                    // This does not fail: the hashing thread ends only when this
                    // sender is dropped.
                    let _ = self.to_hash.send(chunk.clone());
                    let len = chunk.len() as u64;
                    let downloaded = self.downloaded.fetch_add(len, Ordering::Relaxed) + len;
                    let limit = self.limit.load(Ordering::Relaxed);
                    if downloaded > limit {
                        return Err(io::Error::other(endless(limit)));
                    }
                    self.current = chunk;
                }
                Event::End => self.ended = true,
            }
        }
        Ok(&self.current)
    }

    fn consume(&mut self, amount: usize) {
        let _ = self.current.split_to(amount.min(self.current.len()));
    }
}

impl Read for Tee {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let available = self.fill_buf()?;
        let len = available.len().min(buffer.len());
        buffer[..len].copy_from_slice(&available[..len]);
        self.consume(len);
        Ok(len)
    }
}

fn decode(
    mut input: Tee,
    steps: &SyncSender<Message>,
    buffers: &Receiver<AlignedBuffer>,
    disk_size: u64,
) -> std::result::Result<(), Broken> {
    let at_once = |failure| Broken {
        failure,
        digest_complete: false,
    };
    let downloaded = Arc::clone(&input.downloaded);
    let limit = Arc::clone(&input.limit);
    let place = input.begin().map_err(at_once)?;
    let (url, total) = (place.shown(), place.total());
    let (mut decoder, promised) = Decoder::new(input).map_err(|e| {
        at_once(explain(
            e,
            Packing::Raw,
            &url,
            downloaded.load(Ordering::Relaxed),
        ))
    })?;
    let packing = decoder.packing();
    let begin = Step::Begin(Stream {
        url: url.clone(),
        place,
        total,
        packing,
        promised,
    });
    if steps.send(Ok(begin)).is_err() {
        return Ok(());
    }
    let mut unpacked = 0;
    loop {
        let Ok(mut buffer) = buffers.recv() else {
            return Ok(());
        };
        let filled = match decoder.fill(&mut buffer) {
            Ok(filled) => filled,
            Err(e) => {
                let from_download = carries_failure(&e);
                let failure = explain(e, packing, &url, downloaded.load(Ordering::Relaxed));
                let digest_complete =
                    !from_download && read_rest(decoder.into_input(), total, packing);
                return Err(Broken {
                    failure,
                    digest_complete,
                });
            }
        };
        unpacked += filled as u64;
        // The 64th part (1.6 %) is for data that cannot be compressed: gzip makes such
        // data 0.03 % longer, LZ4 0.4 %.
        let expected = disk_size.max(unpacked + unpacked / 64);
        limit.store(expected.saturating_add(PACKED_SLACK), Ordering::Relaxed);
        if filled > 0 && steps.send(Ok(Step::Unit(buffer, filled))).is_err() {
            return Ok(());
        }
        if filled < UNIT {
            return Ok(());
        }
    }
}

fn endless(limit: u64) -> Failure {
    Failure::invalid_image(format!(
        "the image unpacks to almost nothing: gave up after {limit} packed bytes"
    ))
    .hint("check the file on the server: it is not an image for this disk")
}

fn carries_failure(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Failure>())
}

/// Returns a failure of the download unchanged. Adds the URL and the number of
/// downloaded bytes to an error of the decoder itself.
fn explain(error: io::Error, packing: Packing, url: &str, downloaded: u64) -> Failure {
    match error.downcast::<Failure>() {
        Ok(failure) => failure,
        Err(error) => Failure::invalid_image(format!(
            "{url}: cannot unpack {packing} within the first {downloaded} bytes: {error}"
        ))
        .hint("the image is truncated or damaged: compare its checksum on the server"),
    }
}

/// Reads the download to its end for the digest. Returns `false` if this fails, or
/// if the rest is longer than [`REST_LIMIT`] or of unknown length.
fn read_rest(mut input: Tee, total: Option<u64>, packing: Packing) -> bool {
    let left = total.map(|total| total.saturating_sub(input.downloaded.load(Ordering::Relaxed)));
    if left.is_none_or(|left| left > REST_LIMIT) {
        return false;
    }
    if left > Some(0) {
        tracing::warn!("the {packing} stream is broken, reading the rest for its checksum");
    }
    loop {
        match input.fill_buf() {
            Ok([]) => return true,
            Ok(chunk) => {
                let len = chunk.len();
                input.consume(len);
            }
            Err(_) => return false,
        }
    }
}
