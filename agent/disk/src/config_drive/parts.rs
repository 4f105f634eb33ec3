//! A config drive that Ironic sends as separate parts. From the parts, this module
//! makes the same files as `configdrive.populate_directory` of openstacksdk, which a
//! conductor uses to render a config drive. Does no I/O.

use serde_json::{Map, Value, json};

/// Versions of the format. Every reader looks for at least one of them.
const VERSIONS: [&str; 2] = ["2012-08-10", "latest"];

/// Why a config drive cannot be made of the parts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PartsError {
    #[error("expected meta_data, user_data, network_data and vendor_data, found {0:?}")]
    Unknown(String),
    #[error("{0} has the wrong type")]
    Type(String),
}

/// The parts as Ironic sent them.
#[derive(Clone, PartialEq, Eq)]
pub struct Parts(Map<String, Value>);

impl Parts {
    /// Checks `{meta_data, user_data, network_data, vendor_data}`. Each part may be
    /// missing.
    ///
    /// # Errors
    /// If there is any other part, or if a part has the wrong type.
    pub fn new(parts: &Map<String, Value>) -> Result<Self, PartsError> {
        for (name, part) in parts {
            let fits = match name.as_str() {
                "meta_data" | "network_data" | "vendor_data" => part.is_object() || part.is_null(),
                "user_data" => !part.is_boolean() && !part.is_number(),
                _ => return Err(PartsError::Unknown(name.clone())),
            };
            if !fits {
                return Err(PartsError::Type(name.clone()));
            }
        }
        Ok(Self(parts.clone()))
    }

    /// Adds an entry to the metadata unless the entry already exists. The agent uses
    /// this for the node's UUID and name.
    pub fn default_meta_data(&mut self, name: &str, value: &str) {
        let meta_data = self.0.entry("meta_data").or_insert_with(|| json!({}));
        if meta_data.is_null() {
            *meta_data = json!({});
        }
        if let Some(meta_data) = meta_data.as_object_mut() {
            meta_data.entry(name).or_insert_with(|| json!(value));
        }
    }

    /// The files of the config drive: path and content.
    pub fn files(&self) -> Vec<(String, Vec<u8>)> {
        let part = |name: &str| self.0.get(name).filter(|part| !is_empty(part));
        let text = |part: &Value| part.to_string().into_bytes();
        let mut contents = vec![(
            "meta_data.json",
            part("meta_data").map_or_else(|| b"{}".to_vec(), text),
        )];
        for (name, file) in [
            ("network_data", "network_data.json"),
            ("vendor_data", "vendor_data2.json"),
        ] {
            contents.extend(part(name).map(|part| (file, text(part))));
        }
        match part("user_data") {
            // User data stays unchanged, because it may be a script.
            Some(Value::String(script)) => contents.push(("user_data", script.clone().into())),
            Some(structure) => contents.push(("user_data", text(structure))),
            None => {}
        }
        VERSIONS
            .iter()
            .flat_map(|version| {
                let place = |(file, content): &(&str, Vec<u8>)| {
                    (format!("openstack/{version}/{file}"), content.clone())
                };
                contents.iter().map(place).collect::<Vec<_>>()
            })
            .collect()
    }
}

fn is_empty(part: &Value) -> bool {
    match part {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(value: &Value) -> Result<Parts, PartsError> {
        Parts::new(value.as_object().unwrap())
    }

    #[test]
    fn files_as_openstacksdk_makes_them() {
        let mut parts = parts(&json!({
            "meta_data": {"name": "node-1"},
            "user_data": "#!/bin/sh\nexit 0\n",
            "network_data": {"links": []},
            "vendor_data": {},
        }))
        .unwrap();
        parts.default_meta_data("uuid", "u");
        parts.default_meta_data("name", "other");
        let files = parts.files();
        let paths: Vec<&str> = files.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(
            paths,
            [
                "openstack/2012-08-10/meta_data.json",
                "openstack/2012-08-10/network_data.json",
                "openstack/2012-08-10/user_data",
                "openstack/latest/meta_data.json",
                "openstack/latest/network_data.json",
                "openstack/latest/user_data",
            ]
        );
        let meta_data: Value = serde_json::from_slice(&files[3].1).unwrap();
        assert_eq!(meta_data, json!({"name": "node-1", "uuid": "u"}));
        assert_eq!(files[5].1, b"#!/bin/sh\nexit 0\n");
    }

    #[test]
    fn structures_become_json_and_nothing_becomes_no_file() {
        let of = |value: Value| {
            let files = parts(&value).unwrap().files();
            files
                .into_iter()
                .nth(1)
                .map(|(path, bytes)| (path, String::from_utf8(bytes).unwrap()))
        };
        let (path, text) = of(json!({"user_data": {"ignition": {"version": "3.2.0"}}})).unwrap();
        assert_eq!(path, "openstack/2012-08-10/user_data");
        assert_eq!(text, r#"{"ignition":{"version":"3.2.0"}}"#);
        let (path, _) = of(json!({"vendor_data": {"a": 1}})).unwrap();
        assert_eq!(path, "openstack/2012-08-10/vendor_data2.json");
        let (path, text) = of(json!({"meta_data": null, "user_data": null})).unwrap();
        assert_eq!(
            (path.as_str(), text.as_str()),
            ("openstack/latest/meta_data.json", "{}")
        );
    }

    #[test]
    fn invalid_parts_are_rejected() {
        for bad in [
            json!({"userdata": "x"}),
            json!({"user_data": 5}),
            json!({"meta_data": "text"}),
            json!({"network_data": []}),
        ] {
            assert!(parts(&bad).is_err(), "{bad}");
        }
    }
}
