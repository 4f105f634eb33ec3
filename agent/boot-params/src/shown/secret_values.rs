//! Masks the values of names that are secrets: `ipa-agent-token=abc`,
//! `image_server_password = abc`, `"agent_token": "abc"`.

use std::borrow::Cow;

use super::{AFTER_QUOTE, tail_of};

/// The endings of the names of secrets, in lower case. They cover our own arguments, and
/// names that people give to arguments of other programs on the same kernel command line.
const ENDINGS: [&str; 8] = [
    "token",
    "password",
    "passwd",
    "passphrase",
    "secret",
    "credential",
    "credentials",
    // The path of a webhook's URL is often its password.
    "webhook",
];

/// Masks the values of secrets. A name before a colon counts only if it is in quotes, as
/// in JSON. Without quotes, the text can be prose: `the token: ...`.
pub(super) fn without_secret_values(text: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let mut copied = 0;
    for (at, separator) in text.match_indices(['=', ':']) {
        if at < copied {
            continue;
        }
        let Some(name) = Name::before(&text[copied..at]) else {
            continue;
        };
        if separator == ":" && name.quotes.is_none() {
            continue;
        }
        let (start, end) = value(text, at + separator.len(), &name);
        if start < end {
            out.push_str(&text[copied..start]);
            out.push_str("***");
            copied = end;
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[copied..]);
    Cow::Owned(out)
}

/// The name of a secret, in front of its separator.
struct Name {
    /// The closing quote if quotes enclose only the name, with its backslashes: `\"`.
    quotes: Option<String>,
    /// The quote that opens before the name and is not closed after it, as in
    /// `"token=abc"`. The closing quote may follow the value.
    opened: Option<char>,
    /// True if spaces may follow the separator: there are spaces before it, or the name
    /// is in quotes.
    is_spaced: bool,
}

impl Name {
    /// `None` if the text does not end with the name of a secret.
    fn before(text: &str) -> Option<Self> {
        let trimmed = text.trim_end_matches(' ');
        let is_quote = |c: char| c == '"' || c == '\'';
        let unquoted = trimmed.strip_suffix(is_quote);
        let unquoted = unquoted.map(|text| text.trim_end_matches('\\'));
        let name_end = unquoted.unwrap_or(trimmed);
        let is_of_a_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let before_name = name_end.trim_end_matches(is_of_a_name);
        let name = name_end[before_name.len()..].to_ascii_lowercase();
        ENDINGS
            .iter()
            .any(|ending| name.ends_with(ending))
            .then(|| Self {
                quotes: unquoted.map(|text| trimmed[text.len()..].to_owned()),
                opened: before_name.chars().next_back().filter(|c| is_quote(*c)),
                is_spaced: trimmed.len() < text.len() || unquoted.is_some(),
            })
    }
}

/// The byte range of the value in `text`. `from` is the position after the separator.
fn value(text: &str, from: usize, name: &Name) -> (usize, usize) {
    let after = &text[from..];
    let blanks = match name.is_spaced {
        true => after.len() - after.trim_start_matches(' ').len(),
        false => 0,
    };
    let start = from + blanks;
    let value = &text[start..];
    let without_backslashes = value.trim_start_matches('\\');
    if let Some(quote) = without_backslashes
        .chars()
        .next()
        .filter(|c| "\"'".contains(*c))
    {
        let opening = &value[..value.len() - without_backslashes.len() + quote.len_utf8()];
        let start = start + opening.len();
        // Without a closing quote, the rest of the text may belong to the value, so the
        // range includes it.
        let rest = &text[start..];
        let end = closing(rest, opening, Escaped::BelongsToValue);
        return (start, start + end.unwrap_or(rest.len()));
    }
    let ends_here = |c: char| c.is_whitespace() || c.is_control();
    let word = &value[..value.find(ends_here).unwrap_or(value.len())];
    let end = match (name.opened, &name.quotes) {
        // In JSON a value without quotes is a number or a word.
        (_, Some(_)) => word.find([',', '}', ']']).unwrap_or(word.len()),
        (Some(quote), None) => {
            let end = closing(word, quote.encode_utf8(&mut [0; 4]), Escaped::Closes);
            end.map_or(word.len(), |end| word[..end].trim_end_matches('\\').len())
        }
        (None, None) => word.len() - tail_of(word).len(),
    };
    (start, start + end)
}

/// The position of the quote that ends a value. After this quote, the text ends or
/// continues with white space or punctuation. `escaped` says whether a quote after a
/// backslash can end the value.
fn closing(text: &str, quote: &str, escaped: Escaped) -> Option<usize> {
    let mut quotes = text.match_indices(quote).map(|(at, _)| at);
    quotes.find(|at| {
        let is_escaped = text[..*at].ends_with('\\');
        let next = text[at + quote.len()..].trim_start_matches(['\\', '"', '\'']);
        let goes_on = |c: char| c.is_whitespace() || AFTER_QUOTE.contains(c);
        (escaped == Escaped::Closes || !is_escaped) && next.chars().next().is_none_or(goes_on)
    })
}

/// Whether a quote after a backslash can close a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Escaped {
    Closes,
    BelongsToValue,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::without_secrets;

    #[test]
    fn the_values_of_secrets_go_and_the_rest_stays() {
        for (text, shown) in [
            ("ipa-agent-token=abc", "ipa-agent-token=***"),
            (
                "Command line: quiet ipa-agent-token=abc ip=dhcp",
                "Command line: quiet ipa-agent-token=*** ip=dhcp",
            ),
            ("agent_token = abc", "agent_token = ***"),
            (
                "IMAGE_SERVER_PASSWORD=a,b&c x",
                "IMAGE_SERVER_PASSWORD=*** x",
            ),
            ("foo.secret=\"a b\" x", "foo.secret=\"***\" x"),
            (
                "[\"ipa-agent-token=abc\", \"x\"]",
                "[\"ipa-agent-token=***\", \"x\"]",
            ),
            (
                "'ipa-agent-token=abc': expected",
                "'ipa-agent-token=***': expected",
            ),
            (
                "{\"agent_token\": \"abc\", \"x\": 1}",
                "{\"agent_token\": \"***\", \"x\": 1}",
            ),
            ("{\"agent_token\":\"abc\"}", "{\"agent_token\":\"***\"}"),
            (
                "{\\\"agent_token\\\": \\\"abc\\\", 1}",
                "{\\\"agent_token\\\": \\\"***\\\", 1}",
            ),
            ("{'password': 'abc'}", "{'password': '***'}"),
            ("password=\"abc", "password=\"***"),
            ("(ipa-agent-token=abc)", "(ipa-agent-token=***)"),
            (
                "landfall.webhook=https://h/services/abc?x=1 quiet",
                "landfall.webhook=*** quiet",
            ),
            (
                "http://u:p@h/?token=abc password=abc",
                "http://***@h/?*** password=***",
            ),
            // No secret.
            (
                "requests refused so far because of a missing or wrong token: 5",
                "requests refused so far because of a missing or wrong token: 5",
            ),
            ("ipa-agent-token= ip=dhcp", "ipa-agent-token= ip=dhcp"),
            ("ipa-agent-token=", "ipa-agent-token="),
            ("agent_token_required=1", "agent_token_required=1"),
            ("tokens=3", "tokens=3"),
        ] {
            assert_eq!(without_secrets(text), shown);
        }
    }

    proptest! {
        #[test]
        fn no_value_of_a_secret_survives(
            name in "[a-z_-]{0,8}(token|password|secret)", before in "[a-z =\"':{]{0,6}",
            odd in "[^\\s\\pC\"'\\\\]{0,4}",
        ) {
            let value = format!("{odd}S3CRET");
            for text in [
                format!("{before} {name}={value}"),
                format!("{before} {name} = {value} x"),
                format!("{{\"{name}\": {value:?}, \"x\": 1}}"),
                format!("{:?}", format!("{{\"{name}\": {value:?}}}")),
                format!("{:?}", [format!("{name}={value}")]),
            ] {
                prop_assert!(!without_secrets(&text).contains("S3CRET"), "{text}");
            }
        }

        #[test]
        fn masking_twice_changes_nothing(text in "(token[=:\"' ]|password=|\"secret\":|[a-z,'\"= *\\\\]){0,12}") {
            let once = without_secrets(&text).into_owned();
            prop_assert_eq!(without_secrets(&once), once.clone());
        }

        #[test]
        fn never_panics(text in "(token=|\"secret\":|\\PC){0,40}") {
            let _ = without_secrets(&text);
        }
    }
}
