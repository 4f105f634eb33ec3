//! Compares docs/compatibility.md with the code and with Ironic's agent.
//!
//! The tests read the tables from the document itself. They check both directions: the
//! code must have everything that the document promises, and the document must list
//! everything that the code has.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use landfall_boot_params::agent_args::{IGNORED, NAMES, Names};
use landfall_boot_params::argument_value::StepPriority;
use landfall_inventory::collect::{CollectOptions, collect};
use landfall_inventory::collectors;
use landfall_sys::sys_tree::plant;
use serde_json::Value;

use crate::commands::command::{Command, StepKind};
use crate::commands::steps::{self, StepSettings};

/// The rows of the first table below a heading, each as its cells.
fn table(heading: &str) -> Vec<Vec<String>> {
    let document = read("../docs/compatibility.md");
    let heading = format!("# {heading}\n");
    let mut parts = document.split(&heading);
    let section = parts.nth(1).unwrap_or_else(|| panic!("no {heading}"));
    assert!(parts.next().is_none(), "twice: {heading}");
    let rows: Vec<Vec<String>> = section
        .lines()
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'))
        .map(|line| {
            let cells = line.trim_matches('|').split('|');
            cells.map(|cell| cell.trim().replace('`', "")).collect()
        })
        .collect();
    assert!(rows.len() > 2, "no table below {heading}");
    for row in &rows {
        assert_eq!(row.len(), rows[0].len(), "{heading}: {row:?}");
    }
    rows[2..].to_vec()
}

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// Whether Landfall has this feature, from the last two cells of a row: a
/// verdict and a note. Every verdict but `yes` needs a note that explains it.
fn is_there(row: &[String]) -> bool {
    let [.., verdict, note] = row else {
        panic!("{row:?}");
    };
    assert!(verdict == "yes" || !note.is_empty(), "{row:?}: why?");
    match verdict.as_str() {
        "yes" | "better" => true,
        "no" => false,
        _ => panic!("{row:?}: expected yes, no or better"),
    }
}

/// Checks that the table lists exactly the names in Ironic's agent, and that it
/// marks exactly the names in `known` as present.
fn compare(heading: &str, original: &str, known: &BTreeSet<String>) {
    let rows = table(heading);
    let names: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
    assert_same(heading, &names, original_names(original));
    let there = rows.iter().filter(|row| is_there(row));
    let there: BTreeSet<String> = there.map(|row| row[0].clone()).collect();
    assert_eq!(&there, known, "{heading}: the table and the code");
}

fn assert_same(heading: &str, names: &[&str], expected: BTreeSet<String>) {
    let set: BTreeSet<String> = names.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(set.len(), names.len(), "{heading}: a name stands twice");
    assert_eq!(set, expected, "{heading}: the table and Ironic's agent");
}

fn original_names(member: &str) -> BTreeSet<String> {
    let lists: Value =
        serde_json::from_str(&read("test_data/compatibility/original_agent.json")).unwrap();
    let list = lists[member].as_array().unwrap();
    let names = list.iter().map(|name| name.as_str().unwrap().to_owned());
    names.collect()
}

/// The kernel argument and the option of a setting, as the table shows them. If the
/// setting lacks one of the two, that text is empty.
type Pair = (String, String);

fn pair(names: &Names) -> Pair {
    let text = |name: Option<&str>| name.unwrap_or_default().to_owned();
    (text(names.argument), text(names.option))
}

#[test]
fn arguments_and_options() {
    let boot_interface = ("BOOTIF".to_owned(), String::new());
    let ignored = { IGNORED.iter() }.map(|found| (pair(&found.names), found.instead.is_some()));
    let mut unmentioned: BTreeMap<Pair, bool> = NAMES
        .iter()
        .map(|names| (pair(names), true))
        .chain(ignored)
        .chain([(boot_interface, true)])
        .collect();
    let mut look_at = |row: &[String], pair: Pair| {
        let has_effect = unmentioned.remove(&pair);
        // An argument that has no effect counts as absent, unless the agent behaves in
        // the same way without the argument.
        assert_eq!(is_there(row), has_effect == Some(true), "{row:?}");
    };

    let rows = table("Kernel arguments");
    let names: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
    assert_same("arguments", &names, original_names("kernel_arguments"));
    for row in &rows {
        look_at(row, (row[0].clone(), row[1].clone()));
    }
    let rows = table("Options without a kernel argument");
    let names: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
    assert_same("options", &names, original_names("options"));
    for row in &rows {
        look_at(row, (String::new(), row[0].clone()));
    }
    for row in &table("Arguments and options that Ironic's agent does not have") {
        look_at(row, (row[0].clone(), row[1].clone()));
    }
    assert!(unmentioned.is_empty(), "in no table: {unmentioned:?}");
}

