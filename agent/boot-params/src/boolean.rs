//! The spellings of boolean values.

/// Reads a boolean as `strutils.bool_from_string` of oslo.utils does. oslo.config, and
/// NetworkManager for its `rd.*` arguments, accept a subset of these words.
pub fn parse(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "1" | "t" | "true" | "on" | "y" | "yes" => Some(true),
        "0" | "f" | "false" | "off" | "n" | "no" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn reads_every_spelling_in_any_case() {
        for text in ["1", "t", "TRUE", "On", "y", " yes "] {
            assert_eq!(super::parse(text), Some(true), "{text:?}");
        }
        for text in ["0", "F", "false", "off", "N", "no"] {
            assert_eq!(super::parse(text), Some(false), "{text:?}");
        }
        for text in ["", "2", "enabled", "tru"] {
            assert_eq!(super::parse(text), None, "{text:?}");
        }
    }
}
