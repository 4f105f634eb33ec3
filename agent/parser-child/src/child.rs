//! The agent's side: starts the child, asks it, and handles its failures.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{self, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::frame::{self, FrameError, Next};
use crate::{Parser, Program};

/// The time limit until the child is confined. The child has read nothing until then, so
/// no input can slow it down.
const START: Duration = Duration::from_secs(10);
/// The size limit of the child's first message in bytes.
const LARGEST_GREETING: usize = 4096;
/// How long the agent waits for a killed child to end. A child cannot end while it waits
/// for a drive.
const END: Duration = Duration::from_millis(500);

/// Why there is no answer. The text is for operators and begins with "its parser".
#[derive(Debug, Clone, thiserror::Error)]
pub enum Fault {
    #[error("cannot start its parser: {0}")]
    Start(String),
    #[error("its parser has no answer after {} s", .0.as_secs())]
    Late(Duration),
    /// The parser reads its input, but too slowly.
    #[error("its parser has taken {} s for all its answers", .0.as_secs())]
    Slow(Duration),
    /// Contains how the parser ended.
    #[error("its parser {0}")]
    Ended(String),
    #[error("its parser gave a wrong answer: {0}")]
    Answer(String),
}

impl Fault {
    pub(crate) fn start(error: io::Error) -> Self {
        Self::Start(error.to_string())
    }
}

#[derive(Debug)]
pub(crate) struct Child {
    /// `None` if another program has started the child, or after a thread has taken over
    /// the wait for the end of the child.
    process: Option<process::Child>,
    socket: UnixStream,
    /// How long the agent has waited for its answers.
    waited: Duration,
}

impl Child {
    /// Starts a child and waits until it is confined. Also returns the privileges that
    /// could not be removed from the child.
    pub(crate) fn start(
        program: &Program,
        parser: &str,
        input: File,
    ) -> Result<(Self, Vec<String>), Fault> {
        Self::start_within(START, program, parser, input)
    }

    fn start_within(
        limit: Duration,
        program: &Program,
        parser: &str,
        input: File,
    ) -> Result<(Self, Vec<String>), Fault> {
        let (socket, of_child) = UnixStream::pair().map_err(Fault::start)?;
        let process = Command::new(&program.path)
            // Without this, a list of processes would show `/proc/self/exe`.
            .arg0("landfall-agent")
            .args(&program.arguments)
            .arg(parser)
            // The environment may contain the password of a proxy.
            .env_clear()
            .stdin(input)
            .stdout(OwnedFd::from(of_child))
            .stderr(Stdio::null())
            .spawn()
            .map_err(Fault::start)?;
        Self::at(socket, Some(process), limit)
    }

    /// A child that another program has started, at the other end of this socket.
    pub(crate) fn of_peer(socket: UnixStream) -> Result<(Self, Vec<String>), Fault> {
        Self::at(socket, None, START)
    }

    fn at(
        socket: UnixStream,
        process: Option<process::Child>,
        limit: Duration,
    ) -> Result<(Self, Vec<String>), Fault> {
        let mut child = Self {
            process,
            socket,
            waited: Duration::ZERO,
        };
        let greeting = next(&mut child.until(limit, limit), LARGEST_GREETING, &mut || ());
        match greeting {
            Ok(missing) => Ok((child, missing)),
            Err(error) => Err(child.fault(error, limit)),
        }
    }

    pub(crate) fn process(&self) -> Option<u32> {
        self.process.as_ref().map(process::Child::id)
    }

    /// Sends the question and returns the answer. Calls `on_progress` whenever the child
    /// has read a part of its input.
    pub(crate) fn ask<P: Parser>(
        &mut self,
        question: &P::Question,
        on_progress: &mut dyn FnMut(),
    ) -> Result<P::Answer, Fault> {
        let asked = Instant::now();
        let mut socket = self.until(P::LIMIT, P::TOTAL.saturating_sub(self.waited));
        let answer = frame::write(&mut socket, question)
            .map_err(FrameError::from)
            .and_then(|()| next(&mut socket, P::LARGEST_ANSWER, on_progress));
        self.waited += asked.elapsed();
        answer.map_err(|error| match self.fault(error, P::LIMIT) {
            Fault::Late(_) if self.waited >= P::TOTAL => Fault::Slow(P::TOTAL),
            other => other,
        })
    }

