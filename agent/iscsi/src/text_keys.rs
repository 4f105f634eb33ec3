//! The text in login PDUs: `key=value` pairs that each end with a NUL byte (RFC 7143,
//! 6.1).

/// The maximum number of pairs in one text. A login has fewer than thirty.
const MOST_PAIRS: usize = 128;
/// In bytes (RFC 7143, 6.1).
const LONGEST_KEY: usize = 63;

/// Why a text is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TextFault {
    #[error("expected at most {MOST_PAIRS} keys in a login text, found more")]
    TooMany,
    #[error("expected key=value in a login text, found {0:?}")]
    NoPair(String),
    #[error("expected a login text in UTF-8")]
    NotText,
}

/// Encodes the pairs.
pub fn encode<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (key, value) in pairs {
        bytes.extend_from_slice(key.as_bytes());
        bytes.push(b'=');
        bytes.extend_from_slice(value.as_bytes());
        bytes.push(0);
    }
    bytes
}

/// Decodes the pairs, in order. Skips empty parts, which some targets add as padding.
///
/// # Errors
/// If the text is not UTF-8, if a part has no `=`, if a key is empty or too long, or if
/// there are too many pairs.
pub fn decode(text: &[u8]) -> Result<Vec<(&str, &str)>, TextFault> {
    let text = std::str::from_utf8(text).map_err(|_| TextFault::NotText)?;
    let mut pairs = Vec::new();
    for part in text.split('\0').filter(|part| !part.is_empty()) {
        let pair = part.split_once('=');
        let pair = pair.filter(|(key, _)| !key.is_empty() && key.len() <= LONGEST_KEY);
        // The beginning is enough to recognise the part. It contains no secret of this
        // machine, because the target has sent it.
        let pair = pair.ok_or_else(|| TextFault::NoPair(part.chars().take(32).collect()))?;
        if pairs.len() == MOST_PAIRS {
            return Err(TextFault::TooMany);
        }
        pairs.push(pair);
    }
    Ok(pairs)
}

/// The value of a key, if it is there.
pub fn value<'a>(pairs: &[(&'a str, &'a str)], key: &str) -> Option<&'a str> {
    pairs.iter().find(|pair| pair.0 == key).map(|pair| pair.1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn faults_are_named() {
        assert_eq!(decode(b"a=b\0\0c=\0"), Ok(vec![("a", "b"), ("c", "")]));
        assert_eq!(decode(b"ab\0"), Err(TextFault::NoPair("ab".to_owned())));
        assert_eq!(decode(b"=b\0"), Err(TextFault::NoPair("=b".to_owned())));
        assert_eq!(decode(b"\xff=b\0"), Err(TextFault::NotText));
        assert_eq!(decode(&b"a=b\0".repeat(129)), Err(TextFault::TooMany));
    }

    proptest! {
        #[test]
        fn encoded_keys_are_decoded(pairs in prop::collection::vec(("[A-Za-z]{1,63}", "[ -~]{0,40}"), 0..20)) {
            let bytes = encode(pairs.iter().map(|(key, value)| (&**key, &**value)));
            let decoded = decode(&bytes).unwrap();
            let decoded: Vec<_> = decoded.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            prop_assert_eq!(decoded, pairs);
        }

        #[test]
        fn any_bytes_are_decoded_or_rejected(bytes in any::<Vec<u8>>()) {
            let _ = decode(&bytes);
        }
    }
}
