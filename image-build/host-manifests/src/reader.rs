//! Reads the values of a file, and collects their faults.

use std::fmt::Display;

use landfall_boot_params::MacAddr;
use landfall_boot_params::dracut_net::is_host_name;
use landfall_boot_params::nearest;
use landfall_network_plan::Metal3Hints;
use serde_json::{Map, Value};

use crate::Reading;

/// All messages begin with `title`.
pub(crate) struct Reader<'a> {
    pub(crate) title: &'a str,
    pub(crate) reading: &'a mut Reading,
}

impl Reader<'_> {
    pub(crate) fn text(&mut self, path: &str, value: Option<&Value>) -> Option<String> {
        match value {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.clone()),
            Some(Value::Number(number)) => Some(number.to_string()),
            Some(other) => {
                self.fault(path, format_args!("expected text, found {}", kind(other)));
                None
            }
        }
    }

    /// A name that the machine gets as its host name. `None` if it is missing or no text.
    /// An invalid name is recorded as a fault and still returned.
    pub(crate) fn host_name(&mut self, path: &str, value: Option<&Value>) -> Option<String> {
        let name = self.text(path, value)?;
        if !is_host_name(&name) {
            self.fault(
                path,
                format_args!("expected a host name, found {:?}", start(&name)),
            );
        }
        Some(name)
    }

    /// A hardware address. `None` if it is missing or invalid; an invalid one is
    /// recorded as a fault.
    pub(crate) fn mac(&mut self, path: &str, value: Option<&Value>) -> Option<MacAddr> {
        let text = self.text(path, value)?;
        match text.parse::<MacAddr>() {
            Ok(mac) => Some(mac),
            Err(expected) => {
                self.fault(path, format_args!("{expected}, found {:?}", start(&text)));
                None
            }
        }
    }

    /// The `rootDeviceHints` of a host with these fields, in metal3's spelling. Warns
    /// if metal3 would choose the disk in another way (`updateRootDeviceHints` in
    /// baremetal-operator's internal/controller/metal3.io/baremetalhost_controller.go).
    pub(crate) fn hints(&mut self, host: &str, fields: &Map<String, Value>) -> Option<Metal3Hints> {
        let path = &format!("{host}.rootDeviceHints");
        let value = fields.get("rootDeviceHints").unwrap_or(&Value::Null);
        let profile = fields.get("hardwareProfile").and_then(Value::as_str);
        let profile = profile.filter(|name| !matches!(*name, "" | "empty" | "unknown"));
        if let (Some(name), Value::Null) = (profile, value) {
            self.warn(
                &format!("{host}.hardwareProfile"),
                format_args!(
                    "metal3 chooses the root disk by the profile {:?}, the ramdisk does not -- give rootDeviceHints",
                    start(name)
                ),
            );
        }
        if !value.is_null() && fields.get("raid").is_some_and(|raid| !raid.is_null()) {
            self.warn(
                &format!("{host}.raid"),
                "metal3 does not use the rootDeviceHints of a host whose root volume is a RAID, the ramdisk does",
            );
        }
        match Metal3Hints::from_json(value) {
            Ok(hints) => hints,
            Err(faults) => {
                let title = self.title;
                let lines = faults
                    .iter()
                    .map(|fault| format!("{title}: {}", fault.at(path)));
                self.reading.faults.extend(lines);
                None
            }
        }
    }

    pub(crate) fn list<'v>(&mut self, path: &str, value: Option<&'v Value>) -> &'v [Value] {
        match value {
            None | Some(Value::Null) => &[],
            Some(Value::Array(list)) => list,
            Some(other) => {
                self.fault(path, format_args!("expected a list, found {}", kind(other)));
                &[]
            }
        }
    }

    pub(crate) fn object<'v>(
        &mut self,
        path: &str,
        value: Option<&'v Value>,
    ) -> Option<&'v Map<String, Value>> {
        match value {
            Some(Value::Object(fields)) => Some(fields),
            other => {
                let found = other.map_or("nothing", kind);
                self.fault(
                    path,
                    format_args!("expected keys and values, found {found}"),
                );
                None
            }
        }
    }

    /// Reports every key that is not in `known`.
    pub(crate) fn check_keys(&mut self, path: &str, fields: &Map<String, Value>, known: &[&str]) {
        for key in fields.keys().filter(|key| !known.contains(&key.as_str())) {
            let known = known.join(", ");
            let key = start(key);
            self.fault(
                path,
                format_args!("expected keys of {known}; found {key:?}"),
            );
        }
    }

    /// Reports every unknown key that looks like a misspelt one of `used`: without
    /// its value the host would get another network or another disk. Other unknown
    /// keys may be those of a newer release.
    pub(crate) fn check_spelling(
        &mut self,
        path: &str,
        fields: &Map<String, Value>,
        used: &[&str],
        read_past: &[&str],
    ) {
        for key in fields.keys().map(String::as_str) {
            if used.contains(&key) || read_past.contains(&key) {
                continue;
            }
            if let Some(meant) = nearest(key, used.iter().copied()) {
                let key = start(key);
                self.fault(
                    path,
                    format_args!("no such key {key:?}; the nearest is `{meant}`"),
                );
            }
        }
    }

    fn warn(&mut self, path: &str, warning: impl Display) {
        let line = format!("{}: {path}: {warning}", self.title);
        self.reading.warnings.push(line);
    }

    pub(crate) fn fault(&mut self, path: &str, fault: impl Display) {
        let line = format!("{}: {path}: {fault}", self.title);
        self.reading.faults.push(line);
    }
}

/// The type of a value as errors name it, without its content.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "keys and values",
    }
}

/// The first 60 characters of a text, for messages.
pub(crate) fn start(text: &str) -> String {
    text.chars().take(60).collect()
}
