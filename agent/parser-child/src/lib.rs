//! Parses foreign bytes in a child process without privileges.
//!
//! What somebody else has written, such as a medium in a drive or a frame on the network,
//! could use a fault of its parser. The child is the agent's own program, started again with
//! an empty environment. It gives up all privileges (`landfall_sys::confinement`) before it
//! reads the first byte. It has the input as an open file, and answers questions. The agent
//! limits the size of an answer and the time for it, and checks what it says.
//!
//! A program that has not called [`offer_this_program`] parses in its own process: tests,
//! and programs of other projects.

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

/// In characters: the longest text of a child that the agent repeats.
const LONGEST_TEXT: usize = 500;

/// A parser that can run in a child.
pub trait Parser: Sized {
    /// The name by which the program finds it.
    const NAME: &'static str;
    /// Whether the host cannot be installed without an answer. Then the agent parses with its
    /// own privileges where it cannot start a child; else it goes without the answer.
    const IS_NEEDED: bool;
    /// How long an answer may take after the question, or after the child has last read a part
    /// of its input.
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

/// A parser at work. Dropping it ends its child.
#[derive(Debug)]
pub struct Session<P> {
    place: Place<P>,
    on_progress: OnProgress,
}

/// What to do when the parser has read a part of its input, or has answered.
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
    /// A child that has failed is asked no more: its late answer could be taken for the
    /// answer to another question.
    Failed(Fault),
}

/// A child of a parser that is needed took too long to start. The next one would, too.
static IS_TOO_SLOW: AtomicBool = AtomicBool::new(false);

impl<P: Parser> Session<P> {
    /// Starts the parser in a child, or in this process if that offers no child.
    ///
    /// # Errors
    /// As for [`Self::start_by`].
    pub fn start(input: File) -> Result<Self, Fault> {
        match program::offered() {
            Some(program) => Self::start_by(program, input),
            None => Ok(Self::here(input)),
        }
    }

    /// Starts the parser in a child of this program, or in this process if the child cannot
    /// be started and the parser is needed.
    ///
    /// The child has read nothing when it starts, so the input cannot cause that it does
    /// not: only the host can, for example without memory. Without an answer the host would
    /// have no settings and no network.
    ///
    /// # Errors
    /// If the parser is not needed and no child can be started, or if the input has no second
    /// file descriptor.
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
    /// If the child cannot be started, or ends before it is confined.
    pub fn start_in(program: &Program, input: File) -> Result<Self, Fault> {
        Child::start(program, P::NAME, input).map(Self::with)
    }

    /// The session of a child that somebody else has started, at the other end of a socket: a
    /// fuzz target sends there what a hostile child could send.
    ///
    /// # Errors
    /// If the child does not say how it is confined.
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

    /// Calls this each time that the child has read a part of its input, and after each answer.
    pub fn on_progress(self, on_progress: impl FnMut() + Send + 'static) -> Self {
        let on_progress = OnProgress(Box::new(on_progress));
        Self {
            on_progress,
            ..self
        }
    }

    /// Asks the parser. Believe nothing in the answer: check it.
    ///
    /// # Errors
    /// If the child has ended or takes too long, or if its answer is too long or no answer.
    /// Then the child is ended, and each later question has the same error at once.
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

    /// The process of the child; `None` if there is none.
    pub fn process(&self) -> Option<u32> {
        match &self.place {
            Place::Child(child) => child.process(),
            Place::Here(_) | Place::Failed(_) => None,
        }
    }
}

/// A text of a child for the operator: its beginning, without control characters.
pub fn plain_text(text: &str) -> String {
    let plain = text.chars().filter(|c| !c.is_control());
    plain.take(LONGEST_TEXT).collect()
}

#[cfg(test)]
mod tests;
