use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::*;

fn cases() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("test_data/nmstate");
    let mut cases: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    cases.sort();
    cases
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What gen_conf has written, by name.
fn keyfiles_of(case: &Path) -> BTreeMap<String, String> {
    fs::read_dir(case)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "nmconnection"))
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, read(&path))
        })
        .collect()
}

/// Every case of `tests/nmstate-oracle`: what it writes we write, letter by
/// letter, and what it refuses we refuse. What we refuse besides has a reason
/// with its path, in `faults`.
#[test]
fn we_write_and_refuse_what_nmstate_does() {
    let cases = cases();
    assert!(cases.len() >= 60, "{}", cases.len());
    let mut wrong = Vec::new();
    for case in &cases {
        let name = case.file_name().unwrap().to_str().unwrap();
        let found = NetworkPlan::from_nmstate(&read(&case.join("input.yml")));
        let faults = case.join("faults");
        match found {
            Ok(plan) => {
                let files = plan.keyfiles().into_iter();
                let ours: BTreeMap<_, _> = files.map(|file| (file.name, file.text)).collect();
                if case.join("refusal").exists() || faults.exists() {
                    wrong.push(format!("{name}: taken, and should be refused"));
                } else if ours != keyfiles_of(case) {
                    wrong.push(format!("{name}: {}", difference(&ours, &keyfiles_of(case))));
                }
            }
            Err(lines) => {
                let ours = lines.join("\n") + "\n";
                if !faults.exists() || ours != read(&faults) {
                    wrong.push(format!("{name}: refused\n{ours}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn difference(ours: &BTreeMap<String, String>, theirs: &BTreeMap<String, String>) -> String {
    let mut lines = Vec::new();
    let names = ours
        .keys()
        .chain(theirs.keys().filter(|n| !ours.contains_key(*n)));
    for name in names {
        let split = |files: &BTreeMap<String, String>| -> Vec<String> {
            let text = files.get(name).cloned().unwrap_or_default();
            text.lines().map(str::to_owned).collect()
        };
        let (ours, theirs) = (split(ours), split(theirs));
        lines.extend(
            ours.iter()
                .filter(|l| !theirs.contains(l))
                .map(|l| format!("{name} + {l}")),
        );
        lines.extend(
            theirs
                .iter()
                .filter(|l| !ours.contains(l))
                .map(|l| format!("{name} - {l}")),
        );
    }
    lines.join("\n")
}
