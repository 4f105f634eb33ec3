//! Merges a config with the configs inside it, as Ignition does: a later config
//! overrides an earlier one (`ignition.config.merge`).

use std::collections::BTreeMap;

use crate::member::{Member, Members, WrongType, most_values};
use crate::resource::{Decoder, ResourceError};
use crate::spec::{File, Resource, Unit};
use crate::{InvalidConfig, MOST_VALUES, add, check_version};

/// The maximum depth of configs inside each other. coreos-installer makes one level.
const DEEPEST: usize = 4;
/// The maximum number of files, of units and of certificate authorities that are read.
const MOST: usize = 4096;

/// The files, units and certificate authorities of all configs.
#[derive(Default)]
pub(crate) struct Merged {
    pub(crate) files: BTreeMap<String, MergedFile>,
    pub(crate) units: BTreeMap<String, Unit>,
    /// The certificate authorities, each with the place in the config that names it.
    pub(crate) authorities: Vec<(String, Resource)>,
    /// The number of JSON values in all configs.
    values: usize,
}

/// A file that several configs may describe.
#[derive(Default)]
pub(crate) struct MergedFile {
    contents: Option<Resource>,
    append: Vec<Resource>,
}

impl MergedFile {
    /// The content of the file, including all appended contents.
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
    /// If the outer config is invalid. An invalid config inside it is no error: it
    /// becomes a line in the list of parts that are not applied.
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
        self.values += most_values(bytes);
        if self.values > MOST_VALUES {
            return Err(InvalidConfig::TooManyValues);
        }
        let mut config = Member::of_config(bytes)?.object()?;
        let mut ignition = config.object("ignition")?.unwrap_or_default();
        check_version(ignition.text("version")?.as_deref())?;
        let mut part = |members: &mut Members, name| or_line(members.object(name), left);
        let references = part(&mut ignition, "config");
        let mut security = part(&mut ignition, "security").unwrap_or_default();
        let tls = part(&mut security, "tls").unwrap_or_default();
        let [storage, systemd, passwd] =
            ["storage", "systemd", "passwd"].map(|name| part(&mut config, name));
        report_others(&ignition, "the agent has its own", left);
        report_others(&config, "the ramdisk does not apply it", left);
        self.add_files(storage.unwrap_or_default(), left);
        self.add_units(systemd.unwrap_or_default(), left);
        report_accounts(passwd.unwrap_or_default(), left);
        self.add_authorities(tls, left);
        self.add_references(references.unwrap_or_default(), depth, decoder, left);
        Ok(())
    }

    fn add_authorities(&mut self, mut tls: Members, left: &mut Vec<String>) {
        for entry in or_line(tls.list("certificateAuthorities"), left) {
            let path = entry.path.clone();
            if let Some(authority) = or_line(Resource::read(entry).map(Some), left) {
                self.authorities.push((path, authority));
            }
        }
        self.authorities.truncate(MOST);
    }

    /// Adds the configs inside this one. The agent does not fetch a config from a server.
    fn add_references(
        &mut self,
        mut references: Members,
        depth: usize,
        decoder: &mut Decoder,
        left: &mut Vec<String>,
    ) {
        let replace = references.object("replace").and_then(Resource::of);
        if or_line(replace, left).is_some_and(|resource| resource.source.is_some()) {
            let words = "the agent applies this config instead of the other one";
            add(left, "ignition.config.replace", words);
        }
        for entry in or_line(references.list("merge"), left) {
            let path = entry.path.clone();
            let Some(resource) = or_line(Resource::read(entry).map(Some), left) else {
                continue;
            };
            if depth >= DEEPEST {
                let words = format!("expected at most {DEEPEST} configs inside each other");
                add(left, &path, words);
                continue;
            }
            let bytes = match decoder.decode(&resource) {
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

    fn add_files(&mut self, mut storage: Members, left: &mut Vec<String>) {
        let files = or_line(storage.list("files"), left);
        report_others(&storage, "the ramdisk does not apply it", left);
        for entry in files {
            let Some(file) = or_line(File::read(entry).map(Some), left) else {
                continue;
            };
            if self.files.len() >= MOST && !self.files.contains_key(&file.path) {
                let words = format!("expected at most {MOST} files; the rest is ignored");
                return add(left, "storage.files", words);
            }
            let merged = self.files.entry(file.path).or_default();
            if let Some(contents) = file.contents {
                merged.contents = Some(contents.over(merged.contents.take()));
            }
            merged.append.extend(file.append);
        }
    }

    fn add_units(&mut self, mut systemd: Members, left: &mut Vec<String>) {
        for entry in or_line(systemd.list("units"), left) {
            let Some(unit) = or_line(Unit::read(entry).map(Some), left) else {
                continue;
            };
            if self.units.len() >= MOST && !self.units.contains_key(&unit.name) {
                let words = format!("expected at most {MOST} units; the rest is ignored");
                return add(left, "systemd.units", words);
            }
            let merged = self.units.entry(unit.name.clone()).or_default();
            merged.mask = unit.mask.or(merged.mask);
            merged.contents = unit.contents.or(merged.contents.take());
            for dropin in unit.dropins {
                merged.dropins.retain(|known| known.name != dropin.name);
                merged.dropins.push(dropin);
            }
        }
    }
}

/// Returns the part. If the part has an unexpected type, adds a line to `left` and
/// returns an empty part.
fn or_line<T: Default>(part: Result<T, WrongType>, left: &mut Vec<String>) -> T {
    part.unwrap_or_else(|error| {
        add(left, &error.path, &error);
        T::default()
    })
}

/// Adds a line for each member that was not read.
fn report_others(members: &Members, words: &str, left: &mut Vec<String>) {
    for path in members.others() {
        add(left, &path, words);
    }
}

fn report_accounts(mut passwd: Members, left: &mut Vec<String>) {
    for (list, word) in [("users", "user"), ("groups", "group")] {
        for entry in or_line(passwd.list(list), left) {
            let name = entry
                .object()
                .and_then(|mut members| members.required_text("name"));
            if let Some(name) = or_line(name.map(Some), left) {
                add(
                    left,
                    &format!("{word} {name}"),
                    "the ramdisk has no accounts",
                );
            }
        }
    }
}
