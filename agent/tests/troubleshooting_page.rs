//! docs/my-host-hangs.md quotes the console. Each quoted text must be one that the
//! agent can print.

#![allow(clippy::unwrap_used, reason = "for tests")]

use std::fs;
use std::path::Path;

use landfall_documentation::programs_texts::ProgramsTexts;

/// The texts that stand before the first `|` of each row, between backquotes.
fn quotes(page: &str) -> Vec<&str> {
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    rows.filter_map(|row| row.split('`').nth(1)).collect()
}

/// The text without what is formatted by code and not written in it: the name of a step
/// in front of its result.
fn written(quote: &str) -> &str {
    match quote.split_once("FAILED: ") {
        Some((_, text)) => text,
        None => quote.trim_end_matches("FAILED:").trim_end(),
    }
}

#[test]
fn every_quoted_text_is_in_the_source() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let texts = ProgramsTexts::read().unwrap();
    let page = fs::read_to_string(root.join("docs/my-host-hangs.md")).unwrap();
    let quotes = quotes(&page);
    assert!(quotes.len() > 18, "{}", quotes.len());
    for quote in quotes {
        assert!(texts.contain(written(quote)), "no source prints {quote:?}");
    }
}

#[test]
fn every_example_of_a_screen_is_there() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let page = fs::read_to_string(docs.join("my-host-hangs.md")).unwrap();
    let links: Vec<&str> = { page.split("](").skip(1) }
        .filter_map(|rest| rest.split(')').next())
        .filter(|link| link.ends_with(".screen"))
        .collect();
    assert_eq!(links.len(), 17);
    for link in links {
        assert!(docs.join(link).is_file(), "{link}");
    }
}
