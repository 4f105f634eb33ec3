//! Implements [`ArgumentValue`] for numbers, texts, lists and durations.

use std::net::IpAddr;
use std::time::Duration;

use crate::argument_value::{ArgumentValue, decimal, split_list};
use crate::boolean;

impl<T: ArgumentValue> ArgumentValue for Option<T> {
    const EXPECTED: &'static str = T::EXPECTED;
    const SECRET: bool = T::SECRET;

    fn parse(text: &str) -> Option<Option<T>> {
        T::parse(text).map(Some)
    }

    fn to_text(&self) -> String {
        self.as_ref().map(T::to_text).unwrap_or_default()
    }

    fn empty() -> Option<Option<T>> {
        Some(None)
    }
}

impl ArgumentValue for bool {
    const EXPECTED: &'static str = "a boolean (1 or 0, true or false, yes or no, on or off)";

    fn parse(text: &str) -> Option<bool> {
        boolean::parse(text)
    }

    fn to_text(&self) -> String {
        u8::from(*self).to_string()
    }
}

macro_rules! numbers {
    ($($type:ident, $expected:literal);+) => {
        $(impl ArgumentValue for $type {
            const EXPECTED: &'static str = $expected;

            fn parse(text: &str) -> Option<$type> {
                decimal(text)
            }

            fn to_text(&self) -> String {
                self.to_string()
            }
        })+
    };
}

numbers!(u16, "a number from 0 to 65535"; u32, "a number from 0 to 4294967295");

impl ArgumentValue for IpAddr {
    const EXPECTED: &'static str = "an IP address";

    fn parse(text: &str) -> Option<IpAddr> {
        let inner = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
        inner.unwrap_or(text).parse().ok()
    }

    fn to_text(&self) -> String {
        self.to_string()
    }
}

impl ArgumentValue for String {
    const EXPECTED: &'static str = "text";

    fn parse(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    fn to_text(&self) -> String {
        self.clone()
    }
}

impl ArgumentValue for Vec<String> {
    const EXPECTED: &'static str = "words joined by commas";

    fn parse(text: &str) -> Option<Vec<String>> {
        Some(split_list(text).map(str::to_owned).collect())
    }

    fn to_text(&self) -> String {
        self.join(",")
    }

    fn empty() -> Option<Vec<String>> {
        Some(Vec::new())
    }
}

/// Seconds, with up to nine decimal places.
impl ArgumentValue for Duration {
    const EXPECTED: &'static str = "a number of seconds";

    fn parse(text: &str) -> Option<Duration> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let seconds: u32 = decimal(whole)?;
        if fraction.is_empty() {
            return Some(Duration::from_secs(seconds.into()));
        }
        if fraction.len() > 9 {
            return None;
        }
        let digits: u32 = decimal(fraction)?;
        let places = u32::try_from(9 - fraction.len()).ok()?;
        Some(Duration::new(seconds.into(), digits * 10_u32.pow(places)))
    }

    fn to_text(&self) -> String {
        let text = format!("{}.{:09}", self.as_secs(), self.subsec_nanos());
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_have_digits_only() {
        assert_eq!(u16::parse("65535"), Some(65535));
        assert_eq!(u16::parse("65536"), None);
        assert_eq!(u32::parse("+1"), None);
    }

    #[test]
    fn reads_seconds_with_and_without_decimals() {
        assert_eq!(Duration::parse("30"), Some(Duration::from_secs(30)));
        assert_eq!(Duration::parse("30.0"), Some(Duration::from_secs(30)));
        assert_eq!(Duration::parse("0.25"), Some(Duration::from_millis(250)));
        assert_eq!(Duration::parse("7."), Some(Duration::from_secs(7)));
        for bad in ["-1", "+1", "1e3", "x", ".5x", "99999999999", "1.0000000001"] {
            assert_eq!(Duration::parse(bad), None, "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn durations_survive_text(seconds: u32, nanos in 0u32..1_000_000_000) {
            let value = Duration::new(seconds.into(), nanos);
            prop_assert_eq!(Duration::parse(&value.to_text()), Some(value));
        }
    }
}
