//! docs/compatibility.md names the tests and scenarios that show what it promises. This
//! test checks that all of them exist, and that the tests of the platforms are where
//! the page says.

#![allow(clippy::unwrap_used, reason = "for tests")]

mod source_files;
mod test_functions;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use source_files::source_files;
use test_functions::tests_in;

/// If a sentence on the page starts with the first text, the files of the tests in it are
/// at the path in the second text.
const PLACES: [(&str, &str); 2] = [
    ("release: ", "image-build/tests/command_line/release.rs"),
    ("judges: ", "image-build/tests/release/"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Maps the name of each test in the repository to the files that have a test of this
/// name.
fn tests() -> BTreeMap<String, Vec<String>> {
    let mut tests: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for part in ["agent", "image-build", "initramfs", "tests"] {
        for file in source_files(&root().join(part)) {
            let place = file.strip_prefix(root()).unwrap().display().to_string();
            for (name, _) in tests_in(&fs::read_to_string(file).unwrap()) {
                tests.entry(name).or_default().push(place.clone());
            }
        }
    }
    tests
}

/// The names of the scenarios under the real Ironic. In the source, the call of a macro
/// lists them as `NAME: Plan`.
fn scenarios() -> BTreeSet<String> {
    let source = fs::read_to_string(root().join("tests/ironic/tests/scenarios.rs")).unwrap();
    let names = source.lines().filter_map(|line| line.split_once(": Plan"));
    names.map(|(name, _)| name.trim().to_owned()).collect()
}

/// The cells of this column, counted from 0, in the table with this header.
fn column<'a>(page: &'a str, header: &str, number: usize) -> Vec<&'a str> {
    let parts = page.split_once(header);
    let (_, table) = parts.unwrap_or_else(|| panic!("no table {header}"));
    // The first two lines are the rest of the header and the line below it.
    let lines = table.lines().skip(2);
    let rows = lines.take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let cell = row.split('|').nth(number + 1);
        cell.unwrap_or_else(|| panic!("no column {number}: {row}"))
            .trim()
    })
    .collect()
}

/// The words in backquotes, and whether the page calls each a scenario.
fn quoted(text: &str) -> Vec<(&str, bool)> {
    let parts: Vec<&str> = text.split('`').collect();
    { parts.windows(2).step_by(2) }
        .map(|pair| (pair[1], pair[0].ends_with("scenario ")))
        .collect()
}

/// Whether a word looks like the name of a test, which has at least three underscores,
/// and not like the name of an option.
fn is_name_of_a_test(word: &str) -> bool {
    let is_of_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    word.chars().all(is_of_name) && word.matches('_').count() >= 3
}

#[test]
fn every_test_on_the_page_is_where_the_page_says() {
    let (tests, scenarios) = (tests(), scenarios());
    assert!(scenarios.len() > 10, "{scenarios:?}");
    let page = fs::read_to_string(root().join("docs/compatibility.md")).unwrap();
    let platforms = "| platform | name or setting | test, or reason for none |";
    let mut cells = column(&page, platforms, 2);
    cells.extend(column(&page, "| answer | the agent |", 0));
    let mut count = 0;
    for part in cells.iter().flat_map(|cell| cell.split("; ")) {
        for sentence in part.split(". ") {
            let place = PLACES
                .iter()
                .find(|(words, _)| sentence.starts_with(words))
                .map_or("", |(_, place)| *place);
            for (word, is_scenario) in quoted(sentence) {
                if is_scenario {
                    assert!(scenarios.contains(word), "no such scenario: {word}");
                } else if is_name_of_a_test(word) {
                    let files = tests.get(word);
                    let files = files.unwrap_or_else(|| panic!("no such test: {word}"));
                    assert!(
                        files.iter().any(|file| file.starts_with(place)),
                        "{word}: expected in {place}, found in {files:?}"
                    );
                } else {
                    continue;
                }
                count += 1;
            }
        }
    }
    assert!(count > 30, "{count}");
}
