//! Finds what our programs print in a transcript that no test can run.

use crate::commands::{PROGRAMS, is_ours, prompted};
use crate::programs_texts::after_time;

/// A line with fewer words than this is a label with its values. The source composes
/// such a line of parts that are too short to look up.
const FEWEST_WORDS: usize = 3;

/// The lines whose text must be in the source of our programs: sentences below one of their
/// commands; console lines and errors below any command. Other programs print the rest.
pub fn sentences(transcript: &str) -> Vec<String> {
    let transcript = transcript.replace("\\\n", " ");
    let mut is_below_ours = false;
    let mut found = Vec::new();
    for line in transcript.lines() {
        if let Some(command) = prompted(line) {
            is_below_ours = is_ours(command);
        } else if is_message(line) || is_below_ours && is_sentence(line) {
            found.push(line.trim().to_owned());
        }
    }
    found
}

fn is_message(line: &str) -> bool {
    let mut heads = PROGRAMS.iter().map(|program| format!("{program}: FAILED "));
    after_time(line).is_some()
        || line.starts_with("FAILED ")
        || heads.any(|head| line.starts_with(&head))
}

fn is_sentence(line: &str) -> bool {
    let words = line
        .split_whitespace()
        .map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()))
        .filter(|word| !word.is_empty() && word.bytes().all(|c| c.is_ascii_lowercase()));
    words.count() >= FEWEST_WORDS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sentences_of_our_programs_are_looked_up() {
        let transcript = "a line without a command\n\
            [    2.313] disk: one\n\
            $ landfall-image a \\\n  b\n\
            a.iso: iso, 27.9 MB\n\
              sha256   68113236d2ef\n\
              ramdisk  101.4 MB unpacked, packing zstd\n\
            ...\n\
            [  0.5s] two\n\
            # curl a\n\
            a line of another program\n\
            FAILED three\n\
            landfall-agent: FAILED four\n";
        assert_eq!(
            sentences(transcript),
            [
                "[    2.313] disk: one",
                "ramdisk  101.4 MB unpacked, packing zstd",
                "[  0.5s] two",
                "FAILED three",
                "landfall-agent: FAILED four",
            ]
        );
    }
}
