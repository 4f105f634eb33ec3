//! Recognises a web page: many servers send one, often with a login, in place of a file.

/// How much of a file is read, in bytes.
const HEAD: usize = 128;

/// Whether a file that begins with these bytes is a web page.
pub fn is_web_page(head: &[u8]) -> bool {
    let text = decoded(head.get(..HEAD).unwrap_or(head)).to_ascii_lowercase();
    let text = text.trim_start();
    text.starts_with("<!doctype html") || text.starts_with("<html")
}

/// The bytes as text, in the encoding that the byte order mark states.
fn decoded(head: &[u8]) -> String {
    match head {
        [0xff, 0xfe, text @ ..] => from_utf_16(text, u16::from_le_bytes),
        [0xfe, 0xff, text @ ..] => from_utf_16(text, u16::from_be_bytes),
        [0xef, 0xbb, 0xbf, text @ ..] => String::from_utf8_lossy(text).into_owned(),
        _ => String::from_utf8_lossy(head).into_owned(),
    }
}

fn from_utf_16(text: &[u8], unit: fn([u8; 2]) -> u16) -> String {
    let pairs = text.chunks_exact(2);
    let units: Vec<u16> = pairs.map(|pair| unit([pair[0], pair[1]])).collect();
    String::from_utf16_lossy(&units)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn web_pages_are_recognised() {
        for page in [
            &b"<!DOCTYPE html><html>"[..],
            b"\n <!doctype HTML PUBLIC",
            b"<html lang=\"en\">",
            b"\xef\xbb\xbf<!DOCTYPE html>",
            b"\xef\xbb\xbf\r\n<html>",
            b"\xff\xfe<\0h\0t\0m\0l\0>\0",
            b"\xff\xfe\n\0<\0H\0T\0M\0L\0 ",
            b"\xfe\xff\0<\0h\0t\0m\0l\0>",
        ] {
            assert!(is_web_page(page), "{page:?}");
        }
        for other in [
            &b""[..],
            b"\x88\x01",
            b"not a page",
            b"<htm",
            b"<?xml?>",
            b"\xff\xfe",
            b"\xff\xfe<html>",
        ] {
            assert!(!is_web_page(other), "{other:?}");
        }
    }
}
