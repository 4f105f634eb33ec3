//! Numbers and times as people read them.

use std::time::{Duration, SystemTime};

/// The size in the units of the builder: a megabyte has a million bytes.
pub(super) fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

/// `1 host`, `2 hosts`.
pub(super) fn counted(count: u64, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
}

/// `12 s ago`
pub(super) fn ago(time: SystemTime, now: SystemTime) -> String {
    // The clock may have been set back.
    let age = now.duration_since(time).unwrap_or(Duration::ZERO).as_secs();
    match age {
        0..120 => format!("{age} s ago"),
        120..7_200 => format!("{} min ago", age / 60),
        7_200..172_800 => format!("{} h ago", age / 3600),
        _ => format!("{} days ago", age / 86400),
    }
}

/// Rounded down: only a whole file has 100 %.
pub(super) fn percent(part: u64, whole: u64) -> u64 {
    match whole {
        0 => 100,
        _ => u64::try_from(u128::from(part) * 100 / u128::from(whole)).unwrap_or(100),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_ages() {
        let sizes = [999, 1_000, 41_453_568].map(size);
        assert_eq!(sizes, ["999 bytes", "1.0 kB", "41.5 MB"]);
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let ages = [0, 119, 120, 7_199, 7_200, 172_800]
            .map(|age| ago(now - Duration::from_secs(age), now));
        let expected = [
            "0 s ago",
            "119 s ago",
            "2 min ago",
            "119 min ago",
            "2 h ago",
            "2 days ago",
        ];
        assert_eq!(ages, expected);
        assert_eq!(ago(now + Duration::from_secs(9), now), "0 s ago");
        assert_eq!(
            [percent(999, 1_000), percent(5, 5), percent(0, 0)],
            [99, 100, 100]
        );
        assert_eq!(percent(u64::MAX, u64::MAX), 100);
        assert_eq!(
            [counted(1, "host"), counted(0, "host")],
            ["1 host", "0 hosts"]
        );
    }
}
