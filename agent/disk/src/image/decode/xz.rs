//! Unpacks xz on all processors, within a limit for the memory of all threads.
//!
//! If a file has blocks (`xz -T`, the default of xz 5.6), each thread unpacks one block
//! and needs twice the block size in memory. If the threads together would exceed the
//! memory limit, liblzma uses fewer threads, down to one.

use std::fs;
use std::io::{self, BufRead, Read};
use std::thread;

use liblzma::stream::{Action, MtStreamBuilder, Status, Stream};

/// The lowest memory limit, in bytes. `xz -9` has a dictionary of 64 MiB, so this
/// much is always allowed. If a stream needs more than the limit, liblzma returns an
/// error. Without a limit, the OOM killer could end the agent.
const LEAST_MEMORY: u64 = 80 << 20;
/// The highest memory limit, in bytes: enough for five threads on a file of `xz -9
/// -T0`, which has blocks of 192 MiB, or for 35 threads on a file of the default
/// preset.
const MOST_MEMORY: u64 = 2 << 30;
/// Unpacking may use the available memory divided by this number, because everything
/// else in the ramdisk needs the rest.
const SHARE: u64 = 4;

/// Resources that unpacking may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) threads: u32,
    /// Memory of all threads in bytes. The agent rejects a stream that needs more even
    /// with one thread (because of a larger dictionary).
    pub(super) memory: u64,
}

impl Limits {
    /// All processors and a share of the available memory.
    pub(super) fn of_this_machine() -> Self {
        let available = fs::read_to_string("/proc/meminfo")
            .ok()
            .and_then(|text| available_memory(&text));
        Self {
            threads: thread::available_parallelism()
                .map_or(1, |threads| u32::try_from(threads.get()).unwrap_or(1)),
            memory: share(available.unwrap_or(0)),
        }
    }
}

fn share(available: u64) -> u64 {
    (available / SHARE).clamp(LEAST_MEMORY, MOST_MEMORY)
}

/// `MemAvailable` of /proc/meminfo, in bytes.
fn available_memory(meminfo: &str) -> Option<u64> {
    let value = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// Reads one or more xz streams. Each stream gets its own decoder, because liblzma's
/// threaded decoder handles only one stream (the crate does not expose liblzma's flag
/// for several streams).
pub(super) struct XzReader<R> {
    input: R,
    limits: Limits,
    state: State,
}

enum State {
    Stream(Stream),
    /// The zeros between two streams or after the last one.
    Padding,
    End,
}

impl<R: BufRead> XzReader<R> {
    /// `input` must be at the start of a stream.
    ///
    /// # Errors
    /// If there is not enough memory for a decoder.
    pub(super) fn new(input: R, limits: Limits) -> io::Result<Self> {
        Ok(Self {
            input,
            limits,
            state: State::Stream(decoder(limits)?),
        })
    }

    /// Returns the input, positioned after the last used byte.
    pub(super) fn into_input(self) -> R {
        self.input
    }

    /// Skips the zeros after a stream (xz file format 2.2: a multiple of four).
    /// Returns the state of the next stream or of the end of the file.
    fn skip_padding(&mut self) -> io::Result<State> {
        let mut zeros = 0_u64;
        loop {
            let input = self.input.fill_buf()?;
            let skipped = input.iter().take_while(|&&byte| byte == 0).count();
            let at_end = input.is_empty();
            let next = skipped < input.len();
            self.input.consume(skipped);
            zeros += skipped as u64;
            if !at_end && !next {
                continue;
            }
            if !zeros.is_multiple_of(4) {
                return Err(invalid(format!(
                    "expected padding after a stream to be a multiple of 4 bytes, found {zeros} bytes"
                )));
            }
            return if at_end {
                Ok(State::End)
            } else {
                Ok(State::Stream(decoder(self.limits)?))
            };
        }
    }
}

impl<R: BufRead> Read for XzReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            let stream = match &mut self.state {
                State::Stream(stream) => stream,
                State::Padding => {
                    self.state = self.skip_padding()?;
                    continue;
                }
                State::End => return Ok(0),
            };
            let input = self.input.fill_buf()?;
            let at_end = input.is_empty();
            let action = if at_end { Action::Finish } else { Action::Run };
            let before = (stream.total_in(), stream.total_out());
            let status = stream.process(input, buffer, action)?;
            // The counts grow by at most the lengths of the two slices, so the casts are
            // lossless.
            let used = (stream.total_in() - before.0) as usize;
            let filled = (stream.total_out() - before.1) as usize;
            self.input.consume(used);
            if status == Status::StreamEnd {
                self.state = State::Padding;
            } else if filled == 0 && at_end {
                return Err(io::ErrorKind::UnexpectedEof.into());
            } else if filled == 0 && used == 0 {
                return Err(invalid("the stream is broken".to_owned()));
            }
            if filled > 0 {
                return Ok(filled);
            }
        }
    }
}

fn decoder(limits: Limits) -> io::Result<Stream> {
    if limits.threads < 2 {
        return Ok(Stream::new_stream_decoder(limits.memory, 0)?);
    }
    let mut builder = MtStreamBuilder::new();
    builder
        .threads(limits.threads)
        .memlimit_threading(limits.memory)
        .memlimit_stop(limits.memory);
    Ok(builder.decoder()?)
}

fn invalid(details: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, details)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_available_memory() {
        let text = "MemTotal:  24683520 kB\nMemFree: 9 kB\nMemAvailable:    1048576 kB\n";
        assert_eq!(available_memory(text), Some(1 << 30));
        for bad in ["", "MemAvailable: kB", "MemAvailable: 12", "MemTotal: 1 kB"] {
            assert_eq!(available_memory(bad), None, "{bad}");
        }
        for (available, memory) in [
            (0, LEAST_MEMORY),
            (256 << 20, LEAST_MEMORY),
            (1 << 30, 256 << 20),
            (2 << 40, MOST_MEMORY),
        ] {
            assert_eq!(share(available), memory);
        }
        let here = Limits::of_this_machine();
        assert!(here.threads >= 1 && here.memory >= LEAST_MEMORY);
    }
}
