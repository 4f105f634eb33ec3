//! Parses foreign bytes in a child process without privileges.
//!
//! Bytes from outside, such as the content of a medium or a frame from the network,
//! could exploit a bug in their parser. So the parser runs in a child: the agent's own
//! program, started again with an empty environment. The child gives up all privileges
//! (`landfall_sys::confinement`) before it reads the first byte. It has the input as an
//! open file, and answers the agent's questions. The agent limits the size of an answer
//! and the time for it, and checks the content.
//!
//! A program that has not called [`offer_this_program`], such as a test or a program of
//! another project, parses in its own process.

mod child;
mod frame;
mod input;
mod program;
mod remark;
mod serve;

use std::fmt;
use std::fs::File;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use child::Child;
pub use child::Fault;
pub use input::Input;
pub use program::{Program, asked_for, offer_this_program};
use remark::Remark;
pub use remark::report_kept;
pub use serve::serve;

/// The maximum length, in characters, of a child's text that the agent prints.
const LONGEST_TEXT: usize = 500;

/// A parser that can run in a child.
pub trait Parser: Sized {
    /// The name by which the child finds its parser.
    const NAME: &'static str;
    /// Whether the host cannot be installed without an answer. If this is true and no
    /// child can be started, the agent parses with its own privileges. If this is false,
    /// the agent continues without the answer.
    const IS_NEEDED: bool;
    /// The time limit of an answer, counted from the question or from the last part of
    /// the input that the child has read.
    const LIMIT: Duration;
    /// How long all answers together may take.
    const TOTAL: Duration;
    /// In bytes: the largest answer, as JSON.
    const LARGEST_ANSWER: usize;
    type Question: Serialize + DeserializeOwned;
    type Answer: Serialize + DeserializeOwned;

    fn new(input: Input) -> Self;
    fn answer(&mut self, question: Self::Question) -> Self::Answer;
}

/// A running parser. Dropping the session ends the child.
#[derive(Debug)]
pub struct Session<P> {
    place: Place<P>,
    on_progress: OnProgress,
}

/// What to do when the child has read a part of its input, or when the parser has
/// answered.
struct OnProgress(Box<dyn FnMut() + Send>);

impl fmt::Debug for OnProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnProgress")
    }
}

#[derive(Debug)]
enum Place<P> {
    Child(Child),
    Here(P),
    /// The agent sends no further question to a child that has failed, because a late
    /// answer could be mistaken for the answer to another question.
    Failed(Fault),
}

/// Whether a child of a needed parser took too long to start. A further child would be
/// too slow as well, so from then on the needed parsers run in this process.
static IS_TOO_SLOW: AtomicBool = AtomicBool::new(false);

impl<P: Parser> Session<P> {
    /// Starts the parser in a child, or in this process if this program has not called
    /// [`offer_this_program`].
    ///
    /// # Errors
    /// As for [`Self::start_by`].
    pub fn start(input: File) -> Result<Self, Fault> {
        match program::offered() {
            Some(program) => Self::start_by(program, input),
            None => Ok(Self::here(input)),
        }
    }

    /// Starts the parser in a child of this program. If the child cannot be started but
    /// the parser is needed, starts the parser in this process.
    ///
    /// This is safe, because the child has read nothing when it starts. So the input
    /// cannot prevent the start; only the host can, for example if it has no memory.
    /// Without an answer the host would have no settings and no network.
    ///
    /// # Errors
    /// If the parser is not needed and no child can be started, or if the file descriptor
    /// of the input cannot be duplicated.
    pub fn start_by(program: &Program, input: File) -> Result<Self, Fault> {
        if !P::IS_NEEDED {
            return Self::start_in(program, input);
        }
        if IS_TOO_SLOW.load(Ordering::Relaxed) {
            return Ok(Self::here(input));
        }
        let spare = input.try_clone().map_err(Fault::start)?;
        Self::start_in(program, input).or_else(|fault| {
            IS_TOO_SLOW.fetch_or(matches!(fault, Fault::Late(_)), Ordering::Relaxed);
            remark::make(Remark::Here(format!("{}: {fault}", P::NAME)));
            Ok(Self::here(spare))
        })
    }

    /// Starts the parser in a child of this program.
    ///
    /// # Errors
    /// If the child cannot be started, or if it ends before it is confined.
    pub fn start_in(program: &Program, input: File) -> Result<Self, Fault> {
        Child::start(program, P::NAME, input).map(Self::with)
    }

    /// A session with a child that another program has started and that is at the other
    /// end of the socket. A fuzz target uses it to send what a hostile child could send.
    ///
    /// # Errors
    /// If the child does not report how it is confined.
    pub fn of_peer(socket: UnixStream) -> Result<Self, Fault> {
        Child::of_peer(socket).map(Self::with)
    }

    fn with((child, missing): (Child, Vec<String>)) -> Self {
        if !missing.is_empty() {
            remark::make(Remark::Missing(missing));
        }
        Self::at(Place::Child(child))
    }

    fn here(input: File) -> Self {
        Self::at(Place::Here(P::new(Input::here(input))))
    }

    fn at(place: Place<P>) -> Self {
        Self {
            place,
            on_progress: OnProgress(Box::new(|| ())),
        }
    }

    /// Sets the function that the session calls each time a child has read a part of its
    /// input, and after each answer. A parser in this process reports answers only.
    pub fn on_progress(self, on_progress: impl FnMut() + Send + 'static) -> Self {
        let on_progress = OnProgress(Box::new(on_progress));
        Self {
            on_progress,
            ..self
        }
    }

    /// Asks the parser. The answer is not trusted: check it.
    ///
    /// # Errors
    /// If the child has ended, if it takes too long, or if its answer is too long or
    /// invalid. The session then ends the child, and each later question returns the same
    /// error at once.
    pub fn ask(&mut self, question: P::Question) -> Result<P::Answer, Fault> {
        let on_progress = &mut self.on_progress.0;
        let answer = match &mut self.place {
            Place::Child(child) => child.ask::<P>(&question, on_progress),
            Place::Here(parser) => Ok(parser.answer(question)),
            Place::Failed(fault) => return Err(fault.clone()),
        };
        match &answer {
            Ok(_) => on_progress(),
            Err(fault) => self.place = Place::Failed(fault.clone()),
        }
        answer
    }

    /// The process ID of the child. `None` if the parser runs in this process, if the
    /// child has failed, or if another program started the child.
    pub fn process(&self) -> Option<u32> {
        match &self.place {
            Place::Child(child) => child.process(),
            Place::Here(_) | Place::Failed(_) => None,
        }
    }
}

/// The beginning of a text from a child, without control characters, for messages to the
/// operator.
pub fn plain_text(text: &str) -> String {
    let plain = text.chars().filter(|c| !c.is_control());
    plain.take(LONGEST_TEXT).collect()
}

#[cfg(test)]
mod tests;
