//! Reads a directory with one file for each host, as OpenShift's
//! image-customization static server does. The name of the file is the name of the
//! host.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use landfall_boot_params::dracut_net::is_host_name;
use landfall_host_manifests::{Given, Identity, Reading, host};
use landfall_network_plan::Document;

use super::{EmptyFile, read_text};

/// Adds every host of the directory. If `reading` already has the host without a network,
/// the host gets the network from its file in the directory. Returns the empty files.
pub(super) fn read(directory: &Path, reading: &mut Reading) -> Result<Vec<EmptyFile>> {
    let looking = || format!("cannot look for hosts in {}", directory.display());
    let mut paths: Vec<PathBuf> = fs::read_dir(directory)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect())
        .with_context(looking)?;
    paths.sort();
    let mut found = false;
    let mut empty_files = Vec::new();
    // The first host of a name, because `rules` reports the others.
    let mut places: HashMap<String, usize> = HashMap::new();
    for (place, given) in reading.given.iter().enumerate() {
        if let Some(name) = &given.host.host_name {
            places.entry(name.clone()).or_insert(place);
        }
    }
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // Skip the hidden files and directories that editors and version control leave.
        if name.starts_with('.') || path.is_dir() {
            continue;
        }
        let title = path.display().to_string();
        let Some((name, kind, document)) = host_file(&path, &name, &title, &mut reading.faults)?
        else {
            continue;
        };
        found = true;
        if !is_host_name(name) {
            reading.faults.push(format!(
                "{title}: expected the name of a host before .{kind}, found {name:?}"
            ));
            continue;
        }
        if document == Document::None {
            empty_files.push(EmptyFile {
                host: name.to_owned(),
                title: title.clone(),
            });
        }
        match places.get(name).map(|&place| &mut reading.given[place]) {
            Some(given) if given.host.document == Document::None => {
                given.title = title;
                given.host.document = document;
            }
            Some(given) => {
                let other = &given.title;
                reading.faults.push(format!(
                    "{title}: the network of {name} is already in {other}"
                ));
            }
            None => {
                places.insert(name.to_owned(), reading.given.len());
                let host = host(Some(name.to_owned()), document);
                reading.given.push(Given {
                    title,
                    host,
                    identity: Identity::InNetwork,
                });
            }
        }
    }
    if !found {
        let directory = directory.display();
        reading.faults.push(format!(
            "{directory}: expected files HOSTNAME.yaml or HOSTNAME.json, found none"
        ));
    }
    Ok(empty_files)
}

/// The parts of the name before and after its last dot, and the content. `None`, with a
/// fault, if the directory may not have this file.
fn host_file<'n>(
    path: &Path,
    name: &'n str,
    title: &str,
    faults: &mut Vec<String>,
) -> Result<Option<(&'n str, &'n str, Document)>> {
    // Reject a pipe: the builder would wait for it without saying so.
    if !path.is_file() {
        faults.push(format!("{title}: expected a file"));
        return Ok(None);
    }
    let Some((name, kind)) = name.rsplit_once('.') else {
        faults.push(bad_name(title));
        return Ok(None);
    };
    let text = read_text(path)?;
    let document = match kind {
        // An empty file is a host without a network of its own.
        _ if text.trim().is_empty() => Document::None,
        "yaml" | "yml" => Document::NmState(text),
        "json" => Document::NetworkData(text),
        _ => {
            faults.push(bad_name(title));
            return Ok(None);
        }
    };
    Ok(Some((name, kind, document)))
}

fn bad_name(title: &str) -> String {
    format!("{title}: expected a name that ends in .yaml (NMState) or .json (network_data)")
}
