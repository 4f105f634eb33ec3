//! CHAP as iSCSI has it (RFC 7143, 12.1.3; RFC 1994).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use landfall_boot_params::argument_value::Secret;
use md5::Md5;
use sha1::Sha1;
use sha2::Sha256;
use sha2::digest::Digest;

/// The maximum length in bytes of a decoded value (RFC 7143, 12.1.3).
const LONGEST: usize = 1024;

/// The digest algorithms of CHAP, which IANA has numbered ("PPP Authentication
/// Algorithms").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Md5,
    Sha1,
    Sha256,
}

/// The algorithms in the order of our preference, for `CHAP_A`. MD5 comes first,
/// because it is the only algorithm that every target supports (RFC 7143, 12.1.3), and
/// open-iscsi offers only MD5 by default. In tgt and iscsitarget the number 7 means
/// SHA1, so the login to them fails if 7 comes first. A target without MD5 chooses one
/// of the other algorithms.
pub(crate) const OFFER: &str = "5,7,6";

impl Algorithm {
    /// The target's choice from [`OFFER`].
    pub(crate) fn chosen(text: &str) -> Option<Self> {
        match text {
            "5" => Some(Self::Md5),
            "6" => Some(Self::Sha1),
            "7" => Some(Self::Sha256),
            _ => None,
        }
    }

    pub(crate) fn response(self, identifier: u8, secret: &Secret, challenge: &[u8]) -> Vec<u8> {
        fn digest<D: Digest>(parts: [&[u8]; 3]) -> Vec<u8> {
            let mut digest = D::new();
            for part in parts {
                digest.update(part);
            }
            digest.finalize().to_vec()
        }
        let parts = [&[identifier], secret.0.as_bytes(), challenge];
        match self {
            Self::Md5 => digest::<Md5>(parts),
            Self::Sha1 => digest::<Sha1>(parts),
            Self::Sha256 => digest::<Sha256>(parts),
        }
    }
}

/// Formats a binary value in the hexadecimal notation.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
    std::iter::once("0x".to_owned()).chain(digits).collect()
}

/// Parses a binary value in the hexadecimal or the base64 notation (RFC 7143, 6.1).
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    if text.len() > 2 * LONGEST + 2 || !text.is_ascii() {
        return None;
    }
    let bytes = match text.get(..2)? {
        "0x" | "0X" => {
            let digits = &text[2..];
            if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return None;
            }
            // An odd number of digits lacks the leading zero.
            let digits = match digits.len() % 2 {
                0 => digits.to_owned(),
                _ => format!("0{digits}"),
            };
            let pair = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
            (0..digits.len())
                .step_by(2)
                .map(pair)
                .collect::<Option<_>>()?
        }
        "0b" | "0B" => BASE64_STANDARD.decode(&text[2..]).ok()?,
        _ => return None,
    };
    (!Vec::is_empty(&bytes) && bytes.len() <= LONGEST).then_some(bytes)
}

/// A challenge of 32 bytes, with 244 random bits.
pub(crate) fn challenge() -> [u8; 32] {
    let mut bytes = [0; 32];
    for half in bytes.chunks_mut(16) {
        // A version 4 UUID has 122 random bits from getrandom(2).
        half.copy_from_slice(uuid::Uuid::new_v4().as_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_those_of_other_programs() {
        // printf '\x26secretsecret\x01\x02' | md5sum, sha1sum, sha256sum
        let secret = Secret("secretsecret".to_owned());
        for (choice, expected) in [("5", MD5), ("6", SHA1), ("7", SHA256)] {
            let algorithm = Algorithm::chosen(choice).unwrap();
            let response = algorithm.response(0x26, &secret, &[1, 2]);
            assert_eq!(encode(&response), format!("0x{expected}"), "{choice}");
        }
        assert_eq!(Algorithm::chosen("8"), None);
    }

    #[test]
    fn both_notations_are_read() {
        assert_eq!(decode("0x0102ff"), Some(vec![1, 2, 255]));
        assert_eq!(decode("0x102"), Some(vec![1, 2]));
        assert_eq!(decode("0bAQL/"), Some(vec![1, 2, 255]));
        for text in [
            "",
            "0x",
            "0b",
            "12",
            "0xg0",
            "0b!",
            "0x+1",
            &format!("0x{}", "00".repeat(1025)),
        ] {
            assert_eq!(decode(text), None, "{text}");
        }
        assert_eq!(decode(&encode(&challenge())).unwrap().len(), 32);
    }

    const MD5: &str = "820f2f37783f376e0f03e85209ecae8d";
    const SHA1: &str = "5bb0fe367d72c73616939c17b50e6863dca41661";
    const SHA256: &str = "ae351c73ec473264c441395439e6333b3fd75a76bda822b2d9657b5d7d860d03";
}
