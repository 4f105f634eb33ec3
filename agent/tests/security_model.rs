//! docs/security-model.md names a test for each promise, and every file with `unsafe`.
//! Both must be true.

#![allow(clippy::unwrap_used, reason = "for tests")]

mod source_files;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use source_files::source_files;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn page() -> String {
    fs::read_to_string(root().join("docs/security-model.md")).unwrap()
}

/// The table rows of the page after the heading, up to the next heading.
fn rows_until<'a>(page: &'a str, heading: &str) -> Vec<&'a str> {
    let (before, _) = page.split_once(heading).unwrap();
    let rows = before.lines().filter(|line| line.starts_with("| "));
    rows.filter(|row| !row.starts_with("| promise")).collect()
}

#[test]
fn every_promise_has_a_test() {
    let mut source = String::new();
    for part in [
        "agent",
        "image-build",
        "initramfs",
        "tests/e2e",
        "tests/src",
    ] {
        for file in source_files(&root().join(part)) {
            source.push_str(&fs::read_to_string(file).unwrap());
        }
    }
    let page = page();
    let promises = rows_until(&page, "## Not protected");
    assert!(promises.len() > 20, "{}", promises.len());
    for promise in promises {
        let tests = promise.rsplit('|').nth(1).unwrap();
        let names: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "no test: {promise}");
        for name in names {
            assert!(
                source.contains(&format!("fn {name}(")),
                "no such test: {name}"
            );
        }
    }
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
