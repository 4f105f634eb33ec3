//! Splits a kernel command line into tokens. Keeps their order, and keeps repeated
//! arguments.

use std::fmt;

/// Longest text that [`CommandLine::parse`] reads, in bytes. x86 and arm64 kernels cut a
/// command line at 2048 bytes, s390 at 4096. A boot configuration file in the initrd can
/// add more, but the agent expects none of its arguments there.
pub const MAX_LENGTH: usize = 4096;

/// In bytes: `COMMAND_LINE_SIZE` of x86_64, NUL included. The kernel silently cuts a
/// longer command line.
pub const COMMAND_LINE_SIZE: usize = 2048;
/// In bytes: the longest kernel command line that x86_64 accepts, without the NUL.
pub const MAX_KERNEL_ARGS: usize = COMMAND_LINE_SIZE - 1;

/// One argument of the kernel command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The argument as written on the command line, quotes included.
    pub text: String,
    /// The text before the first `=`, without quotes.
    pub key: String,
    /// The text after the first `=`, without quotes; `None` if there is no `=`.
    pub value: Option<String>,
}

/// The arguments of one boot, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandLine {
    tokens: Vec<Token>,
    cut: bool,
}

impl CommandLine {
    /// Splits the first [`MAX_LENGTH`] bytes of `text` as the kernel's `next_arg()` does
    /// (lib/cmdline.c): at white space outside double quotes. Quotes may enclose the
    /// value (`key="a b"`) or the whole argument (`"key=a b"`). There is no escape
    /// character. Unlike in the kernel, white space after a quote that is never closed
    /// separates arguments. A lone `--` is left out: the arguments after it are for init,
    /// and the agent is init.
    pub fn parse(text: &str) -> CommandLine {
        let (text, cut) = within_limit(text);
        let tokens = tokens(text);
        CommandLine { tokens, cut }
    }

    /// Like [`parse`](Self::parse), but for a file of kernel arguments: the length is not
    /// limited, and a quoted text cannot continue on the next line.
    pub fn parse_lines(text: &str) -> CommandLine {
        let tokens = text.lines().flat_map(tokens).collect();
        CommandLine { tokens, cut: false }
    }

    /// Like [`parse`](Self::parse), for bytes of unknown encoding, as read from
    /// `/proc/cmdline`: invalid UTF-8 becomes U+FFFD.
    pub fn parse_bytes(bytes: &[u8]) -> CommandLine {
        CommandLine::parse(&String::from_utf8_lossy(bytes))
    }

    /// All arguments, in order.
    pub fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// The last argument named `key`. If several arguments have the same name, the last
    /// one takes effect, except for arguments that form a list.
    pub fn last(&self, key: &str) -> Option<&Token> {
        self.tokens.iter().rev().find(|token| token.key == key)
    }

    /// The arguments whose names are not in `keys`.
    #[must_use]
    pub fn without(&self, keys: &[&str]) -> CommandLine {
        let mut others = self.clone();
        let is_other = |token: &Token| !keys.contains(&token.key.as_str());
        others.tokens.retain(is_other);
        others
    }

    /// The arguments of this line, followed by those of `others`.
    #[must_use]
    pub fn followed_by(mut self, others: CommandLine) -> CommandLine {
        self.tokens.extend(others.tokens);
        self
    }

    /// True if the text was longer than [`MAX_LENGTH`] and its end was left out.
    pub(crate) fn was_cut(&self) -> bool {
        self.cut
    }
}

/// Splits one text. White space after a quote that is never closed separates arguments.
/// The kernel instead takes the rest of the line as quoted, but here one wrong quote in a
/// template must not hide all the arguments after it.
fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut start = None;
    let mut quoted = false;
    for (at, c) in text.char_indices() {
        if c == '"' {
            quoted = !quoted && text[at + 1..].contains('"');
        }
        if c.is_ascii_whitespace() && !quoted {
            if let Some(from) = start.take() {
                tokens.push(Token::parse(&text[from..at]));
            }
        } else {
            start.get_or_insert(at);
        }
    }
    if let Some(from) = start {
        tokens.push(Token::parse(&text[from..]));
    }
    tokens.retain(|token| token.text != "--");
    tokens
}

impl Token {
    fn parse(text: &str) -> Token {
        let whole = match text.strip_prefix('"') {
            Some(rest) => rest.strip_suffix('"').unwrap_or(rest),
            None => text,
        };
        let (key, value) = match whole.split_once('=') {
            Some((key, value)) => (key, Some(unquoted(value).to_owned())),
            None => (whole, None),
        };
        Token {
            text: text.to_owned(),
            key: key.to_owned(),
            value,
        }
    }

    /// A warning that the argument is ignored.
    pub(crate) fn ignored(&self, reason: impl fmt::Display) -> String {
        format!("{}: {reason}; ignored", self.text)
    }

    /// A warning that the argument or one of its fields is ignored, because `found` is
    /// not the `expected` text.
    pub(crate) fn expected(&self, expected: impl fmt::Display, found: &str) -> String {
        self.ignored(format_args!("expected {expected}, found {found:?}"))
    }

