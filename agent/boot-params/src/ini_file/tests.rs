use std::collections::BTreeMap;

use super::*;
use proptest::prelude::*;

fn read(text: &str) -> BTreeMap<String, String> {
    let file = IniFile::parse(text);
    file.assignments
        .into_iter()
        .filter_map(|a| {
            let value = without_escapes(&a.value)?;
            Some((format!("{}.{}", a.group, a.option), value))
        })
        .collect()
}

fn characters(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        out.push(match c {
            '\\' => match chars.next().unwrap() {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                other => other,
            },
            other => other,
        });
    }
    out
}

#[test]
fn reads_what_oslo_config_reads() {
    let table = include_str!("../../test_data/ini/as_oslo_config_reads.txt");
    let mut judged = 0;
    for row in table.lines().filter(|row| !row.starts_with('#')) {
        let (text, expected) = row.split_once(" | ").unwrap();
        let expected: BTreeMap<String, String> = expected
            .split(" & ")
            .filter_map(|pair| pair.split_once('='))
            .map(|(key, value)| (key.to_owned(), characters(value)))
            .collect();
        let mut found = read(&characters(text));
        let options = ["DEFAULT.a", "DEFAULT.b", "mdns.a", "mdns.b"];
        found.retain(|key, _| options.contains(&key.as_str()));
        assert_eq!(found, expected, "{text}");
        judged += 1;
    }
    assert!(judged > 30, "only {judged} rows");
}

#[test]
fn lines_that_oslo_config_rejects_are_left_out_and_reported() {
    // A text, the assignments that are read from it, and the faults.
    type Case = (
        &'static str,
        &'static [(&'static str, &'static str)],
        &'static [(usize, &'static str)],
    );
    let cases: &[Case] = &[
        (
            "a = 1\n[DEFAULT]\nb = 2\n",
            &[("DEFAULT.b", "2")],
            &[(1, "expected a group such as [DEFAULT] before it; ignored")],
        ),
        (
            "[DEFAULT]\na = 1\n\n  2\n",
            &[("DEFAULT.a", "1")],
            &[(
                4,
                "indented line without a value before it to continue; ignored",
            )],
        ),
        (
            "[DEFAULT]\na = 1\n# c\n  2\n",
            &[("DEFAULT.a", "1")],
            &[(
                4,
                "indented line without a value before it to continue; ignored",
            )],
        ),
        (
            "[DEFAULT]\nnothing\n= x\na = 1\n",
            &[("DEFAULT.a", "1")],
            &[
                (2, "expected NAME = VALUE; ignored"),
                (3, "no name before the value; ignored"),
            ],
        ),
        (
            "[DEFAULT]\na = 1\n[mdns\na = 2\n[mdns]\nb = 3\n",
            &[("DEFAULT.a", "1"), ("mdns.b", "3")],
            &[
                (3, "expected [GROUP]; ignored up to the next group"),
                (4, "expected a group such as [DEFAULT] before it; ignored"),
            ],
        ),
        (
            "[]\n",
            &[],
            &[(1, "expected [GROUP]; ignored up to the next group")],
        ),
        ("\u{feff}[DEFAULT]\na = 1\n", &[("DEFAULT.a", "1")], &[]),
    ];
    for (text, expected, faults) in cases {
        let expected: BTreeMap<_, _> = expected
            .iter()
            .map(|(key, value)| (key.to_string(), value.to_string()))
            .collect();
        assert_eq!(read(text), expected, "{text:?}");
        assert_eq!(IniFile::parse(text).faults, *faults, "{text:?}");
    }
}

#[test]
fn references_to_other_options_are_not_followed() {
    for text in ["$a", "x${a}", "$a.b", "$_", "$$$a"] {
        assert_eq!(without_escapes(text), None, "{text}");
    }
    assert_eq!(without_escapes("\\$a $5 $").as_deref(), Some("$a $5 $"));
}

#[test]
fn no_file_is_read_beyond_the_limit() {
    let line = "a = 1\n";
    let text = format!("[DEFAULT]\n{}", line.repeat(MAX_LENGTH / line.len() + 1));
    let file = IniFile::parse(&text);
    assert_eq!(file.faults.len(), 1);
    assert!(file.assignments.len() <= MAX_LENGTH / line.len());
    // In the first text the limit falls inside a character. The second text has only
    // faults.
    let text = format!("x{}", "\u{e4}".repeat(MAX_LENGTH));
    assert_eq!(IniFile::parse(&text).faults.len(), 1);
    assert_eq!(IniFile::parse(&"x\n".repeat(1000)).faults.len(), MAX_FAULTS);
}

proptest! {
    #[test]
    fn written_settings_are_read_back(
        values in proptest::collection::vec(("[a-z_]{1,8}", "[!#%&(-~]([ !#%-~]{0,20}[!#%&(-~])?"), 0..8)
    ) {
        let mut text = "[DEFAULT]\n".to_owned();
        for (option, value) in &values {
            text.push_str(&format!("{option} = {value}\n"));
        }
        let file = IniFile::parse(&text);
        let found: Vec<_> = file.assignments.into_iter().map(|a| (a.option, a.value)).collect();
        prop_assert_eq!(found, values);
    }
}
