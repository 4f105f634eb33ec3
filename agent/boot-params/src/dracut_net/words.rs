//! Splits a text such as `a:[b:c]:d` into words.

/// Splits words off the start of a text. Separators inside square brackets, which may be
/// nested, do not split; brackets around a whole word are removed.
#[derive(Clone, Debug)]
pub(super) struct Words<'a> {
    rest: &'a str,
}

impl<'a> Words<'a> {
    pub(super) fn new(text: &'a str) -> Words<'a> {
        Words { rest: text }
    }

    /// The text after the words taken so far.
    pub(super) fn rest(&self) -> &'a str {
        self.rest
    }

    /// The next word; empty if there is none left.
    pub(super) fn next(&mut self, separator: char) -> &'a str {
        let mut depth = 0_usize;
        for (at, c) in self.rest.char_indices() {
            match c {
                '[' => depth += 1,
                ']' => depth = depth.saturating_sub(1),
                _ if c == separator && depth == 0 => {
                    let word = &self.rest[..at];
                    self.rest = &self.rest[at + c.len_utf8()..];
                    return without_brackets(word);
                }
                _ => {}
            }
        }
        without_brackets(std::mem::take(&mut self.rest))
    }
}

/// Removes brackets around a whole word: `[x]` → `x`, but `[a]b[c]` stays.
pub(super) fn without_brackets(word: &str) -> &str {
    let Some(inner) = word.strip_prefix('[').and_then(|w| w.strip_suffix(']')) else {
        return word;
    };
    let mut depth = 1_usize;
    for c in inner.chars() {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return word;
        }
    }
    inner
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_hide_separators() {
        // A text, and its words joined by `|`.
        let cases = [
            ("", ""),
            ("a", "a"),
            ("a:b", "a|b"),
            ("a:", "a"),
            (":b", "|b"),
            ("[fe80::1]:x", "fe80::1|x"),
            ("[fe80::1]/64:x", "[fe80::1]/64|x"),
            ("[[a:b]:c]:d", "[a:b]:c|d"),
            ("k=[a:b]:c", "k=[a:b]|c"),
            ("[a]:[b]", "a|b"),
            ("[a:b", "[a:b"),
            ("a]:b", "a]|b"),
            ("[]:x", "|x"),
            ("[a]-[b]:c", "[a]-[b]|c"),
        ];
        for (text, expected) in cases {
            let mut words = Words::new(text);
            let mut found = vec![words.next(':')];
            while !words.rest().is_empty() {
                found.push(words.next(':'));
            }
            assert_eq!(found.join("|"), expected, "{text:?}");
        }
    }
}
