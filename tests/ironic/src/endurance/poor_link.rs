//! A link that loses, duplicates and reorders frames.
//!
//! A kernel may lack netem, so this is a program: it copies frames between two taps on
//! two bridges. Later frames overtake a frame that is delayed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tappers::{Interface, Tap};

/// Frames in a thousand that are lost, in each direction.
pub const LOST: u64 = 30;
/// Frames in a thousand that arrive twice.
pub const DOUBLED: u64 = 20;
/// Frames in a thousand that are delayed, so that later ones overtake them.
pub const DELAYED: u64 = 50;
/// The longest delay: less than the usual retransmission timeout of TCP (200 ms),
/// because TCP takes a longer delay for a loss.
pub const LONGEST_DELAY: Duration = Duration::from_millis(80);

/// The size of the receive buffer in bytes. An Ethernet frame with a VLAN tag is
/// smaller.
const FRAME: usize = 2048;

/// What happens to one frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Lost,
    Doubled,
    Delayed(Duration),
    Delivered,
}

/// Draws fates. The same seed gives the same fates (xorshift64*; G. Marsaglia,
/// "Xorshift RNGs", and S. Vigna, "An experimental exploration of Marsaglia's
/// xorshift generators").
#[derive(Debug, Clone)]
struct Fates(u64);

impl Fates {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn draw(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33
    }

    fn next(&mut self) -> Fate {
        let drawn = self.draw() % 1000;
        if drawn < LOST {
            Fate::Lost
        } else if drawn < LOST + DOUBLED {
            Fate::Doubled
        } else if drawn < LOST + DOUBLED + DELAYED {
            let longest = LONGEST_DELAY.as_micros() as u64;
            Fate::Delayed(Duration::from_micros(1 + self.draw() % longest))
        } else {
            Fate::Delivered
        }
    }
}

/// How many frames had which fate, on all links of a run.
#[derive(Debug, Default)]
pub struct Counts {
    pub frames: AtomicU64,
    pub lost: AtomicU64,
    pub doubled: AtomicU64,
    pub delayed: AtomicU64,
}

/// In milliseconds: the longest wait for frames. After it the thread looks for new
/// links.
const WAIT: u16 = 50;
/// Frames that are copied from one tap before the next one has its turn.
const TURN: usize = 32;

/// Two taps that are joined, and the seed of their link.
type Cable = ([Tap; 2], u64);

/// The thread that copies the frames of all poor links.
pub struct Forwarder {
    cables: Sender<Cable>,
    pub counts: Arc<Counts>,
}

impl Forwarder {
    pub fn start() -> Result<Self> {
        let (cables, received) = channel();
        let counts = Arc::<Counts>::default();
        let links = Links {
            ends: Vec::new(),
            delayed: BinaryHeap::new(),
            counts: Arc::clone(&counts),
        };
        thread::Builder::new()
            .name("poor links".to_owned())
            .spawn(move || links.forward_all(&received))?;
        Ok(Self { cables, counts })
    }

    /// Creates two taps in the network namespace of the calling thread, and joins
    /// them.
    pub fn join(&self, one: &str, other: &str, seed: u64) -> Result<()> {
        let tap = |name: &str| -> Result<Tap> {
            let mut tap = Tap::new_named(Interface::new(name)?)?;
            tap.set_nonblocking(true)?;
            Ok(tap)
        };
        let taps = [tap(one), tap(other)];
        let [Ok(one), Ok(other)] = taps else {
            let error = taps.into_iter().find_map(Result::err);
            return Err(error.context("no error")?).context("making taps");
        };
        self.cables
            .send(([one, other], seed))
            .ok()
            .context("the thread of the poor links has ended")
    }
}

/// One end of a link: what it sends arrives at the end with the index `peer`.
struct End {
    tap: Tap,
    peer: usize,
    fates: Fates,
}

struct Links {
    ends: Vec<End>,
    /// When a frame is due, at which end, and its bytes.
    delayed: BinaryHeap<Reverse<(Instant, usize, Vec<u8>)>>,
    counts: Arc<Counts>,
}