    /// The socket of the child with two time limits: `limit` until the next sign of
    /// progress, `total` until the end of the answer.
    fn until(&self, limit: Duration, total: Duration) -> Until<'_> {
        let now = Instant::now();
        let end = now + total;
        Until {
            socket: &self.socket,
            limit,
            until: end.min(now + limit),
            end,
        }
    }

    fn fault(&mut self, error: FrameError, limit: Duration) -> Fault {
        let late = [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut];
        match error {
            FrameError::Io(error) if late.contains(&error.kind()) => Fault::Late(limit),
            FrameError::Io(error) => match self.end() {
                Some(status) => Fault::Ended(why(status)),
                None => Fault::Answer(error.to_string()),
            },
            other => Fault::Answer(other.to_string()),
        }
    }

    /// How the child has ended, after it has closed its socket or was killed.
    fn end(&mut self) -> Option<ExitStatus> {
        let until = Instant::now() + END;
        loop {
            match self.process.as_mut()?.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if Instant::now() < until => thread::sleep(Duration::from_millis(1)),
                _ => return None,
            }
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // The parser needs no cleanup, so kill its process.
        let killed = self.process.as_mut().map(process::Child::kill);
        if killed.is_none() || self.end().is_some() {
            return;
        }
        // The process is still in the kernel and waits for a drive. A separate thread
        // waits for its end, so that no zombie remains.
        if let Some(mut process) = self.process.take() {
            tracing::debug!("the parser in process {} waits for a drive", process.id());
            thread::spawn(move || process.wait());
        }
    }
}

fn next<T: serde::de::DeserializeOwned>(
    socket: &mut Until<'_>,
    limit: usize,
    on_progress: &mut dyn FnMut(),
) -> Result<T, FrameError> {
    loop {
        match frame::read(&mut *socket, limit)? {
            Next::Message(message) => return Ok(message),
            Next::Progress => {
                socket.restart();
                on_progress();
            }
            Next::End => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
        }
    }
}

/// A socket with a time limit.
struct Until<'a> {
    socket: &'a UnixStream,
    limit: Duration,
    until: Instant,
    /// The upper limit of `until`.
    end: Instant,
}

impl Until<'_> {
    fn restart(&mut self) {
        self.until = self.end.min(Instant::now() + self.limit);
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.until.saturating_duration_since(Instant::now());
        // A timeout of zero would mean no timeout.
        (!left.is_zero())
            .then_some(Some(left))
            .ok_or_else(|| io::ErrorKind::TimedOut.into())
    }
}

impl Read for Until<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(self.left()?)?;
        self.socket.read(buffer)
    }
}

impl Write for Until<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(self.left()?)?;
        self.socket.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn why(status: ExitStatus) -> String {
    // The signal numbers of x86_64 and of most other architectures (signal(7)).
    const ABORT: i32 = 6;
    const KILL: i32 = 9;
    const FAULT: i32 = 11;
    const SYSTEM_CALL: i32 = 31;
    match status.signal() {
        Some(ABORT) => "has failed, or needs more memory than it may have".to_owned(),
        Some(KILL) => "was killed: it took too much time, or the host has no memory".to_owned(),
        Some(FAULT) => "has crashed".to_owned(),
        Some(SYSTEM_CALL) => "was killed: it made a system call that it may not make".to_owned(),
        Some(signal) => format!("was ended by signal {signal}"),
        None => format!("has ended with exit code {}", status.code().unwrap_or(-1)),
    }
}

#[cfg(test)]
mod tests;
