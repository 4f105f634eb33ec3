//! Tests that the modules of this crate depend on each other in one direction only, the
//! direction of the data (ARCHITECTURE.md): a module uses the results of earlier
//! modules and never calls a later one. The same rule applies to the crates below
//! `agent`. cargo only rejects cycles, so this test checks the manifests of these
//! crates. This crate may use all of them, so the test also checks which crates each of
//! its modules uses.

#![allow(clippy::unwrap_used, reason = "for tests")]

mod source_files;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use source_files::source_files;

/// The crates below `agent` in the order of ARCHITECTURE.md's tree: each may use the
/// crates before it.
const CRATES: &[&str] = &[
    "boot-params",
    "ignition-config",
    "media-formats",
    "network-plan",
    "status-page",
    "module-index",
    "sys",
    "parser-child",
    "report",
    "http-client",
    "devices",
    "download",
    "settings",
    "init",
    "live-system",
    "network",
    "network-form",
    "nvme-boot",
    "iscsi",
    "discovery",
    "inventory",
    "ironic",
    "logs",
    "syslog",
    "webhook",
    "disk",
    "handover",
    "installation",
];

/// The modules in order: each may use the modules before it.
const ROW: &[&str] = &[
    "parsers",
    "http_options",
    "mdns_question",
    "rescue",
    "commands",
    "api",
];

/// These modules connect all others, so the rule does not apply to them.
const EXEMPT: &[&str] = &[
    "cli.rs",
    "compatibility.rs",
    "lib.rs",
    "main.rs",
    "stages.rs",
    "stages/",
    "tools.rs",
    "tools/",
];

/// The crates from the disk on: only the code that executes commands uses them.
const LATE: &[&str] = &["disk", "handover", "installation"];
const EXECUTES: &[&str] = &["commands/execute.rs", "commands/execute/"];

fn allowed(module: &str) -> Option<&'static [&'static str]> {
    let at = ROW.iter().position(|name| *name == module)?;
    Some(&ROW[..at])
}

/// The names that follow `prefix` in the source, except in comments: modules after
/// `crate::`, crates after `landfall_`.
fn used<'a>(source: &'a str, prefix: &str) -> BTreeSet<&'a str> {
    source
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(|line| {
            // Skips the prefix at the end of a longer name, such as `gpt_crate::`.
            line.match_indices(prefix)
                .filter(|(at, _)| !line[..*at].ends_with(is_of_a_name))
                .map(|(at, path)| &line[at + path.len()..])
        })
        .map(|rest| {
            let end = rest.find(|c: char| !is_of_a_name(c));
            &rest[..end.unwrap_or(rest.len())]
        })
        .collect()
}

/// Returns a message for each use in this file that breaks the rule, and the number of
/// all uses.
fn judge(name: &str, source: &str) -> (Vec<String>, usize) {
    let is_one_of = |list: &[&str]| list.iter().any(|start| name.starts_with(start));
    if is_one_of(EXEMPT) {
        return (Vec::new(), 0);
    }
    let module = name
        .split_once(['/', '.'])
        .map_or(name, |(module, _)| module);
    let Some(allowed) = allowed(module) else {
        let fault = format!("{name}: give the module {module} its place above");
        return (vec![fault], 0);
    };
    let mut faults = Vec::new();
    let (modules, crates) = (used(source, "crate::"), used(source, "landfall_"));
    for used in &modules {
        if *used != module && !allowed.contains(used) {
            let allowed = allowed.join(", ");
            faults.push(format!(
                "{name} uses crate::{used}; {module} may use {allowed}"
            ));
        }
    }
    for used in &crates {
        if LATE.contains(used) && !is_one_of(EXECUTES) {
            let may = EXECUTES.join(" and ");
            faults.push(format!("{name} uses landfall_{used}; only {may} may"));
        }
    }
    (faults, modules.len() + crates.len())
}

fn is_of_a_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The crates of this workspace that a manifest lists, except those that only tests use.
fn dependencies(manifest: &str) -> Vec<&str> {
    let mut is_listing = false;
    let mut found = Vec::new();
    for line in manifest.lines().filter(|line| !line.starts_with('#')) {
        if line.starts_with('[') {
            is_listing = line.contains("dependencies") && !line.contains("dev-dependencies");
        }
        if let Some((_, rest)) = line.split_once("landfall-")
            && is_listing
        {
            let end = rest.find(|c: char| !is_of_a_name(c) && c != '-');
            found.push(&rest[..end.unwrap_or(rest.len())]);
        }
    }
    found
}

