//! Parses the header `Range` (RFC 9110, section 14). The answers are the same as
//! those of Go's `http.ServeContent`, because BMCs and their tools have been tested
//! with it. The exceptions:
//!
//! * An unknown unit is ignored, as the RFC demands.
//! * `bytes=-0` cannot be satisfied; Go answers with an empty part.
//! * A range of an empty file cannot be satisfied; Go sends the empty file.
//! * Ranges are sorted, and ranges that overlap or touch are joined.
//! * A request for more than 8 parts gets the whole file.

use std::ops::Range;

/// The largest number of parts in one answer. A client that asks for more gets the
/// whole file.
const MAX_PARTS: usize = 8;

/// What to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// The whole file, as without the header.
    Whole,
    One(Range<u64>),
    /// At least two ranges, sorted, that neither overlap nor touch.
    Several(Vec<Range<u64>>),
    /// None of the ranges is in the file, or one of the ranges is invalid.
    Unsatisfiable,
}

/// Reads the header for a file of `size` bytes.
#[must_use]
pub fn select(header: &str, size: u64) -> Selection {
    let Some((unit, list)) = header.split_once('=') else {
        return Selection::Whole;
    };
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return Selection::Whole;
    }
    let mut ranges = Vec::new();
    let mut any_outside = false;
    for spec in list
        .split(',')
        .map(str::trim)
        .filter(|spec| !spec.is_empty())
    {
        match parse(spec, size) {
            Some(Part::Inside(range)) => ranges.push(range),
            Some(Part::Outside) => any_outside = true,
            None => return Selection::Unsatisfiable,
        }
    }
    if ranges.is_empty() {
        return match any_outside {
            true => Selection::Unsatisfiable,
            false => Selection::Whole,
        };
    }
    // A request for more bytes than the file has is an attack or comes from a faulty
    // client (RFC 9110, section 14.2).
    let asked = ranges
        .iter()
        .try_fold(0_u64, |sum, range| sum.checked_add(range.end - range.start));
    if asked.is_none_or(|asked| asked > size) {
        return Selection::Whole;
    }
    let mut joined = join(ranges);
    match joined.len() {
        1 => Selection::One(joined.remove(0)),
        2..=MAX_PARTS => Selection::Several(joined),
        _ => Selection::Whole,
    }
}

enum Part {
    Inside(Range<u64>),
    Outside,
}

/// Parses `A-B`, `A-` or `-N`. `None` if it is none of these.
fn parse(spec: &str, size: u64) -> Option<Part> {
    let (first, last) = spec.split_once('-')?;
    let (first, last) = (first.trim(), last.trim());
    if first.is_empty() {
        let count = number(last)?.min(size);
        return Some(match count {
            0 => Part::Outside,
            count => Part::Inside(size - count..size),
        });
    }
    let first = number(first)?;
    let last = match last {
        "" => u64::MAX,
        last => number(last)?,
    };
    if first > last {
        return None;
    }
    Some(match first >= size {
        true => Part::Outside,
        false => Part::Inside(first..last.min(size - 1) + 1),
    })
}

/// A number of digits only. A number that does not fit into 63 bits is invalid, as in Go.
fn number(text: &str) -> Option<u64> {
    let all_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = all_digits.then(|| text.parse::<i64>().ok())??;
    u64::try_from(number).ok()
}

fn join(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;
    use Selection::{One, Several, Unsatisfiable, Whole};
    use proptest::prelude::*;

    #[test]
    fn the_table() {
        let many: Vec<String> = (0..9).map(|at| format!("{0}-{0}", at * 10)).collect();
        let many = format!("bytes={}", many.join(","));
        let eight = many.rsplit_once(',').unwrap().0;
        let overflow = "bytes=0-99999999999999999999";
        for (header, expected) in [
            ("bytes=0-9", One(0..10)),
            ("bytes=10-", One(10..100)),
            ("bytes=0-0", One(0..1)),
            ("bytes=99-99", One(99..100)),
            ("bytes=90-200", One(90..100)),
            ("bytes=90-9223372036854775807", One(90..100)),
            ("bytes=-10", One(90..100)),
            ("bytes=-200", One(0..100)),
            ("bytes=0-99", One(0..100)),
            ("BYTES=0-9", One(0..10)),
            ("bytes= 0 - 9 , ", One(0..10)),
            ("bytes=-0", Unsatisfiable),
            ("bytes=100-", Unsatisfiable),
            ("bytes=100-200", Unsatisfiable),
            ("bytes=0-4,10-14", Several(vec![0..5, 10..15])),
            ("bytes=10-14,0-4", Several(vec![0..5, 10..15])),
            ("bytes=0-4,5-9", One(0..10)),
            ("bytes=0-20,10-30", One(0..31)),
            ("bytes=5-8,5-8", One(5..9)),
            ("bytes=0-4,200-300", One(0..5)),
            ("bytes=200-,-0", Unsatisfiable),
            ("bytes=0-99,0-0", Whole),
            ("bytes=0-,0-,0-", Whole),
            (many.as_str(), Whole),
            ("bytes=9-5", Unsatisfiable),
            ("bytes=0-4,9-5", Unsatisfiable),
            ("bytes=a-b", Unsatisfiable),
            ("bytes=5", Unsatisfiable),
            ("bytes=-", Unsatisfiable),
            ("bytes=--5", Unsatisfiable),
            ("bytes=+1-5", Unsatisfiable),
            ("bytes=1-+5", Unsatisfiable),
            ("bytes=0x1-5", Unsatisfiable),
            (overflow, Unsatisfiable),
            ("bytes=99999999999999999999-", Unsatisfiable),
            ("bytes=9223372036854775808-", Unsatisfiable),
            ("bytes=-99999999999999999999", Unsatisfiable),
            ("bytes=", Whole),
            ("bytes=,", Whole),
            ("bytes", Whole),
            ("", Whole),
            ("items=0-5", Whole),
        ] {
            assert_eq!(select(header, 100), expected, "{header}");
        }
        assert!(matches!(select(eight, 100), Several(parts) if parts.len() == 8));
        for header in ["bytes=0-", "bytes=-1", "bytes=0-0"] {
            assert_eq!(select(header, 0), Unsatisfiable, "{header}");
        }
    }

    proptest! {
        #[test]
        fn selected_ranges_are_in_the_file_and_disjoint(
            header in "(bytes=)?[0-9, -]{0,40}",
            size in 0u64..2000,
        ) {
            let ranges = match select(&header, size) {
                One(range) => vec![range],
                Several(ranges) => {
                    prop_assert!(ranges.len() >= 2);
                    ranges
                }
                Whole | Unsatisfiable => Vec::new(),
            };
            for range in &ranges {
                prop_assert!(range.start < range.end && range.end <= size);
            }
            for pair in ranges.windows(2) {
                prop_assert!(pair[0].end < pair[1].start);
            }
        }

        #[test]
        fn never_panics(header: String, size: u64) {
            let _ = select(&header, size);
        }
    }
}
