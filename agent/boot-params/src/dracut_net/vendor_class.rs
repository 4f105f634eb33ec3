//! Parses `rd.net.dhcp.vendor-class=`.

/// A DHCP option holds at most this many bytes.
const LONGEST: usize = 255;

/// A vendor class identifier. Its text has NetworkManager's escapes: `a\040b` is
/// sent as `a b`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VendorClass {
    text: String,
    bytes: Vec<u8>,
}

/// Why a DHCP option cannot carry a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidVendorClass {
    #[error("expected 1 to {LONGEST} bytes, found {0}")]
    Length(usize),
    #[error("expected a text without a NUL byte, found one")]
    Nul,
}

impl VendorClass {
    /// Parses the value of the argument.
    ///
    /// # Errors
    /// If the value is empty, longer than 255 bytes, or contains a NUL byte.
    pub fn parse(text: &str) -> Result<VendorClass, InvalidVendorClass> {
        let bytes = unescaped(text.as_bytes());
        if !(1..=LONGEST).contains(&bytes.len()) {
            return Err(InvalidVendorClass::Length(bytes.len()));
        }
        if bytes.contains(&0) {
            return Err(InvalidVendorClass::Nul);
        }
        Ok(VendorClass {
            text: text.to_owned(),
            bytes,
        })
    }

    /// The text as written, escapes included.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The bytes that a DHCP client sends.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Replaces backslash escapes as NetworkManager does. One to three digits are an octal
/// number, of which only the low eight bits are used. Some letters stand for control
/// characters. Any other character stands for itself. A backslash at the end is dropped.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.iter().copied().peekable();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let Some(escape) = rest.next() else { break };
        bytes.push(match escape {
            b'0'..=b'9' => {
                let mut number = u32::from(escape - b'0');
                for _ in 0..2 {
                    match rest.next_if(|byte| matches!(byte, b'0'..=b'7')) {
                        Some(digit) => number = number * 8 + u32::from(digit - b'0'),
                        None => break,
                    }
                }
                (number & 0xff) as u8
            }
            b'b' => 0x08,
            b't' => b'\t',
            b'n' => b'\n',
            b'v' => 0x0b,
            b'f' => 0x0c,
            b'r' => b'\r',
            other => other,
        });
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_networkmanagers() {
        for (text, bytes) in [
            ("lab", Some(&b"lab"[..])),
            (r"a\040b", Some(b"a b")),
            (r"a\40b\1", Some(b"a b\x01")),
            (r"\101\0601", Some(b"A01")),
            (r"\777\9", Some(b"\xff\x09")),
            (r"a\\b\q", Some(b"a\\bq")),
            (r"a\n\t", Some(b"a\n\t")),
            ("a\\", Some(b"a")),
            (r"a\000b", None),
            (r"\0", None),
            (r"\400", None),
            ("", None),
            ("\\", None),
        ] {
            let found = VendorClass::parse(text).ok();
            assert_eq!(found.as_ref().map(VendorClass::bytes), bytes, "{text}");
            assert!(found.is_none_or(|class| class.text() == text));
        }
        assert!(VendorClass::parse(&"x".repeat(255)).is_ok());
        assert!(VendorClass::parse(&"x".repeat(256)).is_err());
        assert!(VendorClass::parse(&r"\101".repeat(255)).is_ok());
    }
}
