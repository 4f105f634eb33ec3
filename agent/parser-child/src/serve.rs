//! The child: gives up its privileges, then answers questions until the agent ends the
//! connection.

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::process::ExitCode;
use std::time::Duration;

use landfall_sys::confinement::{self, Limits};

use crate::frame::{self, Next};
use crate::{Input, Parser};

/// The limits of the child. The largest known input, a config.ign of 8 MiB with 16 MiB of
/// files inside it, needs half of this memory.
const LIMITS: Limits = Limits {
    memory: 256 << 20,
    processor_time: Duration::from_secs(30),
};
/// The size limit of a question in bytes. An LLDP frame has about 3 KiB of JSON.
const LARGEST_QUESTION: usize = 64 << 10;

/// Becomes the parser. The standard input is the parser's input, and the standard output
/// is the socket to the agent. Returns the exit code of the process.
pub fn serve<P: Parser>() -> ExitCode {
    match answer_all::<P>() {
        Ok(()) => ExitCode::SUCCESS,
        // The agent detects the end of the child.
        Err(_) => ExitCode::FAILURE,
    }
}

fn answer_all<P: Parser>() -> io::Result<()> {
    // Closes files that a library opened without `O_CLOEXEC`; execve(2) has already
    // closed the files that Rust opened. Kernels before 5.9 have no close_range(2): the
    // child reports the error with the limits that it lacks.
    let inherited = confinement::close_inherited();
    let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    // Use the socket as a file: a file needs only read(2) and write(2), and the filter of
    // system calls allows no recv(2) or send(2).
    let agent = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let input = Input::in_child(input, agent.try_clone()?);
    let mut missing = confinement::enter(&LIMITS);
    missing.extend({ inherited.err() }.map(|error| format!("inherited files: {error}")));
    frame::write(&agent, &missing)?;
    let mut parser = P::new(input);
    while let Next::Message(question) =
        frame::read(&agent, LARGEST_QUESTION).map_err(io::Error::other)?
    {
        frame::write(&agent, &parser.answer(question))?;
    }
    Ok(())
}
