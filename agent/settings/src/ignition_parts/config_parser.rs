//! Parses `/config.ign` in a child process, because somebody else may have written the
//! file.

use std::fs::File;
use std::io::Read as _;
use std::time::Duration;

use landfall_ignition_config::{ConfigIgn, LARGEST};
use landfall_parser_child::{Fault, Input, Parser, Session, plain_text};

use super::UnusableConfig;

/// The parser of `/config.ign`.
#[derive(Debug)]
pub struct ConfigParser {
    input: Input,
}

impl ConfigParser {
    /// The config that the parser of this session has read.
    ///
    /// # Errors
    /// If the parser has found no valid config, or has failed.
    pub fn config(mut session: Session<Self>) -> Result<ConfigIgn, UnusableConfig> {
        let answer = session.ask(())?;
        let config = answer.map_err(|error| UnusableConfig::Content(plain_text(&error)))?;
        if !config.is_plausible() {
            let wrong = "expected only files that the agent uses".to_owned();
            return Err(Fault::Answer(wrong).into());
        }
        Ok(config)
    }

    fn read(&mut self) -> Result<ConfigIgn, String> {
        let mut bytes = Vec::new();
        // Read one byte beyond the limit, so that a file that is too long is noticed.
        let mut input = (&mut self.input).take(LARGEST as u64 + 1);
        let read = input.read_to_end(&mut bytes);
        read.map_err(|error| format!("cannot read it: {error}"))?;
        ConfigIgn::read(&bytes).map_err(|error| error.to_string())
    }
}

impl Parser for ConfigParser {
    const NAME: &'static str = "config.ign";
    const IS_NEEDED: bool = true;
    /// The largest config takes less than a second.
    const LIMIT: Duration = Duration::from_secs(60);
    const TOTAL: Duration = Self::LIMIT;
    /// In bytes. The files inside a config have at most 16 MiB together, and a third more
    /// as Base64.
    const LARGEST_ANSWER: usize = 32 << 20;
    type Question = ();
    // The error is a text: an enum would have no advantage, because the agent does not
    // trust any answer of a child.
    type Answer = Result<ConfigIgn, String>;

    fn new(input: Input) -> Self {
        Self { input }
    }

    fn answer(&mut self, (): ()) -> Self::Answer {
        self.read()
    }
}

/// Reads a config.
///
/// # Errors
/// If the file is not an Ignition config, or if the parser has failed.
pub(super) fn read(input: File) -> Result<ConfigIgn, UnusableConfig> {
    ConfigParser::config(Session::start(input)?)
}
