//! Makes outputs of a service comparable, in which numbers differ from run to run.

/// The length of the id of a version in a URL of the image service.
const ID: usize = 26;

/// The names of days and months in the dates of HTTP headers (RFC 9110, 5.6.7).
const DAYS_AND_MONTHS: [&str; 19] = [
    "Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun", "Jan", "Feb", "Mar", "Apr", "May", "Jun",
    "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// Replaces all numbers by one number, all ids by one id, and all names of days and
/// months by one name, and removes the spaces before a number of another length.
pub(super) fn with_any_numbers(text: &str) -> String {
    text.lines()
        .map(|line| line_with_any_numbers(line) + "\n")
        .collect()
}

fn line_with_any_numbers(line: &str) -> String {
    let mut changed = String::new();
    let mut rest = line.trim_end();
    while let Some(first) = rest.chars().next() {
        let is_word = first.is_ascii_alphanumeric();
        let end = rest.find(|c: char| c.is_ascii_alphanumeric() != is_word);
        let (part, after) = rest.split_at(end.unwrap_or(rest.len()));
        rest = after;
        match is_word {
            true => changed.push_str(&word_with_any_number(part)),
            false => changed.push_str(&part.replace("  ", " ")),
        }
    }
    changed
}

fn word_with_any_number(word: &str) -> String {
    let is_id = |c: u8| matches!(c, b'a'..=b'z' | b'2'..=b'7');
    if word.len() == ID && word.bytes().all(is_id) {
        return "ID".to_owned();
    }
    if DAYS_AND_MONTHS.contains(&word) {
        return "DATE".to_owned();
    }
    // A unit stays, and so does a number that is part of a name.
    let unit = word.trim_start_matches(|c: char| c.is_ascii_digit());
    match unit.len() == word.len() {
        true => word.to_owned(),
        false => format!("0{unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbers_ids_and_dates_may_differ() {
        for (shown, printed, same) in [
            (
                "[  0.5s] up, base 41.5 MB\n",
                "[ 10.0s] up, base 0.1 MB\n",
                true,
            ),
            ("[  0.5s] up\n", "[  0.5s] down\n", false),
            (
                "a http://127.0.0.1:8380/ceexjftnqcubvd5yc2latfpggu/a.iso",
                "a http://127.0.0.1:8380/hmdtsz2fqmyasjc2ztxrhfcvtu/a.iso",
                true,
            ),
            ("node1 up", "node2 up", false),
            (
                "Date: Mon, 23 Nov 2026 15:12:19 GMT",
                "Date: Tue, 1 Dec 2026 05:02:09 GMT",
                true,
            ),
            ("HTTP/1.1 200 OK", "HTTP/1.1 404 Not Found", false),
            ("\"complete\": true", "\"complete\": false", false),
        ] {
            let is_same = with_any_numbers(shown) == with_any_numbers(printed);
            assert_eq!(is_same, same, "{shown} {printed}");
        }
    }
}
