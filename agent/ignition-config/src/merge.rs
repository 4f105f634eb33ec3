//! Merges a config with the configs inside it, as Ignition does: a later config
//! overrides an earlier one (`ignition.config.merge`).

use std::collections::BTreeMap;

use serde_json::Value;

use crate::resource::{Decoder, ResourceError};
use crate::spec::{Config, File, Ignition, Passwd, References, Resource, Storage, Systemd, Unit};
use crate::{InvalidConfig, add};

/// How deep configs may be inside each other. coreos-installer makes one level.
const DEEPEST: usize = 4;
/// The maximum number of files, and of units, that are read.
const MOST: usize = 4096;

/// The files, units and certificate authorities of all configs.
#[derive(Default)]
pub(crate) struct Merged {
    pub(crate) files: BTreeMap<String, MergedFile>,
    pub(crate) units: BTreeMap<String, Unit>,
    pub(crate) authorities: Vec<Resource>,
}

/// One path, which several configs can describe.
#[derive(Default)]
pub(crate) struct MergedFile {
    contents: Option<Resource>,
    append: Vec<Resource>,
}

impl MergedFile {
    /// The content with everything that is appended to it.
    pub(crate) fn content(&self, decoder: &mut Decoder) -> Result<Vec<u8>, ResourceError> {
        let mut content = Vec::new();
        for resource in self.contents.iter().chain(&self.append) {
            content.append(&mut decoder.decode(resource)?);
        }
        Ok(content)
    }
}

impl Merged {
    /// Adds a line to `left` for each part that the agent does not apply.
    ///
    /// # Errors
    /// If the outer config is invalid. An invalid config inside it becomes a line.
    pub(crate) fn read(
        bytes: &[u8],
        decoder: &mut Decoder,
        left: &mut Vec<String>,
    ) -> Result<Merged, InvalidConfig> {
        let mut merged = Merged::default();
        merged.add_config(bytes, 0, decoder, left)?;
        Ok(merged)
    }

    fn add_config(
        &mut self,
        bytes: &[u8],
        depth: usize,
        decoder: &mut Decoder,
        left: &mut Vec<String>,
    ) -> Result<(), InvalidConfig> {
        let config: Config = serde_json::from_slice(bytes)
            .map_err(|error| InvalidConfig::Json(error.to_string()))?;
        let Ignition {
            version,
            config: references,
            security,
            others,
        } = config.ignition;
        let version = version.unwrap_or_default();
        if !version.starts_with("3.") {
            let version = version.chars().take(20).collect();
            return Err(InvalidConfig::Version(version));
        }
        report_sections(&others, "ignition.", "the agent has its own", left);
        report_sections(&config.others, "", "the ramdisk does not apply it", left);
        if let Some(storage) = config.storage {
            self.add_files(storage, left);
        }
        if let Some(systemd) = config.systemd {
            self.add_units(systemd, left);
        }
        if let Some(passwd) = config.passwd {
            report_accounts(passwd, left);
        }
        let tls = security.and_then(|security| security.tls);
        let authorities = tls.and_then(|tls| tls.authorities).unwrap_or_default();
        self.authorities.extend(authorities);
        self.authorities.truncate(MOST);
        if let Some(references) = references {
            self.add_references(references, depth, decoder, left);
        }
        Ok(())
    }

    /// Adds the configs inside this one. The agent fetches none from a server.
    fn add_references(
        &mut self,
        references: References,
        depth: usize,
        decoder: &mut Decoder,
        left: &mut Vec<String>,
    ) {
        if references
            .replace
            .is_some_and(|resource| resource.source.is_some())
        {
            let words = "the agent applies this config instead of the other one";
            add(left, "ignition.config.replace", words);
        }
        for (index, resource) in references.merge.unwrap_or_default().iter().enumerate() {
            let path = format!("ignition.config.merge[{index}]");
            if depth >= DEEPEST {
                let words = format!("expected at most {DEEPEST} configs inside each other");
                add(left, &path, words);
                continue;
            }
            let bytes = match decoder.decode(resource) {
                Ok(bytes) => bytes,
                Err(error) => {
                    add(left, &path, error);
                    continue;
                }
            };
            if let Err(error) = self.add_config(&bytes, depth + 1, decoder, left) {
                add(left, &path, error);
            }
        }
    }

    fn add_files(&mut self, storage: Storage, left: &mut Vec<String>) {
        let words = "the ramdisk does not apply it";
        report_sections(&storage.others, "storage.", words, left);
        for (index, entry) in storage.files.unwrap_or_default().into_iter().enumerate() {
            let file: File = match serde_json::from_value(entry) {
                Ok(file) => file,
                Err(error) => {
                    add(left, &format!("storage.files[{index}]"), error);
                    continue;
                }
            };
            if self.files.len() >= MOST && !self.files.contains_key(&file.path) {
                let words = format!("expected at most {MOST} files; the rest is ignored");
                return add(left, "storage.files", words);
            }
            let merged = self.files.entry(file.path).or_default();
            if let Some(contents) = file.contents {
                merged.contents = Some(contents.over(merged.contents.take()));
            }
            merged.append.extend(file.append.unwrap_or_default());
        }
    }

    fn add_units(&mut self, systemd: Systemd, left: &mut Vec<String>) {
        for (index, entry) in systemd.units.unwrap_or_default().into_iter().enumerate() {
            let unit: Unit = match serde_json::from_value(entry) {
                Ok(unit) => unit,
                Err(error) => {
                    add(left, &format!("systemd.units[{index}]"), error);
                    continue;
                }
            };
            if self.units.len() >= MOST && !self.units.contains_key(&unit.name) {
                let words = format!("expected at most {MOST} units; the rest is ignored");
                return add(left, "systemd.units", words);
            }
            let merged = self.units.entry(unit.name.clone()).or_default();
            merged.mask = unit.mask.or(merged.mask);
            merged.contents = unit.contents.or(merged.contents.take());
            let mut dropins = merged.dropins.take().unwrap_or_default();
            for dropin in unit.dropins.unwrap_or_default() {
                dropins.retain(|known| known.name != dropin.name);
                dropins.push(dropin);
            }
            merged.dropins = Some(dropins);
        }
    }
}

/// Lists the members that contain something.
fn report_sections(
    members: &BTreeMap<String, Value>,
    prefix: &str,
    words: &str,
    left: &mut Vec<String>,
) {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.values().all(Value::is_null),
        _ => false,
    };
    for (name, _) in members.iter().filter(|(_, value)| !is_empty(value)) {
        add(left, &format!("{prefix}{name}"), words);
    }
}

fn report_accounts(passwd: Passwd, left: &mut Vec<String>) {
    let words = "the ramdisk has no accounts";
    for user in passwd.users.unwrap_or_default() {
        add(left, &format!("user {}", user.name), words);
    }
    for group in passwd.groups.unwrap_or_default() {
        add(left, &format!("group {}", group.name), words);
    }
}
