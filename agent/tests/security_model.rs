//! docs/security-model.md names a test for each promise, and names every file with
//! `unsafe`. The tests below check both.

#![allow(clippy::unwrap_used, reason = "for tests")]

mod source_files;
mod test_functions;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use source_files::source_files;
use test_functions::tests_in;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn page() -> String {
    fs::read_to_string(root().join("docs/security-model.md")).unwrap()
}

/// Maps the name of each test in the repository to whether a run without further
/// options skips the test.
fn tests() -> BTreeMap<String, bool> {
    let mut tests = BTreeMap::new();
    for part in ["agent", "image-build", "initramfs", "tests"] {
        for file in source_files(&root().join(part)) {
            tests.extend(tests_in(&fs::read_to_string(file).unwrap()));
        }
    }
    tests
}

/// The rows of the page's tables of promises, as promise and tests.
fn promises(page: &str) -> Vec<(&str, &str)> {
    let mut promises = Vec::new();
    let mut is_inside = false;
    for line in page.lines() {
        if !line.starts_with("| ") {
            is_inside &= line.starts_with("|--");
        } else if line == "| promise | test |" {
            is_inside = true;
        } else if is_inside {
            let row = line.trim_matches('|').rsplit_once(" | ");
            let (promise, tests) = row.unwrap_or_else(|| panic!("no tests: {line}"));
            promises.push((promise.trim(), tests.trim()));
        }
    }
    promises
}

/// The texts in backquotes, and whether an asterisk follows each.
fn quoted(text: &str) -> Vec<(&str, bool)> {
    let parts: Vec<&str> = text.split('`').collect();
    { parts.windows(2).skip(1).step_by(2) }
        .map(|pair| (pair[0], pair[1].starts_with('*')))
        .collect()
}

/// Whether a word looks like the name of a test, which has at least three underscores,
/// and not like the name of an option.
fn is_name_of_a_test(word: &str) -> bool {
    let is_of_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    word.chars().all(is_of_name) && word.matches('_').count() >= 3
}

#[test]
fn every_promise_has_a_test() {
    let tests = tests();
    assert!(tests.len() > 1000, "{}", tests.len());
    let page = page();
    let promises = promises(&page);
    assert!(promises.len() > 30, "{}", promises.len());
    for (promise, cell) in promises {
        let names = quoted(cell);
        for (name, _) in &names {
            assert!(tests.contains_key(*name), "no such test: {name}");
        }
        let is_tested = names.iter().any(|(name, _)| !tests[*name]);
        assert!(is_tested, "only ignored tests: {promise}");
    }
}

/// Checks the names in sentences too, not only the names in tables.
#[test]
fn every_test_on_the_page_is_one_and_an_asterisk_marks_those_that_are_left_out() {
    let tests = tests();
    let mut count = 0;
    for line in page().lines() {
        for (name, is_marked) in quoted(line) {
            if is_name_of_a_test(name) {
                let is_ignored = tests.get(name);
                assert!(is_ignored.is_some(), "no such test: {name}");
                assert_eq!(is_ignored, Some(&is_marked), "{name}");
                count += 1;
            }
        }
    }
    assert!(count > 60, "{count}");
}

#[test]
fn the_inventory_of_unsafe_code_is_complete() {
    let directory = root().join("agent/sys/src");
    let mut found = BTreeMap::new();
    for file in source_files(&directory) {
        let blocks = fs::read_to_string(&file)
            .unwrap()
            .matches("unsafe {")
            .count();
        if blocks > 0 {
            let name = file.strip_prefix(&directory).unwrap().display().to_string();
            found.insert(name, blocks);
        }
    }
    let page = page();
    let (_, inventory) = page.split_once("## Unsafe code").unwrap();
    let listed: BTreeMap<String, usize> = { inventory.lines() }
        .filter_map(|line| {
            let mut cells = line.strip_prefix("| `")?.split('|');
            let name = cells.next()?.trim().trim_end_matches('`').to_owned();
            Some((name, cells.next()?.trim().parse().ok()?))
        })
        .collect();
    assert_eq!(found, listed);
}
