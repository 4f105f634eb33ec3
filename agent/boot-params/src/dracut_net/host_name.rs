//! The syntax of host names.

/// HOST_NAME_MAX of Linux.
const MAX: usize = 64;

/// True if the text consists of labels joined by dots, and each label of letters,
/// digits and inner hyphens. An IPv4 address is accepted, as in NetworkManager.
pub fn is_host_name(text: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|c| c.is_ascii_alphanumeric() || c == b'-')
    };
    text.len() <= MAX && text.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_digits_and_inner_hyphens() {
        for text in ["a", "node-7", "node7.lab.example", "192.0.2.1", "0"] {
            assert!(is_host_name(text), "{text:?}");
        }
        for text in [
            "", ".", "a.", ".a", "a..b", "-a", "a-", "a.-b", "a_b", "a b", "\u{e4}",
        ] {
            assert!(!is_host_name(text), "{text:?}");
        }
        assert!(is_host_name(&"a".repeat(64)));
        assert!(!is_host_name(&"a".repeat(65)));
    }
}
