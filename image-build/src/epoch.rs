//! Determines the time stamp of everything that the builder makes.

use anyhow::{Context as _, Result};

/// The value of SOURCE_DATE_EPOCH (see reproducible-builds.org), or 0.
pub(crate) fn from_environment() -> Result<u32> {
    match std::env::var_os("SOURCE_DATE_EPOCH") {
        None => Ok(0),
        Some(text) => parse(&text.to_string_lossy()),
    }
}

fn parse(text: &str) -> Result<u32> {
    let seconds =
        || format!("SOURCE_DATE_EPOCH: expected seconds since 1970 below 2^32, found `{text}`");
    text.parse().with_context(seconds)
}

#[cfg(test)]
mod tests {
    #[test]
    fn seconds_only() {
        assert_eq!(super::parse("1700000000").unwrap(), 1_700_000_000);
        for text in ["", "-1", "4294967296", "2023-11-14"] {
            assert!(super::parse(text).is_err(), "{text}");
        }
    }
}
