//! `root-device`: prints which of the given disks root device hints choose.

use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Args;
use landfall_inventory::hint_candidate::{Candidate as _, GIB};
use landfall_inventory::hint_expression::{ErrorClass, HintError};
use landfall_inventory::root_device::MIN_DEFAULT_SIZE;
use landfall_inventory::root_device_hints::RootDeviceHints;
use landfall_network_plan::Metal3Hints;
use landfall_report::failure::{Failure, Result};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value, json};

use crate::tools::stdout;

/// In bytes: the size limit of the list of disks. The list of a machine with many disks
/// is far smaller.
const FILE_LIMIT: u64 = 64 << 20;

/// `root-device`
#[derive(Debug, Args)]
#[command(after_help = "\
The exit code is 0 if the hints choose a disk, and 1 if they match none, cannot
be used or cannot be read. Without hints ({}) the smallest disk of at least
4 GiB is chosen.

Hints in the spelling of a BareMetalHost mean what metal3's operator makes of
them for Ironic: {\"serialNumber\": \"S1\", \"minSizeGigabytes\": 100}. A name
that both have (hctl, model, vendor, wwn, rotational) is Ironic's, unless
another name is metal3's, or the hints are in {\"rootDeviceHints\": {...}}. For
metal3 a part of the model or vendor is enough.")]
pub struct Arguments {
    /// JSON list of disks, with the field names of the inventory
    #[arg(long, value_name = "FILE")]
    devices: PathBuf,
    /// Root device hints as JSON: {"serial": "S3Z8NB0K123456"}
    #[arg(long, value_name = "JSON")]
    hints: String,
    /// Name every disk that matches, not only the one that is chosen
    #[arg(long)]
    all: bool,
    /// Print JSON: `device` (`devices` with --all), or `error`
    #[arg(long)]
    json: bool,
}

type Device = Map<String, Value>;

/// Prints the chosen disk, or all disks that match.
///
/// # Errors
/// If the file cannot be read, if the file or the hints are not JSON, if the hints cannot
/// be used, or if no disk matches them.
pub fn run(arguments: &Arguments) -> Result<()> {
    let devices = devices_of(&arguments.devices)?;
    let chosen = choose(&devices, &arguments.hints, arguments.all)?;
    if arguments.json {
        stdout::line(json_answer(&chosen, arguments.all))?;
    }
    let names = chosen
        .map_err(|error| Failure::other(format!("the hints cannot be used: {}", error.message)))?;
    if names.is_empty() {
        let file = arguments.devices.display();
        let count = match devices.len() {
            1 => "1 disk".to_owned(),
            count => format!("{count} disks"),
        };
        return Err(Failure::other(format!(
            "no disk matches: {file} has {count}, and the hints are {}",
            arguments.hints
        )));
    }
    if arguments.json {
        return Ok(());
    }
    let shown = if arguments.all { names.len() } else { 1 };
    names[..shown].iter().try_for_each(stdout::line)
}

fn devices_of(path: &Path) -> Result<Vec<Value>> {
    let mut text = Vec::new();
    // Read one byte beyond the limit, so that a file that is too long is noticed.
    File::open(path)
        .and_then(|file| file.take(FILE_LIMIT + 1).read_to_end(&mut text))
        .map_err(|error| unreadable(&path.display().to_string(), &error))?;
    if text.len() as u64 > FILE_LIMIT {
        let error = format!("expected at most {} MiB, found more", FILE_LIMIT >> 20);
        return Err(unreadable(&path.display().to_string(), &error));
    }
    serde_json::from_slice(&text).map_err(|error| unreadable(&path.display().to_string(), &error))
}

fn unreadable(what: &str, error: &dyn fmt::Display) -> Failure {
    Failure::other(format!("cannot read {what}: {error}"))
}

/// The names of the disks that match the hints, the chosen disk first; empty if no
/// disk matches.
type Chosen = std::result::Result<Vec<String>, HintError>;

fn choose(devices: &[Value], hints: &str, all: bool) -> Result<Chosen> {
    let hints = read_hints(hints)?;
    Ok(named(devices).and_then(|devices| match hints? {
        Some(hints) => matching(&devices, &hints, all),
        None => large_enough(&devices),
    }))
}

fn json_answer(chosen: &Chosen, all: bool) -> Value {
    match chosen {
        Ok(names) if all => json!({"devices": names}),
        Ok(names) => json!({"device": names.first()}),
        Err(error) => json!({
            "error": {"type": error.class.name(), "message": error.message}
        }),
    }
}

/// Parses the hints; `None` if there are no hints. The outer error says that the text is
/// not JSON, the inner error that the hints cannot be used.
fn read_hints(text: &str) -> Result<std::result::Result<Option<RootDeviceHints>, HintError>> {
    let unreadable = |error| unreadable("the hints", &error);
    let value: Value = serde_json::from_str(text).map_err(unreadable)?;
    if !value.is_object() {
        return Ok(RootDeviceHints::parse(&value));
    }
    let fields: Fields = serde_json::from_str(text).map_err(unreadable)?;
    Ok(match of_metal3(&fields.0, &value) {
        Some(hints) => from_metal3(hints),
        None => RootDeviceHints::from_fields(fields.0.iter().map(|(name, value)| (name, value))),
    })
}

/// The hints if they are in metal3's notation: either in an object `rootDeviceHints`, or
/// with a name that only metal3 has.
fn of_metal3<'a>(fields: &'a [(String, Value)], whole: &'a Value) -> Option<&'a Value> {
    match fields {
        [(name, hints)] if name == "rootDeviceHints" => Some(hints),
        fields => {
            let mut names = fields.iter().map(|(name, _)| name);
            let is_of_metal3 = names.any(|name| Metal3Hints::is_name_of_metal3_only(name));
            is_of_metal3.then_some(whole)
        }
    }
}

fn from_metal3(hints: &Value) -> std::result::Result<Option<RootDeviceHints>, HintError> {
    let hints = Metal3Hints::from_json(hints).map_err(|faults| {
        let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
        HintError::new(ErrorClass::ValueError, faults.join("; "))
    })?;
    hints.as_ref().map(RootDeviceHints::from_metal3).transpose()
}

/// The devices with their names. A device without a name is an error.
fn named(devices: &[Value]) -> std::result::Result<Vec<(&str, &Device)>, HintError> {
    let objects = devices.iter().map(|device| {
        device.as_object().ok_or_else(|| {
            HintError::new(
                ErrorClass::AttributeError,
                format!("expected a device with fields, found {device}"),
            )
        })
    });
    let objects = objects.collect::<std::result::Result<Vec<_>, _>>()?;
    let names = objects.into_iter().map(|device| {
        let name = device.get("name").and_then(Value::as_str).ok_or_else(|| {
            let device = Value::Object(device.clone());
            HintError::new(
                ErrorClass::TypeError,
                format!("expected a device with a name, found {device}"),
            )
        })?;
        Ok((name, device))
    });
    names.collect()
}

/// The names of the disks that match, the chosen disk first. Without `all`, the search
/// ends at the chosen disk.
fn matching(
    devices: &[(&str, &Device)],
    hints: &RootDeviceHints,
    all: bool,
) -> std::result::Result<Vec<String>, HintError> {
    let mut names = Vec::new();
    for (name, device) in devices {
        if hints.mismatch(*device)?.is_none() {
            names.push((*name).to_owned());
            if !all {
                break;
            }
        }
    }
    Ok(names)
}

/// The choice without hints: all disks that are large enough, sorted by size and name.
fn large_enough(devices: &[(&str, &Device)]) -> std::result::Result<Vec<String>, HintError> {
    let mut sized = Vec::new();
    for (name, device) in devices {
        sized.push((device.size_gib()?, (*name).to_owned()));
    }
    sized.retain(|(gib, _)| *gib >= MIN_DEFAULT_SIZE as f64 / GIB);
    sized.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
    Ok(sized.into_iter().map(|(_, name)| name).collect())
}

/// The fields of an object in their written order. The hints are checked in this order,
/// and the first invalid hint ends the check.
#[derive(Debug, Default)]
struct Fields(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_map(Self::default())
    }
}

