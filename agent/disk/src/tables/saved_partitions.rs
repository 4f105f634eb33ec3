//! The filters that select the partitions to keep during an installation:
//! `--save-partlabel` and `--save-partindex` of coreos-installer. Does no I/O. The
//! partitions themselves are handled in `kept_partitions.rs`.

use std::fmt;

use crate::tables::gpt::Partition;

/// In bytes. A GPT label has at most 36 UTF-16 units, so a longer pattern is a
/// mistake.
const LONGEST_PATTERN: usize = 256;

/// A condition. The agent keeps every partition that meets at least one condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartitionFilter {
    /// The GPT name matches a shell pattern: `*`, `?`, `[a-z]`, `[!a-z]`.
    Label(Glob),
    /// The number is at least the first value and at most the second value. `None`
    /// means that there is no limit.
    Index(Option<u32>, Option<u32>),
}

/// Why a text is no filter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    #[error("partition numbers begin with 1, found 0")]
    Zero,
    /// Holds the digits.
    #[error("partition number {0} is too large")]
    TooLarge(String),
    #[error("expected a partition number or a range (4, 2-4, 5-, -3), found {0:?}")]
    NoRange(String),
    #[error("range {0:?} ends before it begins")]
    Backwards(String),
    /// Holds the length in bytes.
    #[error("expected a label pattern of at most {LONGEST_PATTERN} bytes, found {0}")]
    TooLong(usize),
    #[error("label pattern {0:?}: \"[\" without \"]\"")]
    OpenBracket(String),
}

impl PartitionFilter {
    /// Parses label patterns, separated by commas. An empty pattern matches a
    /// partition without a name.
    ///
    /// # Errors
    /// If a pattern has a bracket that is not closed, or is too long.
    pub fn parse_labels(text: &str) -> Result<Vec<Self>, FilterError> {
        text.split(',')
            .map(|pattern| Ok(Self::Label(Glob::parse(pattern)?)))
            .collect()
    }

    /// Parses numbers and ranges, separated by commas: `4`, `2-4`, `5-`, `-3`.
    ///
    /// # Errors
    /// If a number or range is malformed, is 0, is too large, or ends before it begins.
    pub fn parse_indexes(text: &str) -> Result<Vec<Self>, FilterError> {
        text.split(',').map(parse_range).collect()
    }

    pub fn matches(&self, partition: &Partition) -> bool {
        match self {
            Self::Label(glob) => glob.matches(&partition.name),
            Self::Index(first, last) => {
                first.is_none_or(|first| first <= partition.number)
                    && last.is_none_or(|last| partition.number <= last)
            }
        }
    }
}

/// For messages: `label "data*"`, `number 4`, `numbers 2-3`.
impl fmt::Display for PartitionFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |number: &Option<u32>| number.map_or_else(String::new, |n| n.to_string());
        match self {
            Self::Label(glob) => write!(f, "label {:?}", glob.text),
            Self::Index(first, last) if first == last => write!(f, "number {}", text(first)),
            Self::Index(first, last) => write!(f, "numbers {}-{}", text(first), text(last)),
        }
    }
}

fn parse_range(text: &str) -> Result<PartitionFilter, FilterError> {
    let number = |part: &str| match part {
        "" => Ok(None),
        // `parse` alone would accept "+4".
        digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => match digits.parse() {
            Ok(0) => Err(FilterError::Zero),
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(FilterError::TooLarge(digits.to_owned())),
        },
        other => Err(FilterError::NoRange(other.to_owned())),
    };
    let (first, last) = match text.split_once('-') {
        Some((first, last)) => (number(first)?, number(last)?),
        None => (number(text)?, number(text)?),
    };
    match (first, last) {
        (None, None) => Err(FilterError::NoRange(text.to_owned())),
        (Some(first), Some(last)) if first > last => Err(FilterError::Backwards(text.to_owned())),
        _ => Ok(PartitionFilter::Index(first, last)),
    }
}

/// A shell pattern for labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob {
    text: String,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Just(char),
    Any,
    AnyRun,
    OneOf {
        ranges: Vec<(char, char)>,
        negated: bool,
    },
}

impl Glob {
    fn parse(text: &str) -> Result<Self, FilterError> {
        if text.len() > LONGEST_PATTERN {
            return Err(FilterError::TooLong(text.len()));
        }
        let mut parts = Vec::new();
        let mut rest = text.chars();
        while let Some(char) = rest.next() {
            parts.push(match char {
                '?' => Part::Any,
                // Two `*` in a row mean the same as one `*`.
                '*' if parts.last() == Some(&Part::AnyRun) => continue,
                '*' => Part::AnyRun,
                '[' => {
                    let (set, after) = parse_set(rest.as_str())
                        .ok_or_else(|| FilterError::OpenBracket(text.to_owned()))?;
                    rest = after.chars();
                    set
                }
                other => Part::Just(other),
            });
        }
        Ok(Self {
            text: text.to_owned(),
            parts,
        })
    }

    /// The time is at most proportional to the length of the pattern times the length
    /// of the label, because only the most recent `*` is ever extended.
    fn matches(&self, label: &str) -> bool {
        let label: Vec<char> = label.chars().collect();
        let (mut at, mut part) = (0, 0);
        let mut run: Option<(usize, usize)> = None;
        while at < label.len() {
            match self.parts.get(part) {
                Some(Part::AnyRun) => {
                    part += 1;
                    run = Some((part, at));
                }
                Some(one) if one.takes(label[at]) => {
                    at += 1;
                    part += 1;
                }
                _ => match &mut run {
                    Some((after, taken_to)) => {
                        *taken_to += 1;
                        (part, at) = (*after, *taken_to);
                    }
                    None => return false,
                },
            }
        }
        self.parts[part..].iter().all(|part| *part == Part::AnyRun)
    }
}

