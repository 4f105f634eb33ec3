//! A fuzz function for the answers of a parser in a child process. The parsed data may
//! have taken over the child.

use std::io::Write as _;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use landfall_boot_params::CommandLine;
use landfall_inventory::lldp::Frame;
use landfall_parser_child::{Parser, Session};
use landfall_settings::media::{ConfinedMedium, Media};
use landfall_settings::{ConfigFiles, ConfigParser, IgnitionParts, Settings};

use crate::hardware::check_frame;
use crate::settings::read_parts;

/// In bytes: less than the buffer of a socket, so that one thread can be both ends of
/// the connection.
const MOST: usize = 64 << 10;
/// The largest file that the agent wants, in bytes.
const LARGEST_FILE: u32 = 64;

/// The first byte chooses the parser. The rest is everything that the parser's child
/// sends, whatever the agent requests.
pub fn parser_answer(data: &[u8]) {
    let Some((choice, data)) = data.split_first() else {
        return;
    };
    let Ok((agent, mut child)) = UnixStream::pair() else {
        return;
    };
    let sent = child.write_all(&data[..data.len().min(MOST)]);
    assert!(sent.is_ok() && child.shutdown(Shutdown::Write).is_ok());
    match choice % 3 {
        0 => medium(agent),
        1 => config(agent),
        _ => frame(agent),
    }
}

fn session<P: Parser>(agent: UnixStream) -> Option<Session<P>> {
    let session = Session::of_peer(agent);
    session.map_err(|fault| check_text(&fault.to_string())).ok()
}

fn medium(agent: UnixStream) {
    let Some(session) = session(agent) else {
        return;
    };
    let mut medium = match ConfinedMedium::of(session) {
        Ok(Some(medium)) => medium,
        Ok(None) => return,
        Err(error) => return check_text(&error.to_string()),
    };
    for fact in [Some(&medium.facts.label), medium.facts.publisher.as_ref()] {
        assert!(fact.is_none_or(|fact| fact.chars().count() <= 512));
    }
    match medium.files("etc/ironic-python-agent.d") {
        Ok(names) => assert!(names.iter().map(String::len).sum::<usize>() <= MOST),
        Err(error) => check_text(&error.to_string()),
    }
    match medium.read("parameters.txt", LARGEST_FILE) {
        Ok(content) => assert!(content.is_none_or(|c| c.len() <= LARGEST_FILE as usize)),
        Err(error) => check_text(&error.to_string()),
    }
}

fn config(agent: UnixStream) {
    let Some(session) = session(agent) else {
        return;
    };
    let config = match ConfigParser::config(session) {
        Ok(config) => config,
        Err(error) => return check_text(&error.to_string()),
    };
    read_parts(&config);
    let parts = IgnitionParts {
        config: Some(config),
        ..IgnitionParts::default()
    };
    let line = CommandLine::parse("");
    let _ = Settings::from_sources(line, Media::default(), ConfigFiles::default(), parts);
}

fn frame(agent: UnixStream) {
    let Some(session) = session(agent) else {
        return;
    };
    let frame = vec![0; 200];
    match Frame::of(session, frame.clone()) {
        Ok(parsed) => check_frame(&parsed, &frame),
        Err(error) => check_text(&error.to_string()),
    }
}

/// Checks the text of an error, which the log and the console repeat.
fn check_text(text: &str) {
    assert!(!text.contains(char::is_control), "{text:?}");
    assert!(text.chars().count() <= 600, "{text}");
}
