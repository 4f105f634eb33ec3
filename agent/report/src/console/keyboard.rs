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
/// A terminal sends the bytes of one key together. At 9600 baud a byte takes 1 ms.
const SEQUENCE_MILLISECONDS: u16 = 50;

/// Calls `each` for every key, until the console disappears or `each` returns false.
/// Returns at once if the device is no terminal.
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
    let mut decoder = Decoder::default();
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
    // After an error the next read reports it.
    poll(&mut files, PollTimeout::from(SEQUENCE_MILLISECONDS)).is_ok_and(|ready| ready > 0)
}

/// Turns the bytes of a terminal into keys (console_codes(4), ECMA-48).
#[derive(Default)]
enum Decoder {
    #[default]
    Start,
    /// After a carriage return. A line feed behind it belongs to the same key.
    CarriageReturn,
    /// After the escape character.
    Escape,
    /// After `ESC [` or `ESC O`, with parameters.
    Sequence,
    /// After `ESC [ [`, which begins a function key of the Linux console.
    Function,
}

impl Decoder {
    fn is_incomplete(&self) -> bool {
        !matches!(self, Self::Start | Self::CarriageReturn)
    }

    /// No more bytes come soon: an escape character alone is a key.
    fn end(&mut self) -> Vec<Key> {
        match std::mem::take(self) {
            Self::Escape => vec![Key::Escape],
            Self::Start | Self::CarriageReturn | Self::Sequence | Self::Function => Vec::new(),
        }
    }

    fn next(&mut self, byte: u8) -> Option<Key> {
        match std::mem::take(self) {
            Self::CarriageReturn if byte == b'\n' => None,
            Self::Start | Self::CarriageReturn => match byte {
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
                0x15 => Some(Key::Clear),
                b' '..=b'~' => Some(Key::Char(byte.into())),
                _ => None,
            },
            Self::Escape => match byte {
                b'[' | b'O' => {
                    *self = Self::Sequence;
                    None
                }
                ESCAPE => {
                    *self = Self::Escape;
                    Some(Key::Escape)
                }
                // A key together with Alt.
                _ => None,
            },
            Self::Sequence => match byte {
                b'[' => {
                    *self = Self::Function;
                    None
                }
                b'0'..=b'?' => {
                    *self = Self::Sequence;
                    None
                }
                b'A' | b'Z' => Some(Key::Up),
                b'B' => Some(Key::Down),
                b'C' => Some(Key::Right),
                b'D' => Some(Key::Left),
                _ => None,
            },
            Self::Function => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(bytes: &[u8]) -> Vec<Key> {
        let mut decoder = Decoder::default();
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
            (b"\x1bOA\x1b[Z", &[Up, Up]),
            (b"\x1b", &[Escape]),
            (b"\x1b\x1b", &[Escape, Escape]),
            (b"\x1b[[A\x1b[15~\x1b[1;5Cx", &[Right, Char('x')]),
            (b"\x00\xff\xc3\xa9", &[]),
        ];
        for (bytes, expected) in table {
            assert_eq!(keys(bytes), *expected, "{bytes:?}");
        }
    }
}
