//! The modules of this crate depend on each other in one direction only, the
//! direction of the data (ARCHITECTURE.md): each takes what an earlier one hands
//! over and never calls a later one. Between the crates, cargo sees to it.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A module may use the modules before it.
const ROW: &[&str] = &[
    "http_options",
    "mdns_question",
    "live_system",
    "logs",
    "rescue",
    "ironic",
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

fn allowed(module: &str) -> Option<&'static [&'static str]> {
    let at = ROW.iter().position(|name| *name == module)?;
    Some(&ROW[..at])
}

/// The modules that the source names as `crate::NAME`, except in comments.
fn used(source: &str) -> BTreeSet<&str> {
    source
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(|line| {
            // Skips `crate::` at the end of a longer name, such as `gpt_crate::`.
            line.match_indices("crate::")
                .filter(|(at, _)| !line[..*at].ends_with(is_of_a_name))
                .map(|(at, path)| &line[at + path.len()..])
        })
        .map(|rest| {
            let end = rest.find(|c: char| !is_of_a_name(c));
            &rest[..end.unwrap_or(rest.len())]
        })
        .collect()
}

fn is_of_a_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn sources(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(sources(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    Ok(found)
}

#[test]
fn every_module_uses_only_what_stands_before_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = sources(&root).unwrap();
    files.sort();
    let mut faults = Vec::new();
    let mut judged = 0;
    for file in files {
        let name = file.strip_prefix(&root).unwrap().to_str().unwrap();
        if EXEMPT.iter().any(|exempt| name.starts_with(exempt)) {
            continue;
        }
        let module = name.split(['/', '.']).next().unwrap();
        let Some(allowed) = allowed(module) else {
            faults.push(format!("{name}: give the module {module} its place above"));
            continue;
        };
        for used in used(&fs::read_to_string(&file).unwrap()) {
            judged += 1;
            if used != module && !allowed.contains(&used) {
                let allowed = allowed.join(", ");
                faults.push(format!(
                    "{name} uses crate::{used}; {module} may use {allowed}"
                ));
            }
        }
    }
    assert!(
        judged > 20,
        "only {judged} uses found: are these the sources?"
    );
    assert!(
        faults.is_empty(),
        "against the direction of ARCHITECTURE.md:\n{}",
        faults.join("\n")
    );
}
