//! Removes ASCII armor (RFC 9580, chapter 6), because some publishers provide
//! signatures as text.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::SignatureError;

const BEGIN: &str = "-----BEGIN PGP ";
const END: &str = "-----END PGP ";

/// Whether the file has armor.
pub(crate) fn is_armored(file: &[u8]) -> bool {
    from_first_line(file).is_some()
}

/// Returns the file from the first line of the armor on. Other programs also accept text
/// before the armor. If this function did not, an empty line before the armor would hide
/// the signature.
fn from_first_line(file: &[u8]) -> Option<&[u8]> {
    let mut at = 0;
    for line in file.split_inclusive(|byte| *byte == b'\n') {
        // The byte order mark of UTF-8.
        let text = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        if text.trim_ascii_start().starts_with(BEGIN.as_bytes()) {
            return file.get(at..);
        }
        at += line.len();
    }
    None
}

/// Returns the packets in the armor. A file without armor is returned unchanged. The
/// checksum of the armor is ignored: it detects only accidental damage, and the
/// verification of a damaged signature fails anyway.
///
/// # Errors
/// If the armor is broken.
pub(super) fn open(file: &[u8]) -> Result<Cow<'_, [u8]>, SignatureError> {
    let Some(armor) = from_first_line(file) else {
        return Ok(Cow::Borrowed(file));
    };
    let text = str::from_utf8(armor).map_err(|_| SignatureError::ArmorIsNoText)?;
    let mut lines = text.lines().map(str::trim_end).skip(1);
    // The armor headers end with an empty line.
    lines.by_ref().find(|line| line.is_empty());
    let mut packed = String::new();
    for line in lines {
        if line.starts_with(END) {
            let unpacked = STANDARD.decode(packed);
            return unpacked
                .map(Cow::Owned)
                .map_err(SignatureError::ArmorBase64);
        }
        if !line.starts_with('=') {
            packed.push_str(line);
        }
    }
    Err(SignatureError::ArmorWithoutEnd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn armor_is_taken_off() {
        let text = b"-----BEGIN PGP SIGNATURE-----\nVersion: x\n\nAQID\nBA==\n=abcd\n-----END PGP SIGNATURE-----\n";
        assert_eq!(open(text).unwrap()[..], [1, 2, 3, 4]);
        assert_eq!(open(&[0x88, 0]).unwrap()[..], [0x88, 0]);
        let broken = &text[..text.len() - 30];
        assert!(open(broken).is_err());
        assert!(open(b"-----BEGIN PGP SIGNATURE-----\n\n?\n-----END PGP ").is_err());
    }

    #[test]
    fn text_before_the_armor_does_not_hide_it() {
        let armor = "-----BEGIN PGP SIGNATURE-----\r\n\r\nAQID\r\n-----END PGP SIGNATURE-----\r\n";
        for before in ["", "\n", " ", "\r\n\t", "\u{feff}", "the signature:\n"] {
            let file = format!("{before}{armor}");
            assert!(is_armored(file.as_bytes()), "{before:?}");
            assert_eq!(open(file.as_bytes()).unwrap()[..], [1, 2, 3], "{before:?}");
        }
        assert!(!is_armored(b"a line with -----BEGIN PGP SIGNATURE-----"));
    }
}
