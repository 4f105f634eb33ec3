//! The query parameters of a request: `?agent_token=...&wait=true`.

use percent_encoding::percent_decode_str;

/// Whether the client wants the answer only when the command has ended.
pub(super) fn wants_to_wait(query: Option<&str>) -> bool {
    parameter(query, "wait").is_some_and(|text| text.eq_ignore_ascii_case("true"))
}

/// Whether the request contains this token.
pub(super) fn has_token(query: Option<&str>, token: &str) -> bool {
    let given = parameter(query, "agent_token").unwrap_or_default();
    same(given.as_bytes(), token.as_bytes())
}

/// The first value of a parameter, decoded. If a parameter is repeated, Ironic's agent
/// also uses the first value.
fn parameter(query: Option<&str>, key: &str) -> Option<String> {
    query?
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .find(|(name, _)| decoded(name) == key)
        .map(|(_, value)| decoded(value))
}

fn decoded(text: &str) -> String {
    percent_decode_str(&text.replace('+', " "))
        .decode_utf8_lossy()
        .into_owned()
}

/// Compares in constant time, so that the duration does not reveal where the two texts
/// differ. An empty token matches nothing.
fn same(given: &[u8], token: &[u8]) -> bool {
    let differences = given
        .iter()
        .zip(token)
        .fold(0u8, |seen, (a, b)| seen | (a ^ b));
    given.len() == token.len() && !token.is_empty() && std::hint::black_box(differences) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn tokens_are_compared_whole() {
        assert!(same(b"abc", b"abc"));
        assert!(!same(b"ab", b"abc"));
        assert!(!same(b"abcd", b"abc"));
        assert!(!same(b"", b""));
    }

    /// Ironic's agent uses the first value of a token that is given twice. The same
    /// rule applies to `wait`.
    #[test]
    fn the_first_value_counts() {
        for (query, expected) in [
            ("agent_token=T", true),
            ("agent_token=T&agent_token=x", true),
            ("agent_token=x&agent_token=T", false),
            ("agent%5Ftoken=T", true),
            ("agent_token=%54", true),
            ("AGENT_TOKEN=T", false),
            ("x;agent_token=T", false),
            ("agent_token", false),
            ("agent_token=T+", false),
            ("", false),
        ] {
            assert_eq!(has_token(Some(query), "T"), expected, "{query}");
        }
        assert!(!has_token(None, "T"));
    }

    #[test]
    fn only_true_waits() {
        for (query, expected) in [
            ("wait=true", true),
            ("wait=True", true),
            ("wait=TRUE&x=1", true),
            ("wait=false", false),
            ("wait=1", false),
            ("wait=yes", false),
            ("wait=", false),
            ("wait", false),
            ("WAIT=true", false),
        ] {
            assert_eq!(wants_to_wait(Some(query)), expected, "{query}");
        }
        assert!(!wants_to_wait(None));
    }

    /// The duration must not depend on the position of the first difference. The
    /// test takes the shortest of many attempts, because the machine also runs
    /// other work.
    #[test]
    fn a_wrong_token_takes_equally_long_in_all_cases() {
        let token = vec![b'a'; 1 << 16];
        let mut wrong = [token.clone(), token.clone()];
        wrong[0][0] = b'b';
        wrong[1][(1 << 16) - 1] = b'b';
        let least = wrong.map(|given| {
            let once = || {
                let start = Instant::now();
                assert!(!same(std::hint::black_box(&given), &token));
                start.elapsed()
            };
            (0..200).map(|_| once()).min().unwrap_or(Duration::MAX)
        });
        let [early, late] = least.map(|time| time.as_secs_f64());
        assert!(early > late / 2.0 && late > early / 2.0, "{least:?}");
    }

    proptest::proptest! {
        #[test]
        fn never_panics(query: String) {
            let _ = (wants_to_wait(Some(&query)), has_token(Some(&query), "T"));
        }
    }
}