/// Returns a message for each dependency of this crate that breaks the rule.
fn judge_crate(name: &str, manifest: &str) -> Vec<String> {
    let Some(at) = CRATES.iter().position(|other| *other == name) else {
        return vec![format!("give the crate {name} its place above")];
    };
    let dependencies = dependencies(manifest).into_iter();
    dependencies
        .filter(|used| !CRATES[..at].contains(used))
        .map(|used| format!("{name} depends on {used}, which does not stand before it"))
        .collect()
}

#[test]
fn every_crate_depends_only_on_crates_before_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut faults = Vec::new();
    let mut judged = 0;
    for entry in fs::read_dir(root).unwrap() {
        let entry = entry.unwrap();
        let Ok(manifest) = fs::read_to_string(entry.path().join("Cargo.toml")) else {
            continue;
        };
        faults.extend(judge_crate(entry.file_name().to_str().unwrap(), &manifest));
        judged += dependencies(&manifest).len();
    }
    assert!(
        judged > 50,
        "only {judged} dependencies found: are these the manifests?"
    );
    assert!(
        faults.is_empty(),
        "against the direction of ARCHITECTURE.md:\n{}",
        faults.join("\n")
    );
}

#[test]
fn the_order_of_the_crates_is_that_of_the_architecture() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ARCHITECTURE.md");
    let page = fs::read_to_string(page).unwrap();
    let tree: Vec<&str> = page
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("├── agent/"))
        .filter_map(|rest| rest.split_whitespace().next())
        .collect();
    assert_eq!(tree, CRATES);
}

#[test]
fn a_dependency_on_a_later_crate_is_a_fault() {
    for (name, manifest, expected) in [
        (
            "webhook",
            "[dependencies]\nlandfall-disk.workspace = true",
            1,
        ),
        (
            "syslog",
            "[dependencies]\nlandfall-webhook = { path = \"a\" }",
            1,
        ),
        (
            "ironic",
            "[dependencies.landfall-disk]\nworkspace = true",
            1,
        ),
        (
            "logs",
            "[build-dependencies]\nx = { package = \"landfall-disk\" }",
            1,
        ),
        ("newcomer", "", 1),
        (
            "logs",
            "[dependencies]\n# landfall-disk\nlandfall-sys.workspace = true",
            0,
        ),
        (
            "logs",
            "[dependencies]\n\n[dev-dependencies]\nlandfall-disk.workspace = true",
            0,
        ),
        ("logs", "[package]\nname = \"landfall-logs\"", 0),
    ] {
        let faults = judge_crate(name, manifest);
        assert_eq!(faults.len(), expected, "{name}: {manifest}: {faults:?}");
    }
}

#[test]
fn every_module_uses_only_modules_before_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = source_files(&root);
    files.sort();
    let mut faults = Vec::new();
    let mut judged = 0;
    for file in files {
        let name = file.strip_prefix(&root).unwrap().to_str().unwrap();
        let (found, uses) = judge(name, &fs::read_to_string(&file).unwrap());
        faults.extend(found);
        judged += uses;
    }
    assert!(
        judged > 100,
        "only {judged} uses found: are these the sources?"
    );
    assert!(
        faults.is_empty(),
        "against the direction of ARCHITECTURE.md:\n{}",
        faults.join("\n")
    );
}

#[test]
fn a_use_of_a_later_module_is_a_fault() {
    for (name, source, expected) in [
        ("api/routes.rs", "use landfall_disk::erase;", 1),
        ("parsers.rs", "let x = landfall_handover::kexec::load();", 1),
        ("rescue.rs", "use landfall_installation::Servers;", 1),
        ("rescue.rs", "use crate::commands::Node;", 1),
        ("newcomer.rs", "", 1),
        ("rescue.rs", "use landfall_devices::disk_sets;", 0),
        ("rescue.rs", "// use landfall_disk::erase;", 0),
        ("commands/execute/a.rs", "use landfall_disk::erase;", 0),
        ("commands/ledger.rs", "use landfall_disk::erase;", 1),
        ("stages/home.rs", "use landfall_disk::erase;", 0),
    ] {
        let (faults, _) = judge(name, source);
        assert_eq!(faults.len(), expected, "{name}: {source}: {faults:?}");
    }
}
