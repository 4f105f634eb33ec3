//! UTC calendar dates: for the HTTP header `Date`, the hardware clock and messages.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use crate::wall_clock::CivilTime;

/// The length of the text in bytes.
const HTTP_DATE_LEN: usize = "Sun, 06 Nov 1994 08:49:37 GMT".len();
const SECONDS_OF_DAY: u64 = 86_400;

fn is_leap(year: u16) -> bool {
    (year.is_multiple_of(4) && !year.is_multiple_of(100)) || year.is_multiple_of(400)
}

fn days_of(year: u16, month: u8) -> u8 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if is_leap(year) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Parses an HTTP `Date` header such as `Sun, 06 Nov 1994 08:49:37 GMT`, the only
/// form that servers may send (RFC 9110, section 5.6.7). Returns `None` for any
/// other form, for a wrong day of the week, and for years before 1970 or after 2999.
pub fn parse_http_date(text: &str) -> Option<SystemTime> {
    let text = text.trim();
    // `httpdate` also reads two obsolete forms, which have other lengths.
    if text.len() != HTTP_DATE_LEN {
        return None;
    }
    // `httpdate` rejects a leap second, which the RFC permits, so replace it.
    let (text, leap) = match text.strip_suffix(":60 GMT") {
        Some(start) => (Cow::Owned(format!("{start}:59 GMT")), 1),
        None => (Cow::Borrowed(text), 0),
    };
    let time = httpdate::parse_http_date(&text).ok()?;
    let time = time.checked_add(Duration::from_secs(leap))?;
    civil(time).map(|_| time)
}

/// Converts a time to a calendar date. Returns `None` before 1970 and after 2999.
pub fn civil(time: SystemTime) -> Option<CivilTime> {
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs();
    let mut days = seconds / SECONDS_OF_DAY;
    let mut year = 1970;
    loop {
        let length = if is_leap(year) { 366 } else { 365 };
        if days < length {
            break;
        }
        days -= length;
        year += 1;
        if year == 3000 {
            return None;
        }
    }
    let mut month = 1;
    while days >= u64::from(days_of(year, month)) {
        days -= u64::from(days_of(year, month));
        month += 1;
    }
    // The cast is lossless: each count is at most 60.
    let part = |unit: u64, count: u64| (seconds / unit % count) as u8;
    Some(CivilTime {
        year,
        month,
        day: days as u8 + 1,
        hour: part(3600, 24),
        minute: part(60, 60),
        second: part(1, 60),
    })
}

/// Formats a time for the console: `2026-11-21 03:28:02 UTC`.
pub fn shown(time: SystemTime) -> String {
    match civil(time) {
        Some(at) => format!(
            "{:04}-{:02}-{:02} {:02}:{:02}:{:02} UTC",
            at.year, at.month, at.day, at.hour, at.minute, at.second
        ),
        None => "a time that is out of range".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn dates_of_real_servers_are_read() {
        for (text, seconds) in [
            // The date is the example in RFC 9110. The seconds were computed with date(1).
            ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777),
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
            ("Thu, 29 Feb 2024 23:59:60 GMT", 1_709_251_200),
            ("Sat, 21 Nov 2026 03:28:02 GMT", 1_795_231_682),
        ] {
            assert_eq!(parse_http_date(text), Some(at(seconds)), "{text}");
        }
        assert_eq!(shown(at(1_795_231_682)), "2026-11-21 03:28:02 UTC");
    }

    #[test]
    fn an_invalid_date_gives_none() {
        for text in [
            "",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 CET",
            "Sun, 06 Nov 1994 08:49 GMT",
            "Sun, 06 Nov 1994 24:00:00 GMT",
            "Sun, 31 Nov 1994 08:49:37 GMT",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "Sun, 29 Feb 2023 08:49:37 GMT",
            "Sun, 06 Nov 1969 08:49:37 GMT",
            "Sun, 06 Nov 9999 08:49:37 GMT",
            "Sun, +6 Nov 1994 08:49:37 GMT",
            "Mon, 06 Nov 1994 08:49:37 GMT",
            "Xxx, 06 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:61 GMT",
            "Sun, 06 nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 3000 08:49:37 GMT",
        ] {
            assert_eq!(parse_http_date(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_moment_is_read_back_from_its_date(seconds in 0_u64..32_000_000_000) {
            let text = httpdate::fmt_http_date(at(seconds));
            prop_assert_eq!(parse_http_date(&text), Some(at(seconds)));
            let then = civil(at(seconds)).unwrap();
            let shown = format!(
                "{:02} {:04} {:02}:{:02}:{:02}",
                then.day, then.year, then.hour, then.minute, then.second
            );
            let words: Vec<&str> = text.split(' ').collect();
            prop_assert_eq!(shown, [words[1], words[3], words[4]].join(" "));
        }
    }
}
