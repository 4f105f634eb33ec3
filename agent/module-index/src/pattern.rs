//! Shell patterns as in the kernel's aliases: `*`, `?`, `[abc]`, `[a-z]`, `[!a]`, `\x`.
//!
//! The patterns match like `fnmatch(pattern, text, 0)`, which modprobe and udev use:
//! `*` also matches `/` and a leading `.`, and a `[` without a closing bracket matches
//! itself. Character classes (`[[:alpha:]]`) are not supported, because the kernel's
//! `file2alias` never writes one.

/// Whether `pattern` matches the whole of `text`.
///
/// Takes at most `pattern.len() * text.len()` steps: after a mismatch only the last `*`
/// matches one byte more. Extending an earlier `*` would not find further matches.
#[must_use]
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where to continue after a mismatch: the position in the pattern after the last `*`,
    // and the position in the text up to which this `*` matches.
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            retry = Some((p, t));
            continue;
        }
        if let Some(len) = match_one(&pattern[p..], text[t]) {
            p += len;
            t += 1;
            continue;
        }
        let Some((after_star, taken)) = retry else {
            return false;
        };
        p = after_star;
        t = taken + 1;
        retry = Some((p, t));
    }
    pattern[p..].iter().all(|&b| b == b'*')
}

/// The start of `pattern`, up to its first wildcard or backslash.
#[must_use]
pub(crate) fn literal_prefix(pattern: &str) -> &str {
    let end = pattern
        .bytes()
        .position(|b| matches!(b, b'*' | b'?' | b'[' | b'\\'))
        .unwrap_or(pattern.len());
    // `end` is always a character boundary, because a byte in ASCII is never inside a
    // multi-byte character.
    pattern.get(..end).unwrap_or(pattern)
}

/// Whether `pattern` can match anything but itself.
#[must_use]
pub fn has_wildcards(pattern: &str) -> bool {
    literal_prefix(pattern).len() != pattern.len()
}

/// The number of bytes of the pattern's first element if this element matches `byte`,
/// otherwise `None`.
fn match_one(pattern: &[u8], byte: u8) -> Option<usize> {
    match *pattern.first()? {
        b'?' => Some(1),
        b'[' => match bracket(pattern) {
            Some(set) => set.contains(byte).then_some(set.len),
            None => (byte == b'[').then_some(1),
        },
        b'\\' if pattern.len() > 1 => (pattern[1] == byte).then_some(2),
        literal => (literal == byte).then_some(1),
    }
}

struct Bracket<'a> {
    members: &'a [u8],
    negated: bool,
    /// Length of the whole expression, including both brackets.
    len: usize,
}

impl Bracket<'_> {
    fn contains(&self, byte: u8) -> bool {
        let mut found = false;
        let mut rest = self.members;
        while let Some((&first, tail)) = rest.split_first() {
            if let [b'-', last, ..] = *tail {
                found |= (first..=last).contains(&byte);
                rest = &tail[2..];
            } else {
                found |= first == byte;
                rest = tail;
            }
        }
        found != self.negated
    }
}

/// The bracket expression that `pattern` begins with; `None` if it is never closed.
fn bracket(pattern: &[u8]) -> Option<Bracket<'_>> {
    let negated = matches!(pattern.get(1), Some(b'!' | b'^'));
    let start = if negated { 2 } else { 1 };
    // A `]` in the first place is a member, not the end.
    let end = start + 1 + pattern.get(start + 1..)?.iter().position(|&b| b == b']')?;
    Some(Bracket {
        members: &pattern[start..end],
        negated,
        len: end + 1,
    })
}

#[cfg(test)]
mod tests;
