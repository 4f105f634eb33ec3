//! Splits the output of the serial console into clean lines.
//!
//! Firmware and GRUB draw with terminal sequences. So a line ends at a line feed,
//! or where the cursor moves elsewhere.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};

use crate::journal::{Journal, Source};

/// In bytes: longer lines are split, so that a guest in a loop does not exhaust
/// memory.
const MAX_LINE: usize = 8 * 1024;

/// After this silence an unfinished line is recorded too: SeaBIOS stops in the
/// middle of a line if there is nothing to boot.
const IDLE: Duration = Duration::from_millis(400);

/// Records every line in the journal until the guest ends.
pub async fn record(serial: impl AsyncRead + Unpin, journal: Journal) {
    record_as(Source::Console, serial, journal).await;
}

/// Like [`record`], for any machine of a lab.
pub(super) async fn record_as(
    source: Source,
    mut serial: impl AsyncRead + Unpin,
    journal: Journal,
) {
    let mut lines = LineSplitter::default();
    let mut began = journal.now();
    let mut buffer = [0u8; 4096];
    loop {
        let count = match tokio::time::timeout(IDLE, serial.read(&mut buffer)).await {
            Ok(Ok(count)) => count,
            Ok(Err(_)) => 0,
            Err(_) => {
                if let Some(text) = lines.unfinished() {
                    journal.record_at(began, source, text);
                }
                continue;
            }
        };
        let now = journal.now();
        if count == 0 {
            if let Some(text) = lines.unfinished() {
                journal.record_at(began, source, text);
            }
            return;
        }
        for &byte in &buffer[..count] {
            if lines.is_empty() {
                began = now;
            }
            if let Some(text) = lines.push(byte) {
                journal.record_at(began, source, text);
            }
        }
    }
}

#[derive(Default)]
enum Sequence {
    #[default]
    None,
    /// The previous byte was ESC.
    Escape,
    /// The bytes after ESC `[`, up to the final letter.
    Control,
}

/// Takes bytes and returns lines without control characters.
#[derive(Default)]
struct LineSplitter {
    line: Vec<u8>,
    sequence: Sequence,
    shown: usize,
}

impl LineSplitter {
    fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    /// The current line, if it has grown since it was last returned.
    fn unfinished(&mut self) -> Option<String> {
        if self.line.len() == self.shown {
            return None;
        }
        self.shown = self.line.len();
        Some(String::from_utf8_lossy(&self.line).into_owned())
    }

    fn push(&mut self, byte: u8) -> Option<String> {
        match (&self.sequence, byte) {
            (_, 0x1b) => self.sequence = Sequence::Escape,
            (Sequence::Escape, b'[') => self.sequence = Sequence::Control,
            (Sequence::Escape, _) => self.sequence = Sequence::None,
            (Sequence::Control, b'@'..=b'~') => {
                self.sequence = Sequence::None;
                // These control sequences move the cursor or clear the screen.
                if matches!(byte, b'H' | b'J' | b'f') {
                    return self.finish();
                }
            }
            (Sequence::Control, _) => {}
            (Sequence::None, b'\n') => return self.finish(),
            (Sequence::None, 0..0x20 | 0x7f) if byte != b'\t' => {}
            (Sequence::None, _) => {
                self.line.push(byte);
                if self.line.len() == MAX_LINE {
                    return self.finish();
                }
            }
        }
        None
    }

    fn finish(&mut self) -> Option<String> {
        let line = std::mem::take(&mut self.line);
        let shown = std::mem::take(&mut self.shown);
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end();
        // Drop a line that was already shown in full, is blank, or is a frame of
        // GRUB's menu.
        (shown < line.len() && text.chars().any(is_text)).then(|| text.to_owned())
    }
}

/// False for blanks, frame characters (from U+2500, or `+-|`) and parts of a cut
/// character.
fn is_text(character: char) -> bool {
    !character.is_whitespace()
        && !matches!(
            character,
            '\u{2500}'..='\u{257f}' | '\u{fffd}' | '+' | '-' | '|'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(bytes: &[u8]) -> Vec<String> {
        let mut splitter = LineSplitter::default();
        let mut lines: Vec<String> = bytes.iter().filter_map(|&b| splitter.push(b)).collect();
        lines.extend(splitter.unfinished());
        lines
    }

    #[test]
    fn terminal_sequences_are_no_text() {
        let table: &[(&[u8], &[&str])] = &[
            (b"one\r\ntwo\r\n", &["one", "two"]),
            (
                b"\x1bc\x1b[?7l\x1b[2J\x1b[0mSeaBIOS\r\nrest",
                &["SeaBIOS", "rest"],
            ),
            (
                b"GRUB\x1b[2J\x1b[01;01HBdsDxe: x\r\n",
                &["GRUB", "BdsDxe: x"],
            ),
            (b"\r\n \r\n", &[]),
            ("|  \n+--+\n\u{2502}   \n".as_bytes(), &[]),
        ];
        for (bytes, want) in table {
            assert_eq!(split(bytes), *want, "{}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn an_endless_line_is_cut() {
        let lines = split(&vec![b'x'; MAX_LINE + 10]);
        assert_eq!(
            lines.iter().map(String::len).collect::<Vec<_>>(),
            [MAX_LINE, 10]
        );
    }

    #[test]
    fn a_line_shown_unfinished_is_not_repeated_but_its_growth_is() {
        let mut splitter = LineSplitter::default();
        for &byte in b"No bootable" {
            assert_eq!(splitter.push(byte), None);
        }
        assert_eq!(splitter.unfinished().as_deref(), Some("No bootable"));
        assert_eq!(splitter.unfinished(), None);
        assert_eq!(splitter.push(b'\n'), None);
        for &byte in b"half" {
            splitter.push(byte);
        }
        assert_eq!(splitter.unfinished().as_deref(), Some("half"));
        splitter.push(b'!');
        assert_eq!(splitter.push(b'\n').as_deref(), Some("half!"));
    }
}
