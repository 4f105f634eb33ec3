//! A medium whose file system a child reads.

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use landfall_media_formats::Medium;
use landfall_parser_child::{Fault, Input, Parser, Session, plain_text};
use serde::{Deserialize, Serialize};

/// In characters: the size limit of a label and of a publisher. In ISO 9660 the longest
/// label has 32 characters, the longest publisher 128.
const LONGEST_FACT: usize = 512;

#[derive(Debug)]
pub struct MediumParser {
    /// The medium before the first question; `None` after it.
    input: Option<Input>,
    medium: Option<Medium<Input>>,
}

#[derive(Debug, Serialize, Deserialize)]
pub enum Question {
    Facts,
    /// The content of the file at this path, which may have at most this many bytes.
    Read(String, u32),
    /// The files in a directory.
    Files(String),
}

#[derive(Debug, Serialize, Deserialize)]
pub enum Answer {
    Facts(Option<Facts>),
    /// In Base64.
    Content(Option<String>),
    Names(Vec<String>),
    /// Why the question has no answer.
    Error(String),
}

/// The label and the publisher in a file system.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    pub label: String,
    /// The publisher of an ISO, may be empty; `None` for FAT.
    pub publisher: Option<String>,
}

impl Facts {
    fn of<R: io::Read + io::Seek>(medium: &Medium<R>) -> Self {
        Self {
            label: medium.label().to_owned(),
            publisher: medium.publisher().map(str::to_owned),
        }
    }

    fn is_plausible(&self) -> bool {
        let facts = [Some(&self.label), self.publisher.as_ref()];
        { facts.into_iter().flatten() }.all(|fact| fact.chars().count() <= LONGEST_FACT)
    }
}

impl MediumParser {
    fn facts(&mut self) -> Result<Option<Facts>, String> {
        if let Some(mut input) = self.input.take() {
            input.seek(SeekFrom::Start(0)).map_err(text)?;
            self.medium = Medium::open(input).map_err(text)?;
        }
        Ok(self.medium.as_ref().map(Facts::of))
    }

    fn medium(&mut self) -> Result<&mut Medium<Input>, String> {
        self.facts()?;
        self.medium
            .as_mut()
            .ok_or_else(|| "no file system".to_owned())
    }

    fn read(&mut self, path: &str, limit: u32) -> Result<Option<String>, String> {
        let content = self.medium()?.read(path, limit).map_err(text)?;
        Ok(content.map(|bytes| BASE64_STANDARD.encode(bytes)))
    }
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

impl Parser for MediumParser {
    const NAME: &'static str = "medium";
    const IS_NEEDED: bool = true;
    /// Longer than the kernel tries to read from a drive that does not answer: six times
    /// 30 s (`SD_TIMEOUT` and `SD_MAX_RETRIES` of Linux' drivers/scsi/sd.h). So the agent
    /// never ends the child while the kernel still retries a slow medium.
    const LIMIT: Duration = Duration::from_secs(300);
    /// Longer than the agent waits for media in total (`LONGEST` in `media_wait.rs`).
    const TOTAL: Duration = Duration::from_secs(1800);
    /// In bytes: enough for a file of 1 MiB, or for the longest list of names.
    const LARGEST_ANSWER: usize = 4 << 20;
    type Question = Question;
    type Answer = Answer;

    fn new(input: Input) -> Self {
        Self {
            input: Some(input),
            medium: None,
        }
    }

    fn answer(&mut self, question: Question) -> Answer {
        let answer = match question {
            Question::Facts => self.facts().map(Answer::Facts),
            Question::Read(path, limit) => self.read(&path, limit).map(Answer::Content),
            Question::Files(directory) => self
                .medium()
                .and_then(|medium| medium.files(&directory).map_err(text))
                .map(Answer::Names),
        };
        answer.unwrap_or_else(Answer::Error)
    }
}

/// An opened medium with a file system.
#[derive(Debug)]
pub struct ConfinedMedium {
    session: Session<MediumParser>,
    pub facts: Facts,
}

/// Why a medium or a part of it cannot be read. The text is for the operator.
#[derive(Debug, thiserror::Error)]
pub enum MediumError {
    /// The drive or the file system has a fault, in the words of the parser.
    #[error("{0}")]
    Unreadable(String),
    /// The parser of the medium has failed, so the medium may still contain a file system
    /// that the agent needs.
    #[error(transparent)]
    Parser(#[from] Fault),
}

impl ConfinedMedium {
    /// Detects the file system; `None` if it is neither ISO 9660 nor FAT. Calls
    /// `on_progress` after each read of a part of the medium, also in later calls of this
    /// type's methods.
    ///
    /// # Errors
    /// If the medium cannot be read, or if its parser fails.
    pub fn open(
        image: File,
        on_progress: impl FnMut() + Send + 'static,
    ) -> Result<Option<Self>, MediumError> {
        let session = Session::start(image)?;
        Self::of(session.on_progress(on_progress))
    }

    /// Like [`Self::open`], for a session that has already been started with the medium.
    ///
    /// # Errors
    /// See [`Self::open`].
    pub fn of(mut session: Session<MediumParser>) -> Result<Option<Self>, MediumError> {
        match session.ask(Question::Facts)? {
            Answer::Facts(Some(facts)) if facts.is_plausible() => Ok(Some(Self { session, facts })),
            Answer::Facts(None) => Ok(None),
            Answer::Error(error) => Err(MediumError::Unreadable(plain_text(&error))),
            _ => Err(wrong("its label")),
        }
    }

    /// Reads a whole file. The letter case of the path is ignored; `None` if there is no
    /// such file.
    ///
    /// # Errors
    /// If the file has more than `limit` bytes or cannot be read, or if the parser fails.
    pub fn read(&mut self, path: &str, limit: u32) -> Result<Option<Vec<u8>>, MediumError> {
        let question = Question::Read(path.to_owned(), limit);
        match self.session.ask(question)? {
            Answer::Content(None) => Ok(None),
            Answer::Content(Some(content)) => BASE64_STANDARD
                .decode(content)
                .ok()
                .filter(|bytes| u32::try_from(bytes.len()).is_ok_and(|length| length <= limit))
                .map(Some)
                .ok_or_else(|| wrong("the content of a file")),
            Answer::Error(error) => Err(MediumError::Unreadable(plain_text(&error))),
            _ => Err(wrong("the content of a file")),
        }
    }

    /// The names of the files in a directory; empty if there is no such directory. A name
    /// may contain any characters.
    ///
    /// # Errors
    /// If the directory cannot be read, or if the parser fails.
    pub fn files(&mut self, directory: &str) -> Result<Vec<String>, MediumError> {
        let question = Question::Files(directory.to_owned());
        match self.session.ask(question)? {
            Answer::Names(names) => Ok(names),
            Answer::Error(error) => Err(MediumError::Unreadable(plain_text(&error))),
            _ => Err(wrong("names of files")),
        }
    }
}

fn wrong(expected: &str) -> MediumError {
    Fault::Answer(format!("expected {expected}, found another")).into()
}
