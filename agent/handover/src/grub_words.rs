//! Checks text that GRUB parses as the words of a command: the `options` of a boot
//! loader entry become the end of a `linux` line in a script.
//!
//! GRUB first inserts the values of variables, even inside quotes (`expand_val` of
//! its blscfg.c), and then parses the script (GRUB manual, 6.1 and 6.2;
//! `script/yylex.l`). Quotes and backslashes that are left after that reach the
//! kernel with an additional backslash (`lib/cmdline.c`).

/// These characters end a word or a command, unless they are quoted.
const OPERATORS: [char; 7] = ['{', '}', '|', '&', ';', '<', '>'];

/// Why text would not reach the kernel as the same words, and what to write instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WordError {
    #[error("expected no {0:?}, which ends the line")]
    Control(char),
    #[error("a word that begins with # is a comment to GRUB: quote it")]
    Comment,
    #[error("{0} ends the command for GRUB: quote it")]
    Operator(char),
    #[error(
        "GRUB replaces $ and the text after it with the value of a variable, and no quoting prevents this"
    )]
    Variable,
    #[error("GRUB removes or doubles a backslash: expected none")]
    Backslash,
    #[error("expected a closing {0}, found none")]
    OpenQuote(char),
    #[error("within quotes GRUB puts a backslash before {0:?}: expected none")]
    WithinQuotes(char),
}

/// Rejects text whose words would not reach the kernel unchanged: GRUB could reject the
/// script and not boot, or run it with another meaning. Spaces separate words; both kinds
/// of quotes protect spaces and operators.
///
/// # Errors
/// The first fault in the text.
pub fn check(text: &str) -> Result<(), WordError> {
    let mut rest = text;
    let mut at_start = true;
    while let Some(next) = rest.chars().next() {
        let after = &rest[next.len_utf8()..];
        rest = match next {
            c if c.is_control() => return Err(WordError::Control(c)),
            '#' if at_start => return Err(WordError::Comment),
            c if OPERATORS.contains(&c) => return Err(WordError::Operator(c)),
            '$' if at_start => variable(after)?,
            '$' => return Err(WordError::Variable),
            '\\' => escaped(after)?,
            quote @ ('\'' | '"') => quoted(after, quote)?,
            _ => after,
        };
        at_start = next == ' ';
    }
    Ok(())
}

/// Returns the text after a variable. A variable must be a whole word, like
/// `$tuned_params`: within a longer word, GRUB could read the name differently.
fn variable(text: &str) -> Result<&str, WordError> {
    let end = text.find(' ').unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    if is_name(name) {
        Ok(rest)
    } else {
        Err(WordError::Variable)
    }
}

/// Whether this is a valid name of a GRUB variable.
fn is_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Returns the text after a backslash and the character that it quotes.
fn escaped(text: &str) -> Result<&str, WordError> {
    text.strip_prefix(|c| OPERATORS.contains(&c) || c == '#' || c == ' ')
        .ok_or(WordError::Backslash)
}

/// The text after the closing quote.
fn quoted(text: &str, quote: char) -> Result<&str, WordError> {
    let (inside, rest) = text.split_once(quote).ok_or(WordError::OpenQuote(quote))?;
    match inside
        .chars()
        .find(|&c| "'\"\\$".contains(c) || c.is_control())
    {
        None => Ok(rest),
        Some('$') => Err(WordError::Variable),
        Some(c) => Err(WordError::WithinQuotes(c)),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use proptest::prelude::*;

    use super::*;

    const GOOD: &[&str] = &[
        "",
        "console=ttyS0,115200n8 a=b#c",
        "root=UUID=1-2 x=[1::2]/64:(y)*~!@%^+?",
        "dyndbg=\"file drivers/usb/* +p; module x +p\"",
        "rd.luks.options='a;b' c",
        "a=\\;b \\#c a\\ b",
        "$ignition_firstboot rw $tuned_params",
        "''\"\"x",
        "n\u{f6}",
    ];

    const BAD: &[&str] = &[
        "a;reboot", "a|b", "a&b", "{a", "a}", "a<b", "a>b", "#a", "a #b", "a=$b", "$", "$ a",
        "$6$salt", "${a}", "$a=b", "'$a'", "\"a", "a'", "\"it's\"", "'a\"b'", "a\\", "a\\b",
        "\\\\", "\\$a", "'a\\'", "\"a\\;\"", "a\tb", "a\nb", "'a\nb'", "a\0",
    ];

    /// Asks GRUB's own parser whether the text is the end of a command.
    fn grub_accepts(text: &str) -> bool {
        let mut child = Command::new("grub-script-check")
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // If a text continued beyond the end of its line, it would include `fi`, and
        // GRUB would report that `fi` is missing. GRUB would not report any other
        // missing command.
        let script = format!("if true; then\nlinux /v {text}\nfi\n");
        write!(child.stdin.take().unwrap(), "{script}").unwrap();
        child.wait().unwrap().success()
    }

    #[test]
    fn valid_and_invalid_words() {
        for good in GOOD {
            assert_eq!(check(good), Ok(()), "{good:?}");
            assert!(grub_accepts(good), "{good:?}");
        }
        for bad in BAD {
            assert!(check(bad).is_err(), "{bad:?}");
        }
        for continued in ["a\\", "\"a", "a'"] {
            assert!(!grub_accepts(continued), "{continued:?}");
        }
    }

    proptest! {
        // Fewer cases than usual, because each case starts a process.
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn grub_accepts_each_accepted_text(text in r#"[ab=;|&<>{}'"\\# $]{0,12}"#) {
            if check(&text).is_ok() {
                prop_assert!(grub_accepts(&text), "{:?}", text);
            }
        }
    }
}