#[test]
fn commands() {
    let known = Command::NAMES.map(str::to_owned).into_iter().collect();
    compare("Commands", "commands", &known);
}

#[test]
fn steps_with_their_priorities() {
    let settings = StepSettings {
        inject_files_priority: StepPriority(0),
        live_system: true,
    };
    let kinds = [StepKind::Clean, StepKind::Deploy, StepKind::Service];
    // The priorities of each step in cleaning, deployment and servicing, by the name of
    // the step.
    let mut known: BTreeMap<String, [String; 3]> = BTreeMap::new();
    for (at, kind) in kinds.into_iter().enumerate() {
        let answer = steps::list(kind, settings);
        let managers = answer[format!("{}_steps", kind.word())].as_object();
        let lists = managers.unwrap().values();
        for step in lists.flat_map(|list| list.as_array().unwrap()) {
            let name = step["step"].as_str().unwrap().to_owned();
            known.entry(name).or_default()[at] = step["priority"].to_string();
        }
    }
    compare("Steps", "steps", &known.keys().cloned().collect());
    for row in table("Steps") {
        let expected = known.get(&row[0]).cloned().unwrap_or_default();
        assert_eq!(row[1..4], expected, "{}", row[0]);
    }
}

#[test]
fn collectors_by_name() {
    let known = collectors::NAMES.map(|(name, _)| name.to_owned());
    compare("Collectors", "collectors", &known.into_iter().collect());
}

/// Landfall's inventory must have exactly the fields of the inventory of Ironic's agent.
/// The table may mark a field `no` only if the field is null on every machine of the test
/// data.
#[test]
fn fields_of_the_inventory() {
    let mut values: BTreeMap<String, bool> = BTreeMap::new();
    let directory = "inventory/test_data/sys_trees";
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(directory)).unwrap() {
        let root = plant(&fs::read_to_string(entry.unwrap().path()).unwrap());
        let options = CollectOptions {
            addresses: &BTreeMap::new(),
            bootif: None,
            hide_bmc_nics: true,
            service_nic: None,
            ask_drivers: false,
        };
        let (mut inventory, _) = collect(root.path(), options);
        // Set this field, because the inventory omits it if it is unknown.
        inventory.bmc_mac = Some(String::new());
        leaves("", &serde_json::to_value(inventory).unwrap(), &mut values);
    }
    let rows = table("Inventory");
    let names: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
    assert_same("fields", &names, original_names("inventory"));
    assert_same("fields of ours", &names, values.keys().cloned().collect());
    for row in rows {
        let is_known = values[&row[0]];
        assert!(is_there(&row) || !is_known, "{row:?}: but it has a value");
    }
}

/// Collects the path of every value except objects, lists of objects and empty lists, and
/// whether the value at that path is ever set.
fn leaves(path: &str, value: &Value, found: &mut BTreeMap<String, bool>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                let dot = if path.is_empty() { "" } else { "." };
                leaves(&format!("{path}{dot}{name}"), value, found);
            }
        }
        Value::Array(items) if items.is_empty() || items[0].is_object() => {
            for item in items {
                leaves(&format!("{path}[]"), item, found);
            }
        }
        _ => *found.entry(path.to_owned()).or_default() |= !value.is_null(),
    }
}

/// Compares the table with the measured answers of Ironic's agent to requests
/// without a token. A test of the API compares Landfall's answers with the same
/// file.
#[test]
fn paths_of_the_api() {
    let measured = read("src/api/test_data/paths-and-methods.txt");
    let expected: BTreeSet<Vec<String>> = measured
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>())
        .filter(|words| words[0] != "HEAD" && matches!(words[2], "200" | "401"))
        .filter(|words| words[1] == "/" || words[1].starts_with("/v1/"))
        .map(|words| {
            let path = words[1].replace("/x", "/ID");
            let token = if words[2] == "401" { "yes" } else { "no" };
            vec![words[0].to_owned(), path, token.to_owned()]
        })
        .collect();
    let rows = table("HTTP API");
    let documented: BTreeSet<Vec<String>> = rows.iter().map(|row| row[..3].to_vec()).collect();
    assert_eq!(documented, expected);
    assert_eq!(rows.len(), expected.len());
}