impl<'de> Visitor<'de> for Fields {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(mut self, mut map: M) -> std::result::Result<Self, M::Error> {
        while let Some((name, value)) = map.next_entry::<String, Value>()? {
            // Like Python: a repeated field keeps its first position and gets its last
            // value.
            match self.0.iter_mut().find(|(known, _)| *known == name) {
                Some((_, known)) => *known = value,
                None => self.0.push((name, value)),
            }
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(devices: Value, hints: &str, all: bool) -> Value {
        let Value::Array(devices) = devices else {
            panic!("a list");
        };
        json_answer(&choose(&devices, hints, all).unwrap(), all)
    }

    fn disks() -> Value {
        json!([
            {"name": "/dev/sda", "size": 8_u64 << 30, "serial": ["A", null], "rotational": true},
            {"name": "/dev/sdb", "size": 4_u64 << 30, "serial": "A", "rotational": "junk"},
            {"name": "/dev/sdc", "size": 100, "serial": ["B", 7], "model": "x"},
        ])
    }

    #[test]
    fn a_file_over_the_limit_is_not_cut() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(FILE_LIMIT + 1).unwrap();
        let error = devices_of(file.path()).unwrap_err();
        assert!(error.to_string().contains("at most 64 MiB"), "{error}");
    }

    #[test]
    fn answers() {
        for (hints, one, all) in [
            (
                r#"{"serial": "a"}"#,
                json!("/dev/sda"),
                json!(["/dev/sda", "/dev/sdb"]),
            ),
            (r#"{"serial": "7"}"#, json!("/dev/sdc"), json!(["/dev/sdc"])),
            (r#"{"serial": "C"}"#, json!(null), json!([])),
            (
                r#"{"rotational": "yes"}"#,
                json!("/dev/sda"),
                json!(["/dev/sda"]),
            ),
            ("{}", json!("/dev/sdb"), json!(["/dev/sdb", "/dev/sda"])),
            ("null", json!("/dev/sdb"), json!(["/dev/sdb", "/dev/sda"])),
        ] {
            assert_eq!(
                ask(disks(), hints, false),
                json!({"device": one}),
                "{hints}"
            );
            assert_eq!(
                ask(disks(), hints, true),
                json!({"devices": all}),
                "{hints}"
            );
        }
    }

    #[test]
    fn hints_in_metal3s_spelling() {
        let devices = || {
            json!([
                {"name": "/dev/sda", "size": 8_u64 << 30, "serial": "A", "model": "SSD 870 EVO"},
                {"name": "/dev/sdb", "size": 90_u64 << 30, "serial": "B", "model": "SSD",
                 "by_path": "/dev/disk/by-path/pci-0000:00:1f.2-ata-1"},
            ])
        };
        for (hints, expected) in [
            (r#"{"serialNumber": "B"}"#, json!("/dev/sdb")),
            (r#"{"deviceName": "/dev/sda"}"#, json!("/dev/sda")),
            (
                r#"{"deviceName": "/dev/disk/by-path/pci-0000:00:1f.2-ata-1"}"#,
                json!("/dev/sdb"),
            ),
            (r#"{"minSizeGigabytes": 9}"#, json!("/dev/sdb")),
            // For metal3, a part of the model is enough. For Ironic it is not.
            (r#"{"model": "SSD"}"#, json!("/dev/sdb")),
            (
                r#"{"model": "SSD", "minSizeGigabytes": 1}"#,
                json!("/dev/sda"),
            ),
            (
                r#"{"rootDeviceHints": {"model": "SSD"}}"#,
                json!("/dev/sda"),
            ),
            // No hint is set, so the default rule applies.
            (r#"{"rootDeviceHints": {}}"#, json!("/dev/sda")),
            (r#"{"serialNumber": ""}"#, json!("/dev/sda")),
        ] {
            assert_eq!(
                ask(devices(), hints, false),
                json!({"device": expected}),
                "{hints}"
            );
        }
        for (hints, message) in [
            (
                r#"{"serialNumber": "B", "size": 9}"#,
                "size: no such hint; the nearest is `minSizeGigabytes`",
            ),
            (
                r#"{"minSizeGigabytes": "9", "serialNumber": 5}"#,
                "minSizeGigabytes: expected a whole number of GiB, 0 or more, found \"9\"; \
                 serialNumber: expected a text in quotes, found 5",
            ),
            (
                r#"{"rootDeviceHints": []}"#,
                "expected hints as keys and values, found a list",
            ),
        ] {
            let error = ask(devices(), hints, false)["error"].take();
            assert_eq!(error["type"], "ValueError", "{hints}");
            assert_eq!(error["message"], message, "{hints}");
        }
    }

    /// Random hints and devices, with the answers of Ironic's agent (version 13.0.0
    /// with oslo.utils 10.2.0 on Python 3.11).
    #[test]
    fn answers_are_the_originals() {
        let cases = include_str!("../../inventory/test_data/root_device/original_answers.jsonl");
        for line in cases.lines() {
            let case: Value = serde_json::from_str(line).unwrap();
            let all = case["all"].as_bool().unwrap_or_default();
            let hints = case["hints"].as_str().unwrap();
            let mut found = ask(case["devices"].clone(), hints, all);
            if let Some(class) = found["error"].get("type") {
                found = json!({"error": class});
            }
            assert_eq!(found, case["answer"], "{line}");
        }
        assert!(cases.lines().count() > 200);
    }

    #[test]
    fn errors_have_pythons_class() {
        let nameless = json!([{"size": 5}]);
        let sizeless = json!([{"name": "/dev/sda"}]);
        for (devices, hints, class) in [
            (disks(), r#"{"colour": "red"}"#, "ValueError"),
            (disks(), r#"{"model": ">= 5"}"#, "ValueError"),
            (disks(), r#"{"size": "<in> 4"}"#, "TypeError"),
            (disks(), r#"{"model": "s=="}"#, "ParseException"),
            (disks(), r#"["size"]"#, "AttributeError"),
            (nameless, r#"{"model": "x"}"#, "TypeError"),
            (sizeless, r#"{"size": 5}"#, "TypeError"),
            (json!(["/dev/sda"]), r#"{"model": "x"}"#, "AttributeError"),
        ] {
            let answer = ask(devices, hints, false);
            assert_eq!(answer["error"]["type"], class, "{hints}: {answer}");
        }
    }

    #[test]
    fn hints_are_tried_in_their_order() {
        let size_first = r#"{"size": "<in> 4", "model": "y"}"#;
        assert_eq!(
            ask(disks(), size_first, false)["error"]["type"],
            "TypeError"
        );
        let model_first = r#"{"model": "y", "size": "<in> 4"}"#;
        assert_eq!(ask(disks(), model_first, false), json!({"device": null}));
        // A repeated field gets the last value, in the first place.
        let twice = r#"{"model": "x", "size": "<in> 4", "model": "y"}"#;
        assert_eq!(ask(disks(), twice, false), json!({"device": null}));
    }

    #[test]
    fn disks_behind_the_chosen_one_are_not_looked_at() {
        let devices = json!([
            {"name": "/dev/sda", "model": "5"},
            {"name": "/dev/sdb", "model": "x"},
        ]);
        let hints = r#"{"model": ">= 5"}"#;
        assert_eq!(
            ask(devices.clone(), hints, false),
            json!({"device": "/dev/sda"})
        );
        assert_eq!(ask(devices, hints, true)["error"]["type"], "ValueError");
    }
}