    /// The value, or an empty text for an argument without `=`: dracut and
    /// NetworkManager treat both alike.
    pub fn value_or_empty(&self) -> &str {
        self.value.as_deref().unwrap_or("")
    }
}

fn unquoted(value: &str) -> &str {
    match value.strip_prefix('"') {
        Some(rest) => rest.strip_suffix('"').unwrap_or(rest),
        None => value,
    }
}

/// Returns at most [`MAX_LENGTH`] bytes of the text, and whether it was cut. Cuts before
/// the argument that crosses the limit, because a part of an argument can have another
/// meaning than the whole argument.
fn within_limit(text: &str) -> (&str, bool) {
    if text.len() <= MAX_LENGTH {
        return (text, false);
    }
    let mut end = MAX_LENGTH;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let kept = &text[..end];
    if text[end..].starts_with(|c: char| c.is_ascii_whitespace()) {
        return (kept, true);
    }
    let end = kept.rfind(|c: char| c.is_ascii_whitespace()).unwrap_or(0);
    (&kept[..end], true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pairs(text: &str) -> Vec<(String, Option<String>)> {
        CommandLine::parse(text)
            .tokens()
            .iter()
            .map(|token| (token.key.clone(), token.value.clone()))
            .collect()
    }

    #[test]
    fn splits_as_the_kernel_does() {
        // A command line, and the keys and values of its tokens.
        type Case<'a> = (&'a str, &'a [(&'a str, Option<&'a str>)]);
        let cases: &[Case] = &[
            ("", &[]),
            (" \t\n", &[]),
            ("quiet", &[("quiet", None)]),
            ("a=", &[("a", Some(""))]),
            ("a=b=c d", &[("a", Some("b=c")), ("d", None)]),
            ("a=1\ta=2\n", &[("a", Some("1")), ("a", Some("2"))]),
            (r#"a="b c" d"#, &[("a", Some("b c")), ("d", None)]),
            (r#""a=b c" d"#, &[("a", Some("b c")), ("d", None)]),
            (r#""a b""#, &[("a b", None)]),
            (r#"a="b"#, &[("a", Some("b"))]),
            (r#"a="b c"#, &[("a", Some("b")), ("c", None)]),
            (
                r#"a="b" c" d"#,
                &[("a", Some("b")), ("c\"", None), ("d", None)],
            ),
            (r#"a=b"c d"e"#, &[("a", Some(r#"b"c d"e"#))]),
            (r#"a="b"c"#, &[("a", Some(r#"b"c"#))]),
            ("=x", &[("", Some("x"))]),
            ("a -- b ---", &[("a", None), ("b", None), ("---", None)]),
            ("--=1", &[("--", Some("1"))]),
        ];
        for (text, expected) in cases {
            let expected: Vec<_> = expected
                .iter()
                .map(|(key, value)| (key.to_string(), value.map(str::to_owned)))
                .collect();
            assert_eq!(pairs(text), expected, "{text:?}");
        }
    }

    #[test]
    fn keeps_the_text_of_an_argument_as_it_stood() {
        let line = CommandLine::parse(r#"a="b c" "d=e f""#);
        let texts: Vec<_> = line.tokens().iter().map(|t| t.text.as_str()).collect();
        assert_eq!(texts, [r#"a="b c""#, r#""d=e f""#]);
    }

    #[test]
    fn the_last_of_a_repeated_argument_counts() {
        let line = CommandLine::parse("a=1 b=2 a=3");
        assert_eq!(line.last("a").and_then(|t| t.value.as_deref()), Some("3"));
        assert_eq!(line.last("c"), None);
    }

    #[test]
    fn leaves_out_the_argument_that_reaches_over_the_limit() {
        let first = "x".repeat(MAX_LENGTH - 2);
        let line = CommandLine::parse(&format!("{first} ipa-insecure=1"));
        assert!(line.was_cut());
        assert_eq!(line.tokens().len(), 1);
        assert_eq!(line.tokens()[0].key, first);

        let exact = format!("a {}", "y".repeat(MAX_LENGTH - 2));
        let line = CommandLine::parse(&exact);
        assert!(!line.was_cut());
        assert_eq!(line.tokens().len(), 2);

        let line = CommandLine::parse(&format!("{exact} z"));
        assert!(line.was_cut());
        assert_eq!(line.tokens().len(), 2);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_command_line(bytes in proptest::collection::vec(any::<u8>(), 0..5000)) {
            let line = CommandLine::parse_bytes(&bytes);
            let total: usize = line.tokens().iter().map(|t| t.text.len()).sum();
            prop_assert!(total <= MAX_LENGTH);
        }

        #[test]
        fn joining_the_tokens_gives_the_same_tokens(text in "[a-c=\" \\-]{0,60}") {
            let once = CommandLine::parse(&text);
            let joined: Vec<_> = once.tokens().iter().map(|t| t.text.as_str()).collect();
            let twice = CommandLine::parse(&joined.join(" "));
            prop_assert_eq!(once, twice);
        }
    }
}
