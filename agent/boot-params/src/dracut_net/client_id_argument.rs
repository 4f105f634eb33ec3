//! Parses `rd.net.dhcp.client-id=`.

use super::device::DeviceSpec;
use super::words::Words;
use crate::cmdline::Token;

/// A DHCP option holds 255 bytes. The type byte of the identifier is one of them.
const LONGEST: usize = 255;

/// `rd.net.dhcp.client-id=INTERFACE:ID`, with bytes (`00-01-02`) or a text
/// (`@name`) as identifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientIdArgument {
    /// The argument as written on the command line.
    pub text: String,
    pub device: DeviceSpec,
    /// The identifier; its first byte is the type.
    pub id: Vec<u8>,
}

impl ClientIdArgument {
    pub(super) fn parse(token: &Token, warnings: &mut Vec<String>) -> Option<ClientIdArgument> {
        let mut words = Words::new(token.value_or_empty());
        let device = words.next(':');
        let id = match words.rest().strip_prefix('@') {
            Some(text) => Some([&[0], text.as_bytes()].concat()),
            None => bytes(words.rest()),
        };
        let id = id.filter(|id| (2..=LONGEST).contains(&id.len()));
        let (Some(id), false) = (id, device.is_empty()) else {
            warnings.push(token.ignored(format_args!(
                "expected INTERFACE:ID, with 2 to {LONGEST} hexadecimal bytes joined by '-', \
                 or '@' and a text"
            )));
            return None;
        };
        Some(ClientIdArgument {
            text: token.text.clone(),
            device: DeviceSpec::parse_reporting(device, token, warnings)?,
            id,
        })
    }
}

/// Parses hexadecimal bytes: `0a-b-0c` or `0a0b0c`.
fn bytes(text: &str) -> Option<Vec<u8>> {
    let byte = |word: &str| {
        let is_hex = word.bytes().all(|c| c.is_ascii_hexdigit());
        let byte = u8::from_str_radix(word, 16).ok()?;
        (is_hex && word.len() <= 2).then_some(byte)
    };
    if text.contains('-') {
        return text.split('-').map(byte).collect();
    }
    if !text.is_ascii() || !text.len().is_multiple_of(2) {
        return None;
    }
    let pairs = (0..text.len()).step_by(2).map(|at| &text[at..at + 2]);
    pairs.map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_with_and_without_hyphens() {
        for (text, expected) in [
            ("00-01-fF", Some(vec![0, 1, 255])),
            ("0001ff", Some(vec![0, 1, 255])),
            ("1-2-3", Some(vec![1, 2, 3])),
            ("", Some(vec![])),
            ("123", None),
            ("01-", None),
            ("01:02", None),
            ("+1-02", None),
            ("\u{e4}\u{e4}", None),
        ] {
            assert_eq!(bytes(text), expected, "{text:?}");
        }
    }
}
