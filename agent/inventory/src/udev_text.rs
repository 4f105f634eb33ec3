//! Converts device texts in the same way as udev does for its properties.
//!
//! udev applies these replacements to the names that operators know: `ID_SERIAL`, and the
//! links in /dev/disk/by-id that contain it. Root device hints match only if the agent
//! applies the same replacements. The rules are those of systemd's src/shared/udev-util.c
//! and src/basic/utf8.c. A caller replaces bytes that are not UTF-8 before it calls this
//! module.

/// The punctuation that a property may contain (`ALLOWED_CHARS`). A property may also
/// contain digits, letters and all characters beyond ASCII.
const PUNCTUATION: &str = "#+-.:=@_";

fn is_allowed(character: char) -> bool {
    character.is_ascii_alphanumeric() || !character.is_ascii() || PUNCTUATION.contains(character)
}

/// Removes white space at both ends, and replaces each run of white space inside with one
/// `_`.
pub fn fold_white_space(text: &str) -> String {
    text.split_ascii_whitespace().collect::<Vec<_>>().join("_")
}

/// Replaces every character that is not allowed with `_`, except the backslash of an
/// escape (`\x20`).
pub fn replace_characters(text: &str) -> String {
    replace_except(text, |_| false)
}

/// Applies [`fold_white_space`], then [`replace_characters`]. udev converts serial
/// numbers and models in this way for most properties.
pub fn clean(text: &str) -> String {
    replace_characters(&fold_white_space(text))
}

/// Converts a sysfs value as `$attr{...}` in a udev rule does: removes white space at the
/// end, turns other white space into blanks, and replaces characters that are not
/// allowed. More characters are allowed than in [`clean`]: those of
/// `UDEV_ALLOWED_CHARS_INPUT`.
pub fn attribute(text: &str) -> String {
    let blanks = text
        .trim_end()
        .replace(|c: char| c.is_ascii_whitespace(), " ");
    replace_except(&blanks, |c| "/ $%?,".contains(c))
}

fn replace_except(text: &str, keep: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let begins_escape = character == '\\' && characters.peek() == Some(&'x');
        if is_allowed(character) || keep(character) || begins_escape {
            out.push(character);
        } else {
            out.push('_');
        }
    }
    out
}

/// Converts a text for the `_ENC` properties: characters that are not allowed become
/// `\xNN`, and no character is removed.
pub fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if is_allowed(character) {
            out.push(character);
        } else {
            // Only ASCII characters can be disallowed, so two digits are enough.
            out += &format!("\\x{:02x}", u32::from(character));
        }
    }
    out
}

/// The text as lsblk shows it: trimmed, with each run of white space as one space.
pub fn for_people(text: &str) -> String {
    text.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn measured_texts() {
        for (text, cleaned) in [
            ("a b/c", "a_b_c"),
            (
                "Samsung SSD 860 EVO 500GB               ",
                "Samsung_SSD_860_EVO_500GB",
            ),
            (
                "A model name of forty characters in sum!",
                "A_model_name_of_forty_characters_in_sum_",
            ),
            ("  ", ""),
            ("27842-0000:00:01.0-4", "27842-0000:00:01.0-4"),
            ("\u{e9}t\u{e9}", "\u{e9}t\u{e9}"),
            ("a\\x20b", "a\\x20b"),
            ("a\\y", "a_y"),
        ] {
            assert_eq!(clean(text), cleaned, "{text:?}");
        }
    }

    #[test]
    fn attributes_keep_white_space_and_slashes() {
        assert_eq!(attribute("  lead & \"q\"/s  "), "  lead _ _q_/s");
        assert_eq!(attribute("A,1\t50% $?!"), "A,1 50% $?_");
        assert_eq!(replace_characters("  lead _ _q_/s"), "__lead____q__s");
        assert_eq!(attribute("QEMU NVMe Ctrl      \n"), "QEMU NVMe Ctrl");
    }

    #[test]
    fn encoded_texts_keep_their_padding() {
        assert_eq!(encode("A b/c  "), r"A\x20b\x2fc\x20\x20");
        assert_eq!(encode("a\\x"), r"a\x5cx");
    }

    #[test]
    fn people_see_single_blanks() {
        assert_eq!(for_people("QEMU HARDDISK   "), "QEMU HARDDISK");
        assert_eq!(for_people(" a \t b "), "a b");
    }

    proptest! {
        #[test]
        fn cleaning_twice_changes_nothing(text in "\\PC{0,60}") {
            let once = clean(&text);
            prop_assert_eq!(clean(&once), once.clone());
            prop_assert!(!once.contains([' ', '/', '"']));
        }
    }
}
