//! Each program says which crates it is made of, in the section `.dep-v0` that
//! cargo-auditable adds and that `cargo audit bin` reads.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;

use flate2::read::ZlibDecoder;
use object::read::elf::ElfFile64;
use object::{Object as _, ObjectSection as _};
use serde_json::Value;

use super::{release, repository};

/// The packages of Cargo.lock, as name and version.
fn locked() -> BTreeSet<(String, String)> {
    let text = fs::read_to_string(repository().join("Cargo.lock")).unwrap();
    let value = |line: &str, key: &str| Some(line.strip_prefix(key)?.trim_matches('"').to_owned());
    let lines: Vec<&str> = text.lines().collect();
    { lines.windows(2) }
        .filter_map(|pair| Some((value(pair[0], "name = ")?, value(pair[1], "version = ")?)))
        .collect()
}

fn audit_data(program: &str) -> Value {
    let bytes = fs::read(release().join(program)).unwrap();
    let file: ElfFile64<'_> = ElfFile64::parse(&*bytes).unwrap();
    let section = file.section_by_name(".dep-v0");
    let section = section.unwrap_or_else(|| panic!("{program}: no section .dep-v0"));
    let mut json = String::new();
    { ZlibDecoder::new(section.data().unwrap()).take(1 << 20) }
        .read_to_string(&mut json)
        .unwrap();
    serde_json::from_str(&json).unwrap()
}

#[test]
fn every_program_names_the_crates_that_it_is_made_of() {
    let locked = locked();
    assert!(locked.len() > 200, "{}", locked.len());
    for program in ["landfall-agent", "landfall-image"] {
        let data = audit_data(program);
        let packages = data["packages"].as_array().unwrap();
        let text = |package: &Value, key: &str| package[key].as_str().unwrap().to_owned();
        let named: BTreeSet<(String, String)> = { packages.iter() }
            .map(|package| (text(package, "name"), text(package, "version")))
            .collect();
        let unknown: Vec<_> = named.difference(&locked).collect();
        assert!(
            unknown.is_empty(),
            "{program}: not in Cargo.lock: {unknown:?}"
        );
        let root = packages.iter().find(|package| package["root"] == true);
        assert_eq!(text(root.unwrap(), "name"), program);
        for known in ["rustls", "ring", "tokio", "liblzma-sys"] {
            let has = named.iter().any(|(name, _)| name == known);
            assert!(has, "{program}: {known} is missing");
        }
    }
}
