//! Reads the keys of a console.

use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use landfall_sys::terminal_keys::read_single_keys;
use nix::libc::O_NOCTTY;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::form::Key;

const ESCAPE: u8 = 0x1b;
/// How long to wait for the next byte of a key. A terminal sends the bytes of one key
/// together, but a BMC's serial-over-LAN may put them into two packets.
const SEQUENCE_MILLISECONDS: u16 = 300;

/// Calls `each` for every key, until the console disappears or `each` returns false.
/// Returns at once if the device cannot be opened or is no terminal.
pub(super) fn follow_keys(device: &Path, mut each: impl FnMut(Key) -> bool) {
    // The console must not become the controlling terminal of the agent.
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(O_NOCTTY)
        .open(device);
    let Ok(mut file) = opened else { return };
    if read_single_keys(&file).is_err() {
        return;
    }
    let mut decoder = KeyDecoder::default();
    let mut bytes = [0; 64];
    loop {
        let keys = if decoder.is_incomplete() && !has_more(&file) {
            decoder.end()
        } else {
            match file.read(&mut bytes) {
                Ok(0) | Err(_) => return,
                Ok(length) => bytes[..length]
                    .iter()
                    .filter_map(|byte| decoder.next(*byte))
                    .collect(),
            }
        };
        for key in keys {
            if !each(key) {
                return;
            }
        }
    }
}

fn has_more(file: &File) -> bool {
    let mut files = [PollFd::new(file.as_fd(), PollFlags::POLLIN)];
    // If poll(2) fails, the next read reports the error.
    poll(&mut files, PollTimeout::from(SEQUENCE_MILLISECONDS)).is_ok_and(|ready| ready > 0)
}

/// Turns the bytes of a terminal into keys (console_codes(4), ECMA-48).
#[derive(Debug, Default)]
pub enum KeyDecoder {
    #[default]
    Start,
    /// After a carriage return. A line feed that follows belongs to the same key.
    CarriageReturn,
    /// After the escape character.
    Escape,
    /// After `ESC [` or `ESC O`, with parameters.
    Sequence,
    /// After `ESC [ [`, which begins a function key of the Linux console.
    Function,
}

impl KeyDecoder {
    /// Whether the key is not known yet: it depends on the next byte, or on a pause.
    pub fn is_incomplete(&self) -> bool {
        !matches!(self, Self::Start | Self::CarriageReturn)
    }

    /// Ends a sequence when no further byte has arrived in time. An escape character
    /// without further bytes is the Escape key.
    pub fn end(&mut self) -> Vec<Key> {
        match std::mem::take(self) {
            Self::Escape => vec![Key::Escape],
            Self::Start | Self::CarriageReturn | Self::Sequence | Self::Function => Vec::new(),
        }
    }

    /// The key that this byte completes. `None` if the key is incomplete, or if the form
    /// does not use it.
    pub fn next(&mut self, byte: u8) -> Option<Key> {
        match (std::mem::take(self), byte) {
            (Self::CarriageReturn, b'\n') => None,
            (Self::Escape, ESCAPE) => {
                *self = Self::Escape;
                Some(Key::Escape)
            }
            (Self::Escape, b'[' | b'O') => {
                *self = Self::Sequence;
                None
            }
            // A control character within a sequence takes effect and ends the
            // sequence.
            (_, 0..=0x1f | 0x7f) => self.control(byte),
            // A key together with Alt.
            (Self::Escape, _) => None,
            (Self::Sequence, b'[') => {
                *self = Self::Function;
                None
            }
            (Self::Sequence, b' '..=b'?') => {
                *self = Self::Sequence;
                None
            }
            (Self::Sequence, b'A' | b'Z') => Some(Key::Up),
            (Self::Sequence, b'B') => Some(Key::Down),
            (Self::Sequence, b'C') => Some(Key::Right),
            (Self::Sequence, b'D') => Some(Key::Left),
            (Self::Sequence | Self::Function, _) => None,
            (Self::Start | Self::CarriageReturn, b' '..=b'~') => Some(Key::Char(byte.into())),
            // A byte of a character beyond ASCII. No value in the form contains such
            // characters.
            (Self::Start | Self::CarriageReturn, _) => None,
        }
    }

    fn control(&mut self, byte: u8) -> Option<Key> {
        match byte {
            ESCAPE => {
                *self = Self::Escape;
                None
            }
            b'\r' => {
                *self = Self::CarriageReturn;
                Some(Key::Enter)
            }
            b'\n' => Some(Key::Enter),
            b'\t' => Some(Key::Down),
            0x08 | 0x7f => Some(Key::Backspace),
            // Ctrl-U
            0x15 => Some(Key::Clear),
            // Ctrl-C, with which operators leave programs.
            0x03 => Some(Key::Escape),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keys(bytes: &[u8]) -> Vec<Key> {
        let mut decoder = KeyDecoder::default();
        let mut keys: Vec<Key> = bytes
            .iter()
            .filter_map(|byte| decoder.next(*byte))
            .collect();
        keys.extend(decoder.end());
        keys
    }

    #[test]
    fn bytes_of_terminals_become_keys() {
        use Key::{Backspace, Char, Clear, Down, Enter, Escape, Left, Right, Up};
        let table: &[(&[u8], &[Key])] = &[
            (b"\r\n\r\r\n", &[Enter, Enter, Enter]),
            (b"a/\r", &[Char('a'), Char('/'), Enter]),
            (
                b"\n\t\x7f\x08\x15",
                &[Enter, Down, Backspace, Backspace, Clear],
            ),
            (b"\x1b[A\x1b[B\x1b[C\x1b[D", &[Up, Down, Right, Left]),
            (
                b"\x1bOA\x1bOB\x1bOC\x1bOD\x1b[Z",
                &[Up, Down, Right, Left, Up],
            ),
            (b"\x03", &[Escape]),
            // Answers and marks of a terminal: its size, its name, pasted text.
            (b"\x1b[24;80R\x1b[?62;c\x1b[200~a\x1b[201~", &[Char('a')]),
            (b"\x1b[1 q\x1b[1$y", &[]),
            // A sequence that was cut off.
            (b"\x1b[1\x1b[A\x1b[\r", &[Up, Enter]),
            (b"\x1bx\x1b", &[Escape]),
            (b"\x1b", &[Escape]),
            (b"\x1b\x1b", &[Escape, Escape]),
            (b"\x1b[[A\x1b[15~\x1b[1;5Cx", &[Right, Char('x')]),
            (b"\x00\xff\xc3\xa9", &[]),
        ];
        for (bytes, expected) in table {
            assert_eq!(keys(bytes), *expected, "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_become_at_most_as_many_keys(bytes: Vec<u8>) {
            let keys = keys(&bytes);
            prop_assert!(keys.len() <= bytes.len());
            let is_typed = |key: &Key| match key {
                Key::Char(character) => matches!(character, ' '..='~'),
                _ => true,
            };
            prop_assert!(keys.iter().all(is_typed), "{keys:?}");
        }

        #[test]
        fn garbage_does_not_swallow_later_keys(bytes: Vec<u8>) {
            let mut decoder = KeyDecoder::default();
            for byte in bytes {
                decoder.next(byte);
            }
            // A pause ends every sequence.
            decoder.end();
            prop_assert_eq!(decoder.next(b'\r'), Some(Key::Enter));
            prop_assert_eq!(decoder.next(b'x'), Some(Key::Char('x')));
        }
    }
}
