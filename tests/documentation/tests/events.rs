//! docs/events.md names every field of the schema, and no other.

use std::collections::{BTreeMap, BTreeSet};

use landfall_documentation::blocks;
use landfall_documentation::events_schema::{EventsSchema, Form};
use landfall_documentation::page::{Page, page};
use landfall_documentation::tables::{quoted, rows_below};
use serde_json::Value;

/// The heading of the section whose first table describes the fields of each form. The
/// page describes the field `v` above all these sections.
const SECTIONS: [(Form, &str); 3] = [
    (Form::Event, "## An event"),
    (Form::Status, "## The status"),
    (Form::Report, "## The webhook"),
];

/// Texts in backquotes that are neither fields nor their values: the mark before a
/// remedy, a value of several fields, and an address.
const OTHER_WORDS: [&str; 3] = [" -- ", "null", "/status.json"];

fn is_table_of_fields(row: &[&str], fields: &BTreeMap<String, Vec<String>>) -> bool {
    quoted(row[0]).all(|name| fields.contains_key(name.trim_end_matches("[]")))
}

/// The rows of the table of fields: the path of each field, and the description.
fn described<'a>(
    page: &'a Page,
    heading: &str,
    fields: &BTreeMap<String, Vec<String>>,
) -> Vec<(&'a str, &'a str)> {
    let rows = rows_below(page, heading);
    let last = rows.iter().position(|row| !is_table_of_fields(row, fields));
    let rows = &rows[..last.unwrap_or(rows.len())];
    { rows.iter() }
        .flat_map(|row| quoted(row[0]).map(|name| (name, row[1])))
        .collect()
}

#[test]
fn every_field_of_the_schema_is_described_and_no_other() {
    let schema = EventsSchema::read().unwrap();
    let page = page("docs/events.md").unwrap();
    let of_status = schema.fields(Form::Status);
    for (form, heading) in SECTIONS {
        let fields = schema.fields(form);
        let rows = described(&page, heading, &fields);
        // The table of the report also names the events that a report can be for, and
        // fields of the status.
        let mut everywhere: Vec<&str> = OTHER_WORDS.to_vec();
        if form == Form::Report {
            everywhere.extend(fields["event"].iter().map(String::as_str));
            everywhere.extend(of_status.keys().map(String::as_str));
        }
        let mut missing: BTreeSet<&str> = fields.keys().map(String::as_str).collect();
        missing.remove("v");
        let mut unknown = Vec::new();
        for (name, description) in &rows {
            let path = name.trim_end_matches("[]");
            missing.remove(path);
            let mut known = everywhere.clone();
            for (field, values) in &fields {
                let inner = field
                    .strip_prefix(name)
                    .and_then(|rest| rest.strip_prefix('.'));
                let is_own = field == path;
                // Fields of fields have rows of their own.
                let is_direct = inner.is_some_and(|inner| !inner.contains(['.', '[']));
                if !is_own && !is_direct {
                    continue;
                }
                known.extend(inner);
                known.extend(values.iter().map(String::as_str));
                if quoted(description).any(|word| Some(word) == inner) {
                    missing.remove(field.as_str());
                }
                let without: Vec<&String> = { values.iter() }
                    .filter(|value| !quoted(description).any(|word| word == **value))
                    .collect();
                let has_table = *field == "event";
                assert!(
                    without.is_empty() || has_table,
                    "{heading}: {name} lacks {without:?}"
                );
            }
            unknown.extend(quoted(description).filter(|word| !known.contains(word)));
        }
        assert!(missing.is_empty(), "{heading} lacks {missing:?}");
        assert!(
            unknown.is_empty(),
            "{heading}: the schema lacks {unknown:?}"
        );
    }
}

#[test]
fn every_event_of_the_webhook_is_described() {
    let schema = EventsSchema::read().unwrap();
    let page = page("docs/events.md").unwrap();
    let fields = schema.fields(Form::Report);
    let rows = rows_below(&page, "## The webhook");
    let events: Vec<&str> = { rows.iter() }
        .skip_while(|row| is_table_of_fields(row, &fields))
        .flat_map(|row| quoted(row[0]))
        .collect();
    assert_eq!(events, fields["event"]);
}

#[test]
fn the_examples_fit_the_schema() {
    let schema = EventsSchema::read().unwrap();
    let page = page("docs/events.md").unwrap();
    let examples: Vec<Value> = { blocks(&page).into_iter() }
        .filter_map(|block| serde_json::from_str(&block.text).ok())
        .collect();
    let [event, report] = &examples[..] else {
        panic!("{examples:#?}");
    };
    assert_eq!(schema.fault(Form::Event, event), None);
    // Its status is cut, as the page says.
    let fault = schema.fault(Form::Report, report).unwrap();
    let (fault, _) = fault.split_once("\n{").unwrap();
    let places = fault.lines().skip(1);
    let others: Vec<&str> = places
        .filter(|line| !line.contains("at '/status"))
        .collect();
    assert!(others.is_empty(), "{fault}");
}
