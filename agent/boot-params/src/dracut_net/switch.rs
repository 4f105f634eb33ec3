//! The spellings of yes and no that NetworkManager accepts: fewer than the agent's own
//! settings accept.

use crate::cmdline::Token;

/// Reads a switch; `None` for any other text.
pub(super) fn parse(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "1" | "yes" | "true" | "on" => Some(true),
        "0" | "no" | "false" | "off" => Some(false),
        _ => None,
    }
}

/// Reads a switch that is on by default: without a value, or with a value that
/// cannot be parsed, it is on.
pub(super) fn on_unless_off(token: &Token, warnings: &mut Vec<String>) -> bool {
    let value = token.value_or_empty();
    let found = parse(value);
    if found.is_none() && !value.trim().is_empty() {
        warnings.push(format!(
            "{}: expected yes or no, found {value:?}; taken as yes",
            token.text
        ));
    }
    found.unwrap_or(true)
}
