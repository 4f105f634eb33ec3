//! Extracts the text of an HTML page, for one line on the console. No I/O.
//!
//! Web servers and proxies answer errors with HTML pages. The reason is in the body,
//! after more markup than fits into one line.

use std::borrow::Cow;

const BYTE_ORDER_MARK: char = '\u{feff}';
/// How much of a page is read, in bytes. An error page is shorter.
const PAGE_LIMIT: usize = 16 << 10;
/// The elements that no browser shows in the page.
const INVISIBLE: [&str; 3] = ["head", "style", "script"];
/// The possible beginnings of a page. A text that begins with another word in angle
/// brackets, such as the name of a Python class, is not a page, and the word is a part of
/// the text.
const FIRST: [&str; 9] = [
    "!doctype", "html", "head", "body", "title", "h1", "p", "div", "center",
];
/// The ampersand is last: decoding it first could create another entity.
const ENTITIES: [(&str, &str); 8] = [
    ("&lt;", "<"),
    ("&gt;", ">"),
    ("&quot;", "\""),
    ("&apos;", "'"),
    ("&#39;", "'"),
    ("&#x27;", "'"),
    ("&nbsp;", " "),
    ("&amp;", "&"),
];

/// The text of the body if it is an HTML page that has a text, otherwise the body itself.
pub(super) fn text_of(body: &str) -> Cow<'_, str> {
    let page = body.trim_start_matches(BYTE_ORDER_MARK);
    if !is_page(page) {
        return Cow::Borrowed(body);
    }
    let text = without_markup(&page[..page.floor_char_boundary(PAGE_LIMIT)]);
    match text.trim().is_empty() {
        true => Cow::Borrowed(body),
        false => Cow::Owned(text),
    }
}

fn is_page(text: &str) -> bool {
    let mut rest = text.trim_start();
    while let Some(comment) = rest.strip_prefix("<!--") {
        rest = comment.split_once("-->").map_or("", |(_, rest)| rest);
        rest = rest.trim_start();
    }
    let Some(tag) = rest.strip_prefix('<') else {
        return false;
    };
    let end = tag.find(|c: char| c.is_ascii_whitespace() || matches!(c, '>' | '/'));
    let name = &tag[..end.unwrap_or(tag.len())];
    FIRST.iter().any(|first| first.eq_ignore_ascii_case(name))
}

fn without_markup(page: &str) -> String {
    let mut text = String::new();
    let mut rest = page;
    while let Some(at) = rest.find('<') {
        let (before, markup) = rest.split_at(at);
        text.push_str(before);
        if is_tag(markup) {
            // Tags separate words, such as a heading and the paragraph after it.
            text.push(' ');
            rest = after_tag(markup);
        } else {
            text.push('<');
            rest = &markup[1..];
        }
    }
    text.push_str(rest);
    for (entity, character) in ENTITIES {
        text = text.replace(entity, character);
    }
    text
}

fn is_tag(markup: &str) -> bool {
    let next = markup.chars().nth(1);
    next.is_some_and(|next| next.is_ascii_alphabetic() || matches!(next, '/' | '!' | '?'))
}

/// Skips the tag or the comment at the beginning and returns the rest. An invisible
/// element is skipped up to its end tag, if it has one.
fn after_tag(markup: &str) -> &str {
    if let Some(comment) = markup.strip_prefix("<!--") {
        return comment.split_once("-->").map_or("", |(_, rest)| rest);
    }
    let (tag, rest) = markup.split_once('>').unwrap_or((markup, ""));
    let name = tag[1..].split(|c: char| !c.is_ascii_alphanumeric()).next();
    let name = name.unwrap_or_default().to_ascii_lowercase();
    if !INVISIBLE.contains(&name.as_str()) {
        return rest;
    }
    let end = rest.to_ascii_lowercase().find(&format!("</{name}"));
    end.map_or(rest, |end| &rest[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_of_a_page_is_left() {
        let apache = "<!DOCTYPE HTML PUBLIC \"-//IETF//DTD HTML 2.0//EN\">\n<html><head>\n\
                      <title>400 Bad Request</title>\n</head><body>\n<h1>Bad Request</h1>\n\
                      <p>Your browser sent a request that this server could not understand.<br />\n\
                      Reason: You&#39;re speaking plain HTTP to an SSL-enabled server port.<br />\n\
                      </p>\n</body></html>\n";
        for (body, expected) in [
            (
                apache,
                "Bad Request Your browser sent a request that this server could not understand. \
                 Reason: You're speaking plain HTTP to an SSL-enabled server port.",
            ),
            (
                "<HTML><HEAD><STYLE>p {}</STYLE></HEAD><header>a</header> b</HTML>",
                "a b",
            ),
            (
                "<html><script>if (1 < 2) {}</script>x<!-- <p>y</p> -->z",
                "x z",
            ),
            ("<html><head>never closed<p>text", "never closed text"),
            (
                "<p>1 < 2 &amp;lt; &quot;3&quot;&nbsp;&gt; x",
                "1 < 2 &lt; \"3\" > x",
            ),
            ("<p>cut in a <ta", "cut in a"),
            ("<p>ends with <", "ends with <"),
            // Without a text, the page itself is all there is.
            ("<html><body></body></html>", "<html><body></body></html>"),
            ("no <b>page</b>", "no <b>page</b>"),
            (
                "<class 'DBConnectionError'>: lost connection",
                "<class 'DBConnectionError'>: lost connection",
            ),
            ("<b>page</b>", "<b>page</b>"),
            ("<!-- never closed <p>x", "<!-- never closed <p>x"),
            (
                "\u{feff}\n<!-- a --> <!-- b -->\n<H1 class=\"c\">x</H1>",
                "x",
            ),
            ("", ""),
        ] {
            let text = text_of(body);
            let words: Vec<_> = text.split_whitespace().collect();
            assert_eq!(words.join(" "), expected, "{body}");
        }
    }

    #[test]
    fn a_long_page_is_cut_at_a_character() {
        let page = format!("<p>{}", "\u{1f4bd}".repeat(PAGE_LIMIT));
        assert!(text_of(&page).len() <= PAGE_LIMIT);
    }
}