impl Part {
    fn takes(&self, char: char) -> bool {
        match self {
            Self::Just(this) => *this == char,
            Self::Any => true,
            Self::AnyRun => false,
            Self::OneOf { ranges, negated } => {
                let among = |(from, to): &(char, char)| (*from..=*to).contains(&char);
                ranges.iter().any(among) != *negated
            }
        }
    }
}

/// Parses the text after `[`, and returns the set and the text after `]`. As in
/// shells, a `]` in the first place belongs to the set.
fn parse_set(text: &str) -> Option<(Part, &str)> {
    let (negated, body) = match text.strip_prefix('!') {
        Some(body) => (true, body),
        None => (false, text),
    };
    let first = body.chars().next()?;
    let end = first.len_utf8() + body[first.len_utf8()..].find(']')?;
    let chars: Vec<char> = body[..end].chars().collect();
    let mut ranges = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        if at + 2 < chars.len() && chars[at + 1] == '-' {
            ranges.push((chars[at], chars[at + 2]));
            at += 3;
        } else {
            ranges.push((chars[at], chars[at]));
            at += 1;
        }
    }
    Some((Part::OneOf { ranges, negated }, &body[end + 1..]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    fn partition(number: u32, name: &str) -> Partition {
        Partition {
            number,
            kind: Uuid::nil(),
            guid: Uuid::nil(),
            offset: 1 << 20,
            len: 1 << 20,
            name: name.to_owned(),
        }
    }

    #[test]
    fn labels_as_shells_match_them() {
        for (pattern, label, expected) in [
            ("data", "data", true),
            ("data", "Data", false),
            ("data", "data1", false),
            ("d*", "data", true),
            ("*", "", true),
            ("", "", true),
            ("", "x", false),
            ("?", "", false),
            ("z*b?", "zxxbby", true),
            ("z*b?", "zb", false),
            ("*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false),
            ("var-[0-9]", "var-7", true),
            ("var-[0-9]", "var-x", false),
            ("var-[!0-9]", "var-x", true),
            ("[]a]", "]", true),
            ("[a-]", "-", true),
            ("**x", "ax", true),
            ("d?t?", "dätä", true),
        ] {
            let filters = PartitionFilter::parse_labels(pattern).unwrap();
            let matched = filters[0].matches(&partition(1, label));
            assert_eq!(matched, expected, "{pattern} {label}");
        }
        assert_eq!(PartitionFilter::parse_labels("a*,b,").unwrap().len(), 3);
        for bad in ["[", "a[b", "[!", "[]", &"x".repeat(300)] {
            assert!(PartitionFilter::parse_labels(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_and_ranges() {
        let all = |text: &str| {
            let filters = PartitionFilter::parse_indexes(text).unwrap();
            (1..=9)
                .filter(|&number| {
                    let partition = partition(number, "");
                    filters.iter().any(|filter| filter.matches(&partition))
                })
                .collect::<Vec<u32>>()
        };
        assert_eq!(all("4"), [4]);
        assert_eq!(all("7-7"), [7]);
        assert_eq!(all("2-4"), [2, 3, 4]);
        assert_eq!(all("-3"), [1, 2, 3]);
        assert_eq!(all("7-"), [7, 8, 9]);
        assert_eq!(all("1,8-"), [1, 8, 9]);
        for (bad, word) in [
            ("", "found \"\""),
            ("-", "found \"-\""),
            ("0", "begin with 1"),
            ("0-3", "begin with 1"),
            ("4-2", "ends before"),
            ("x", "found \"x\""),
            ("1-2-3", "found \"2-3\""),
            ("+1", "found \"+1\""),
            ("1,", "found \"\""),
            ("4294967296", "too large"),
        ] {
            let reason = PartitionFilter::parse_indexes(bad).unwrap_err().to_string();
            assert!(reason.contains(word), "{bad}: {reason}");
        }
    }

    #[test]
    fn shown_as_written() {
        let shown = |filters: Vec<PartitionFilter>| {
            let shown: Vec<String> = filters.iter().map(ToString::to_string).collect();
            shown.join(", ")
        };
        assert_eq!(
            shown(PartitionFilter::parse_indexes("4,2-3,5-,-6").unwrap()),
            "number 4, numbers 2-3, numbers 5-, numbers -6"
        );
        assert_eq!(
            shown(PartitionFilter::parse_labels("data*").unwrap()),
            "label \"data*\""
        );
    }

    proptest! {
        #[test]
        fn any_text_never_panics(text in ".{0,40}", label in ".{0,40}") {
            let _ = PartitionFilter::parse_indexes(&text);
            for filter in PartitionFilter::parse_labels(&text).unwrap_or_default() {
                let _ = filter.matches(&partition(1, &label));
            }
        }

        #[test]
        fn a_label_without_signs_matches_itself_alone(label in "[a-zA-Z0-9 _-]{0,36}", other in "[a-zA-Z0-9 _-]{0,36}") {
            let filter = &PartitionFilter::parse_labels(&label).unwrap()[0];
            prop_assert!(filter.matches(&partition(1, &label)));
            prop_assert_eq!(filter.matches(&partition(1, &other)), label == other);
        }
    }
}
