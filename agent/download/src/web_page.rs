//! Recognises a web page: many servers send one, often with a login, in place of a file.

/// Whether a file that begins with these bytes is a web page.
pub fn is_web_page(head: &[u8]) -> bool {
    // The byte order mark of UTF-8.
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let text = String::from_utf8_lossy(head.get(..64).unwrap_or(head)).to_ascii_lowercase();
    let text = text.trim_start();
    text.starts_with("<!doctype html") || text.starts_with("<html")
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
        ] {
            assert!(is_web_page(page), "{page:?}");
        }
        for other in [&b""[..], b"\x88\x01", b"not a page", b"<htm", b"<?xml?>"] {
            assert!(!is_web_page(other), "{other:?}");
        }
    }
}
