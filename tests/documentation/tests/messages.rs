//! docs/messages.md lists the errors and warnings that are in the source.

use std::fs;

use landfall_documentation::messages::{PAGE, with_generated, without_meaning};
use landfall_documentation::page::{page, repository};

#[test]
fn the_page_of_messages_is_that_of_the_source() {
    let found = page(PAGE).unwrap().text;
    let expected = with_generated(&found).unwrap();
    assert!(
        expected.lines().count() > 400,
        "{}",
        expected.lines().count()
    );
    if std::env::var_os("LANDFALL_UPDATE_DOCS").is_some() {
        fs::write(repository().join(PAGE), expected).unwrap();
        return;
    }
    let first = expected.lines().zip(found.lines()).find(|(a, b)| a != b);
    assert!(
        found == expected,
        "{PAGE} is old: run `make docs`; the first difference: {first:#?}"
    );
}

/// The page is for a person who does not know the source. What a message itself does
/// not explain must be in the same row.
#[test]
fn every_message_has_a_meaning() {
    let page = page(PAGE).unwrap().text;
    let without = without_meaning(&page);
    assert!(
        without.is_empty(),
        "{PAGE}: write what these messages mean into their last column, before `->`: {without:#?}"
    );
}
