//! Records which crates the programs of a release are made of, for their SBOM.
//!
//! Dependencies and licences come from `cargo metadata`, digests from Cargo.lock. cargo
//! reports the features of the whole workspace together, so the list can contain a crate
//! that only another program of the workspace uses.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

const TARGET: &str = "x86_64-unknown-linux-gnu";

fn main() -> Result<(), Box<dyn Error>> {
    let workspace = Path::new(&std::env::var("CARGO_MANIFEST_DIR")?).join("..");
    let lock = workspace.join("Cargo.lock");
    println!("cargo::rerun-if-changed={}", lock.display());
    println!("cargo::rerun-if-changed=build.rs");
    let crates = match crates(&workspace, &lock) {
        Ok(crates) => crates,
        // The builder works without its list of crates; only `release` needs it.
        Err(error) => {
            println!("cargo::warning=cannot list the crates for the SBOM of a release: {error}");
            json!([])
        }
    };
    let file = Path::new(&std::env::var("OUT_DIR")?).join("crates.json");
    std::fs::write(file, crates.to_string())?;
    Ok(())
}

fn crates(workspace: &Path, lock: &Path) -> Result<Value, Box<dyn Error>> {
    let features: &[&str] = match std::env::var_os("CARGO_FEATURE_CONTROLLER") {
        Some(_) => &["--features", "landfall-image/controller"],
        None => &[],
    };
    let output = Command::new(std::env::var("CARGO")?)
        .args(["metadata", "--locked", "--format-version", "1"])
        .args(features)
        .args(["--filter-platform", TARGET, "--manifest-path"])
        .arg(workspace.join("Cargo.toml"))
        .output()?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(stderr.trim().replace('\n', " / ").into());
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let digests = digests(&std::fs::read_to_string(lock)?);
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let packages = list(&metadata["packages"]);
    let id_of = |package: &Value| {
        let text = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
        format!("{}@{}", text("name"), text("version"))
    };
    let ids: BTreeMap<&str, String> = packages
        .iter()
        .map(|package| (package["id"].as_str().unwrap_or_default(), id_of(package)))
        .collect();
    let mut dependencies: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for node in list(&metadata["resolve"]["nodes"]) {
        let normal = list(&node["deps"]).into_iter().filter(|dependency| {
            let kinds = list(&dependency["dep_kinds"]);
            kinds.iter().any(|kind| kind["kind"].is_null())
        });
        let name = |value: &Value| ids.get(value.as_str().unwrap_or_default()).cloned();
        let used = normal.filter_map(|dependency| name(&dependency["pkg"]));
        if let Some(user) = name(&node["id"]) {
            dependencies.insert(user, used.collect());
        }
    }
    let recorded = packages.iter().map(|package| {
        let id = id_of(package);
        let targets = list(&package["targets"]);
        let is_proc_macro = targets
            .iter()
            .any(|target| list(&target["kind"]).contains(&json!("proc-macro")));
        json!({
            "name": package["name"],
            "version": package["version"],
            "license": package["license"],
            "sha256": digests.get(&id),
            "is_proc_macro": is_proc_macro,
            "dependencies": dependencies.get(&id).cloned().unwrap_or_default(),
        })
    });
    Ok(recorded.collect())
}

/// The digests in Cargo.lock, by `NAME@VERSION`. cargo writes each field on its own line:
/// first the name, then the version, then the checksum.
fn digests(lock: &str) -> BTreeMap<String, String> {
    let mut digests = BTreeMap::new();
    let (mut name, mut version) = ("", "");
    for line in lock.lines() {
        let Some((key, value)) = line.split_once(" = ") else {
            continue;
        };
        let value = value.trim_matches('"');
        match key {
            "name" => name = value,
            "version" => version = value,
            "checksum" => {
                digests.insert(format!("{name}@{version}"), value.to_owned());
            }
            _ => {}
        }
    }
    digests
}
