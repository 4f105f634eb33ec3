//! Times as OCI and CycloneDX write them.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Seconds since 1970 in the form `2023-11-14T22:13:20Z` (RFC 3339).
#[must_use]
pub fn rfc3339(epoch: u32) -> String {
    // Neither the conversion nor the formatting can fail: 2^32 seconds end in the year
    // 2106.
    let time = OffsetDateTime::from_unix_timestamp(epoch.into());
    let time = time.unwrap_or(OffsetDateTime::UNIX_EPOCH);
    time.format(&Rfc3339).unwrap_or_default()
}

/// The same time as in the `Date` of a changelog (RFC 2822).
#[must_use]
pub fn rfc2822(epoch: u32) -> String {
    use time::format_description::well_known::Rfc2822;
    let time = OffsetDateTime::from_unix_timestamp(epoch.into());
    let time = time.unwrap_or(OffsetDateTime::UNIX_EPOCH);
    time.format(&Rfc2822).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        for (epoch, long, mail) in [
            (0, "1970-01-01T00:00:00Z", "Thu, 01 Jan 1970 00:00:00 +0000"),
            (
                1_700_000_000,
                "2023-11-14T22:13:20Z",
                "Tue, 14 Nov 2023 22:13:20 +0000",
            ),
            (
                u32::MAX,
                "2106-02-07T06:28:15Z",
                "Sun, 07 Feb 2106 06:28:15 +0000",
            ),
        ] {
            assert_eq!(
                (rfc3339(epoch), rfc2822(epoch)),
                (long.to_owned(), mail.to_owned())
            );
        }
    }
}
