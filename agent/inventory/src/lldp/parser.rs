//! Parses frames in a child process, because anybody at the other end of a cable can send
//! them.

use std::fs::File;
use std::io;
use std::time::Duration;

use landfall_parser_child::{Fault, Input, Parser, Session};
use serde::{Deserialize, Serialize};
use tokio::task::{JoinError, spawn_blocking};

use super::tlv::{self, Tlv};

/// The shortest time between two frames of one interface that the agent parses, so that a
/// neighbour that sends many frames cannot keep the host busy. The kernel drops frames
/// that do not fit into the socket's buffer.
pub(super) const PAUSE: Duration = Duration::from_millis(100);

/// The parser of LLDP frames.
#[derive(Debug)]
pub struct LldpParser;

/// The parsed content of a frame.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    pub elements: Vec<Tlv>,
    /// See [`tlv::switch_in_words`].
    pub switch: Option<String>,
}

impl Parser for LldpParser {
    const NAME: &'static str = "lldp";
    /// The installation does not need LLDP, and the next frame may be parsed again.
    const IS_NEEDED: bool = false;
    const LIMIT: Duration = Duration::from_secs(5);
    const TOTAL: Duration = Self::LIMIT;
    const LARGEST_ANSWER: usize = 64 << 10;
    /// A frame without its Ethernet header.
    type Question = Vec<u8>;
    type Answer = Frame;

    fn new(_: Input) -> Self {
        Self
    }

    fn answer(&mut self, frame: Vec<u8>) -> Frame {
        let elements = tlv::parse(&frame);
        let switch = tlv::switch_in_words(&elements);
        Frame { elements, switch }
    }
}

/// Why a frame could not be parsed.
#[derive(Debug, thiserror::Error)]
pub(super) enum FrameError {
    #[error(transparent)]
    Parser(#[from] Fault),
    /// The parser has no input file.
    #[error(transparent)]
    Input(#[from] io::Error),
    /// The thread that waits for the parser has ended.
    #[error(transparent)]
    Thread(#[from] JoinError),
}

/// Parses a frame in a child process.
pub(super) async fn parse(frame: &[u8]) -> Result<Frame, FrameError> {
    let frame = frame.to_owned();
    spawn_blocking(move || in_child(frame)).await?
}

/// Starts one child process for each frame. If a frame takes over its child, it can
/// neither read nor change other frames.
fn in_child(frame: Vec<u8>) -> Result<Frame, FrameError> {
    let session = Session::start(File::open("/dev/null")?)?;
    Ok(Frame::of(session, frame)?)
}

impl Frame {
    /// Asks the parser of this session to parse a frame.
    ///
    /// # Errors
    /// If the session returns no answer, or an answer that cannot result from a frame of
    /// this length.
    pub fn of(mut session: Session<LldpParser>, frame: Vec<u8>) -> Result<Self, Fault> {
        let length = frame.len();
        let frame = session.ask(frame)?;
        if !frame.is_plausible(length) {
            let wrong = "expected elements of this frame".to_owned();
            return Err(Fault::Answer(wrong));
        }
        Ok(frame)
    }

    /// Whether this content can result from a frame of this length.
    fn is_plausible(&self, length: usize) -> bool {
        let elements = || self.elements.iter();
        let bytes: usize = elements().map(|(_, digits)| 2 + digits.len() / 2).sum();
        let is_digit = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
        bytes <= length
            && elements()
                .all(|(_, digits)| digits.len().is_multiple_of(2) && digits.bytes().all(is_digit))
            && { self.switch.as_ref() }.is_none_or(|words| {
                words.chars().count() <= tlv::LONGEST_SWITCH && !words.chars().any(char::is_control)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_elements_of_a_frame_are_plausible() {
        let element = |digits: &str| (1, digits.to_owned());
        for (elements, is_right) in [
            (vec![], true),
            (vec![element("0aff"), element("")], true),
            (vec![element("0aff00")], true),
            (vec![element("0aff00"), element("")], false),
            (vec![element("0af")], false),
            (vec![element("0AFF")], false),
            (vec![element("\u{1b}[")], false),
        ] {
            let switch = None;
            let frame = Frame { elements, switch };
            assert_eq!(frame.is_plausible(6), is_right, "{frame:?}");
        }
    }

    #[test]
    fn the_longest_description_of_a_switch_is_plausible() {
        let element = |kind, bytes: &str| (kind, bytes.repeat(100));
        let elements = vec![element(1, "40"), element(2, "05"), element(5, "40")];
        let frame = Frame {
            switch: tlv::switch_in_words(&elements),
            elements,
        };
        assert!(
            frame.switch.is_some() && frame.is_plausible(1600),
            "{frame:?}"
        );
        for switch in ["a".repeat(tlv::LONGEST_SWITCH + 1), "\u{1b}[2J".to_owned()] {
            let elements = frame.elements.clone();
            let switch = Some(switch);
            assert!(!Frame { elements, switch }.is_plausible(1600));
        }
    }
}
