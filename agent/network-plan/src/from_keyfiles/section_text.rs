//! The syntax of a keyfile: GLib's key file format.

use std::collections::BTreeMap;

use crate::findings::Findings;

/// NetworkManager's long names of sections, and the short names that it writes.
const SECTION_ALIASES: &[(&str, &str)] = &[
    ("802-3-ethernet", "ethernet"),
    ("802-11-wireless", "wifi"),
    ("802-11-wireless-security", "wifi-security"),
];

/// The values by section and key, as written in the file.
pub(super) type Values = BTreeMap<String, BTreeMap<String, String>>;

/// Parses a text. Each invalid line becomes a fault that names the line's number but does
/// not repeat the line, because it can contain a password.
pub(super) fn parse(file: &str, text: &str, findings: &Findings) -> Values {
    let mut values = Values::new();
    let mut current: Option<String> = None;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (number, line) in (1..).zip(text.lines()) {
        let path = || format!("{file}: line {number}");
        let fault = |words: &str| findings.fault_of(file, &path(), words);
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line.chars().any(|c| c.is_control() && c != '\t') {
            fault("expected no control characters, found one");
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            if name.is_empty() || name.contains(['[', ']']) {
                fault("expected the name of a section between [ and ]");
                continue;
            }
            let alias = SECTION_ALIASES.iter().find(|(long, _)| *long == name);
            let name = alias.map_or(name, |(_, short)| short).to_owned();
            values.entry(name.clone()).or_default();
            current = Some(name);
            continue;
        }
        let Some((key, value)) = line.split_once('=') else {
            fault("expected [SECTION], KEY=VALUE or a comment that begins with #");
            continue;
        };
        let Some(keys) = current.as_ref().and_then(|name| values.get_mut(name)) else {
            fault("expected a [SECTION] before the first key");
            continue;
        };
        let key = key.trim();
        // GLib's form for a translation, `id[de]`, which NetworkManager does not read.
        let is_translation =
            key.ends_with(']') && { key.split_once('[') }.is_some_and(|(name, _)| !name.is_empty());
        if is_translation {
            continue;
        }
        if key.is_empty() || key.contains(['[', ']']) {
            fault("expected the name of a key before =");
            continue;
        }
        let section = current.as_deref().unwrap_or_default();
        if keys
            .insert(key.to_owned(), value.trim().to_owned())
            .is_some()
        {
            let path = format!("{file}: [{section}] {key}");
            findings.warn(&path, "given twice; the last value takes effect");
        }
    }
    values
}

/// Replaces the escapes of a text: `\s`, `\n`, `\t`, `\r` and `\\`. Any other
/// backslash stands for itself.
pub(super) fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        let replacement = match (c, characters.peek()) {
            ('\\', Some('s')) => Some(' '),
            ('\\', Some('n')) => Some('\n'),
            ('\\', Some('t')) => Some('\t'),
            ('\\', Some('r')) => Some('\r'),
            ('\\', Some('\\')) => Some('\\'),
            _ => None,
        };
        if replacement.is_some() {
            characters.next();
        }
        plain.push(replacement.unwrap_or(c));
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Values, Vec<String>) {
        let findings = Findings::default();
        let values = parse("f", text, &findings);
        let lines = findings.into_result().unwrap_or_else(|faults| faults);
        (values, lines)
    }

    #[test]
    fn sections_keys_and_comments() {
        let text = "\u{feff}# by nmcli\n\n  [connection] \r\nid = a=b ;c\n[802-3-ethernet]\n\
                    [connection]\nid=b\n[proxy]\n";
        let (values, lines) = read(text);
        assert_eq!(values["connection"]["id"], "b");
        assert_eq!(
            values.keys().map(String::as_str).collect::<Vec<_>>(),
            ["connection", "ethernet", "proxy"]
        );
        assert_eq!(
            lines,
            ["f: [connection] id: given twice; the last value takes effect"]
        );
    }

    #[test]
    fn lines_that_are_none() {
        for (text, expected) in [
            ("a=1", "expected a [SECTION] before the first key"),
            (
                "[a]\n;b",
                "expected [SECTION], KEY=VALUE or a comment that begins with #",
            ),
            ("[]", "expected the name of a section between [ and ]"),
            ("[a]]", "expected the name of a section between [ and ]"),
            ("[a]\n=b", "expected the name of a key before ="),
            ("[a]\nb=\0", "expected no control characters, found one"),
        ] {
            let (_, lines) = read(text);
            let number = text.lines().count();
            assert_eq!(lines, [format!("f: line {number}: {expected}")], "{text:?}");
        }
    }

    #[test]
    fn escapes() {
        for (text, expected) in [
            (r"a\sb\\c", r"a b\c"),
            (r"\x\", r"\x\"),
            (r"\\s", r"\s"),
            (r"\t\n", "\t\n"),
        ] {
            assert_eq!(unescaped(text), expected);
        }
    }
}
