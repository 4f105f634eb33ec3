//! docs/my-host-hangs.md quotes the console. Each quoted text must be one that the
//! agent can print.

#![allow(clippy::unwrap_used, reason = "for tests")]

use std::fs;
use std::path::{Path, PathBuf};

use landfall_documentation::messages::listed;
use landfall_documentation::programs_texts::ProgramsTexts;
use serde_json::Value;

/// The first text in backquotes of each table row that starts with such a text.
fn quotes(page: &str) -> Vec<&str> {
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    rows.filter_map(|row| row.split('`').nth(1)).collect()
}

/// The part of a quoted text that is written in the source. Leaves out the name of a
/// step in front of its result, because code adds that name.
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

/// The quotes that docs/messages.md does not explain, and why.
const NOT_MESSAGES: [(&str, &str); 4] = [
    ("carrier FAILED: none", "a word of the screen"),
    ("DNS     FAILED:", "the text is the resolver's"),
    ("TCP     FAILED: connection refused", "the kernel's words"),
    ("not chosen:", "a heading of the screen"),
];

#[test]
fn every_quoted_text_is_among_the_messages() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let messages = listed(&fs::read_to_string(root.join("docs/messages.md")).unwrap());
    let page = fs::read_to_string(root.join("docs/my-host-hangs.md")).unwrap();
    let quotes = quotes(&page);
    for quote in &quotes {
        let is_exempt = NOT_MESSAGES.iter().any(|(exempt, _)| exempt == quote);
        assert_ne!(
            messages.contain(written(quote)),
            is_exempt,
            "{quote:?}: expected it either in docs/messages.md or in NOT_MESSAGES"
        );
    }
    for (exempt, _) in NOT_MESSAGES {
        assert!(quotes.contains(&exempt), "{exempt:?} is not quoted");
    }
}

/// The failed steps, the faults of the network and the last error of the example
/// `status`.
fn failures_of(status: &Value) -> Vec<&str> {
    let nics = status["network"]["nics"].as_array().into_iter().flatten();
    let ways = nics.filter_map(|nic| nic["way"].as_array()).flatten();
    let failed = ways.filter(|step| step["outcome"] == "failed");
    let faults = status["network"]["faults"].as_array().into_iter().flatten();
    failed
        .map(|step| &step["text"])
        .chain(faults)
        .chain([&status["last_error"]["text"], &status["network"]["no_nic"]])
        .filter_map(Value::as_str)
        .collect()
}

#[test]
fn every_failure_of_an_example_is_among_the_messages() {
    let agent = Path::new(env!("CARGO_MANIFEST_DIR"));
    let messages = listed(&fs::read_to_string(agent.join("../docs/messages.md")).unwrap());
    let mut unknown = Vec::new();
    let mut count = 0;
    for entry in fs::read_dir(agent.join("report/test_data/status-screen")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|kind| kind != "json") {
            continue;
        }
        let status: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        for text in failures_of(&status) {
            count += 1;
            // The carrier step shows only `none` if no cable is connected.
            if text != "none" && !messages.contain_line(text) {
                unknown.push(format!("{}: {text}", path.display()));
            }
        }
    }
    assert!(
        unknown.is_empty(),
        "docs/messages.md has no row for:\n{}",
        unknown.join("\n")
    );
    assert!(count >= 12, "{count}");
}

/// The rows that have an example: the quote, and the file of the screen.
fn examples(page: &str) -> Vec<(&str, &str)> {
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    rows.filter_map(|row| {
        let quote = row.split('`').nth(1)?;
        let (_, link) = row.split_once("[screen](")?;
        Some((quote, link.split(')').next()?))
    })
    .collect()
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn every_quoted_text_is_on_its_example() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let page = fs::read_to_string(docs.join("my-host-hangs.md")).unwrap();
    let examples = examples(&page);
    // The two other screens show a machine that works.
    assert_eq!(examples.len(), 17);
    for (quote, link) in examples {
        let screen = words(&fs::read_to_string(docs.join(link)).unwrap());
        assert!(screen.contains(&words(quote)), "{link} has no {quote:?}");
    }
}

/// The texts of the example `status` that must be in the source: names of steps, reasons,
/// remedies and events.
fn texts_of(status: &Value) -> Vec<String> {
    let mut texts = vec![&status["done"], &status["step"]["name"]];
    texts.extend([&status["network"]["no_nic"], &status["progress"]["what"]]);
    let list = |value: &'static str| {
        let nics = status["network"]["nics"].as_array().into_iter().flatten();
        let ways = nics.filter_map(|nic| nic["way"].as_array()).flatten();
        ways.filter(|step| step["outcome"] != "done")
            .map(move |step| &step[value])
    };
    texts.extend(list("text").chain(list("remedy")));
    texts.extend(status["network"]["faults"].as_array().into_iter().flatten());
    for (object, fields) in [
        (&status["last_error"], ["text", "remedy"]),
        (&status["root_disk"], ["why", "remedy"]),
    ] {
        texts.extend(fields.map(|field| &object[field]));
    }
    let rejected = status["root_disk"]["rejected"].as_array();
    texts.extend(rejected.into_iter().flatten().map(|disk| &disk["why"]));
    let events = status["events"].as_array();
    texts.extend(events.into_iter().flatten().map(|event| &event["text"]));
    { texts.into_iter() }
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

/// The end-to-end tests compare the examples with the screens of real boots. This test is
/// much faster, and finds a text that has changed in the source but not in the examples.
#[test]
fn every_text_of_an_example_is_in_the_source() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("report/test_data/status-screen");
    let texts = ProgramsTexts::read().unwrap();
    let mut unknown = Vec::new();
    let paths = fs::read_dir(examples)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let is_json = |path: &PathBuf| path.extension().is_some_and(|kind| kind == "json");
    let mut count = 0;
    for path in paths.filter(is_json) {
        let status = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        for text in texts_of(&status) {
            count += 1;
            if !texts.contain_line(&text) {
                unknown.push(format!("{}: {text}", path.display()));
            }
        }
    }
    assert!(
        unknown.is_empty(),
        "no source prints:\n{}",
        unknown.join("\n")
    );
    assert!(count > 80, "{count}");
}

#[test]
fn every_example_of_a_screen_is_there() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let page = fs::read_to_string(docs.join("my-host-hangs.md")).unwrap();
    let links: Vec<&str> = { page.split("](").skip(1) }
        .filter_map(|rest| rest.split(')').next())
        .filter(|link| link.ends_with(".screen"))
        .collect();
    assert_eq!(links.len(), 19);
    for link in links {
        assert!(docs.join(link).is_file(), "{link}");
    }
}