impl Links {
    /// Ends when the [`Forwarder`] is dropped.
    fn forward_all(mut self, cables: &Receiver<Cable>) {
        let mut frame = vec![0; FRAME];
        loop {
            loop {
                match cables.try_recv() {
                    Ok((taps, seed)) => self.add(taps, seed),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return,
                }
            }
            self.deliver_due();
            for index in self.readable() {
                for _ in 0..TURN {
                    let Ok(length) = self.ends[index].tap.recv(&mut frame) else {
                        break;
                    };
                    self.carry(index, &frame[..length]);
                }
            }
        }
    }

    fn add(&mut self, taps: [Tap; 2], seed: u64) {
        let first = self.ends.len();
        for (number, tap) in taps.into_iter().enumerate() {
            self.ends.push(End {
                tap,
                peer: first + 1 - number,
                fates: Fates::new(2 * seed + number as u64),
            });
        }
    }

    /// Waits until frames arrive or a delayed frame is due, but at most [`WAIT`].
    /// Returns the indices of the ends that have frames.
    fn readable(&self) -> Vec<usize> {
        let next = self.delayed.peek().map(|Reverse((due, ..))| {
            let wait = due.saturating_duration_since(Instant::now()).as_millis();
            u16::try_from(wait + 1).unwrap_or(WAIT).min(WAIT)
        });
        let timeout = PollTimeout::from(next.unwrap_or(WAIT));
        let mut polled: Vec<PollFd<'_>> = self
            .ends
            .iter()
            .map(|end| PollFd::new(end.tap.as_fd(), PollFlags::POLLIN))
            .collect();
        if poll(&mut polled, timeout).is_err() {
            return Vec::new();
        }
        let is_readable = |polled: &PollFd<'_>| {
            let events = polled.revents();
            events.is_some_and(|events| events.contains(PollFlags::POLLIN))
        };
        (0..polled.len())
            .filter(|index| is_readable(&polled[*index]))
            .collect()
    }

    fn carry(&mut self, from: usize, frame: &[u8]) {
        let End { peer, fates, .. } = &mut self.ends[from];
        let (to, fate) = (*peer, fates.next());
        self.counts.frames.fetch_add(1, Ordering::Relaxed);
        let counter = match fate {
            Fate::Delivered => return self.send(to, frame),
            Fate::Lost => &self.counts.lost,
            Fate::Doubled => {
                self.send(to, frame);
                self.send(to, frame);
                &self.counts.doubled
            }
            Fate::Delayed(delay) => {
                let due = Instant::now() + delay;
                self.delayed.push(Reverse((due, to, frame.to_vec())));
                &self.counts.delayed
            }
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    fn deliver_due(&mut self) {
        let now = Instant::now();
        while let Some(Reverse((due, ..))) = self.delayed.peek()
            && *due <= now
            && let Some(Reverse((_, to, frame))) = self.delayed.pop()
        {
            self.send(to, &frame);
        }
    }

    /// A frame that the kernel does not take is lost, as on a cable.
    fn send(&self, to: usize, frame: &[u8]) {
        let _ = self.ends[to].tap.send(frame);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fates_have_their_shares() {
        let mut fates = Fates::new(7);
        let (mut lost, mut doubled, mut delayed) = (0, 0, 0);
        for _ in 0..100_000 {
            match fates.next() {
                Fate::Lost => lost += 1,
                Fate::Doubled => doubled += 1,
                Fate::Delayed(delay) => {
                    assert!(delay <= LONGEST_DELAY);
                    delayed += 1;
                }
                Fate::Delivered => {}
            }
        }
        for (found, share) in [(lost, LOST), (doubled, DOUBLED), (delayed, DELAYED)] {
            let expected = share * 100;
            assert!(
                found > expected * 9 / 10 && found < expected * 11 / 10,
                "{found}, {expected}"
            );
        }
    }
}
