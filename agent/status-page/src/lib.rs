//! The frame, the style and the escaping that the status pages of the agent and of the
//! image service share. This crate does no I/O and depends on neither of them.
//!
//! A page is one HTML file without scripts, so that it works in every browser and loads
//! no other file.

use std::fmt::{self, Display, Write};

const STYLE: &str = include_str!("page.css");

/// The value of the header `Content-Security-Policy`: a page loads nothing, runs no
/// scripts, and cannot be embedded. `data:` permits the empty icon; without the icon,
/// browsers request /favicon.ico.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The beginning of a page.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    pub title: &'a str,
    /// CSS rules for this page only.
    pub more_style: &'a str,
    /// Seconds after which the browser loads the page again.
    pub refresh: Option<u32>,
}

/// Formats everything up to and including `<body>`.
impl Display for Head<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
             <link rel=\"icon\" href=\"data:,\">",
        )?;
        if let Some(seconds) = self.refresh {
            write!(f, "<meta http-equiv=\"refresh\" content=\"{seconds}\">")?;
        }
        writeln!(
            f,
            "<title>{}</title><style>{STYLE}{}</style></head><body>",
            Text(self.title),
            self.more_style
        )
    }
}

/// The end of a page.
pub const END: &str = "</body></html>\n";

/// Text from outside, with all markup escaped.
#[derive(Debug, Clone, Copy)]
pub struct Text<'a>(pub &'a str);

impl Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for char in self.0.chars() {
            match char {
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '&' => f.write_str("&amp;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_becomes_markup() {
        let hostile = "</title><script>\"&'";
        let escaped = "&lt;/title&gt;&lt;script&gt;&quot;&amp;&#39;";
        assert_eq!(Text(hostile).to_string(), escaped);
        let head = Head {
            title: hostile,
            more_style: "",
            refresh: Some(5),
        };
        let page = head.to_string();
        assert!(
            page.contains(&format!("<title>{escaped}</title>")),
            "{page}"
        );
        assert!(page.contains("content=\"5\""), "{page}");
        assert!(!page.contains("<script"), "{page}");
    }
}
