//! Reads the files that `inject_files` must copy: one list in the node's
//! properties and one in the step's arguments. No I/O.

use std::path::{Component, Path, PathBuf};

use landfall_report::failure::{Failure, Result};
use serde_json::{Map, Value};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRequest {
    /// The path from the root of the file system.
    pub path: PathBuf,
    pub place: Where,
    pub content: Content,
    pub mode: Option<u32>,
    /// Permission bits of the directory, if it must be created.
    pub directory_mode: Option<u32>,
    pub owner: Option<u32>,
    pub group: Option<u32>,
}

/// The file system that a file belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Where {
    /// The partition with this number on the root disk.
    Number(u32),
    /// This block device.
    Device(PathBuf),
    /// The partition of the root disk that has this directory in its root.
    ByDirectory(PathBuf),
}

/// What to do with the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Delete it.
    Deleted,
    /// Write these bytes.
    Base64(String),
    /// Write the content of this URL, which may contain fields of the node in
    /// braces.
    Url(String),
}

const KEYS: [&str; 8] = [
    "path",
    "partition",
    "content",
    "deleted",
    "mode",
    "dirmode",
    "owner",
    "group",
];

/// Reads both lists. The files of the properties come first.
///
/// # Errors
/// If a list or an entry of a list is invalid. The error names all of these, each with
/// its first fault.
pub fn read(of_properties: &Value, of_step: &Value) -> Result<Vec<FileRequest>> {
    let mut files = Vec::new();
    let mut faults = Vec::new();
    for (name, list) in [
        ("inject_files of the node's properties", of_properties),
        ("argument files", of_step),
    ] {
        match list {
            Value::Null => {}
            Value::Array(items) => {
                for item in items {
                    match item.as_object().map(read_one) {
                        Some(Ok(file)) => files.push(file),
                        Some(Err(fault)) => faults.push(format!("{fault} in {}", shown(item))),
                        None => faults.push(format!("expected an object, found {item}")),
                    }
                }
            }
            other => faults.push(format!("{name}: expected a list, found {other}")),
        }
    }
    if faults.is_empty() {
        return Ok(files);
    }
    Err(Failure::invalid_params(format!(
        "files to inject: {}",
        faults.join("; ")
    )))
}

/// Names the file only by its path, because the content may be secret and long.
fn shown(item: &Value) -> String {
    let path = &item["path"];
    format!("the file with path {path}")
}

fn read_one(file: &Map<String, Value>) -> std::result::Result<FileRequest, String> {
    let unknown: Vec<&str> = file
        .keys()
        .map(String::as_str)
        .filter(|key| !KEYS.contains(key))
        .collect();
    if !unknown.is_empty() {
        return Err(format!("unexpected fields {}", unknown.join(", ")));
    }
    let given = |key: &str| file.get(key).filter(|value| !value.is_null());
    let number = |key: &str| match given(key) {
        None => Ok(None),
        Some(value) => value
            .as_u64()
            .and_then(|number| u32::try_from(number).ok())
            .map(Some)
            .ok_or_else(|| format!("{key}: expected a number, found {value}")),
    };
    let text = given("path").and_then(Value::as_str).unwrap_or_default();
    if text.is_empty() {
        return Err("no path".into());
    }
    if text.ends_with('/') {
        return Err("a directory cannot be injected".into());
    }
    let path = Path::new(text);
    if path.components().any(|part| part == Component::ParentDir) {
        return Err("path with ..".into());
    }
    let place = place(given("partition"), path)?;
    let deleted = match given("deleted") {
        None | Some(Value::Bool(false)) => false,
        Some(Value::Bool(true)) => true,
        Some(other) => return Err(format!("deleted: expected true or false, found {other}")),
    };
    let content = match given("content") {
        Some(Value::String(content)) if !content.is_empty() => Some(content),
        None | Some(Value::String(_)) => None,
        Some(_) => return Err("content: expected a text".into()),
    };
    let content = match (deleted, content) {
        (true, None) => Content::Deleted,
        (true, Some(_)) => return Err("both content and deleted".into()),
        (false, Some(url)) if url.contains("://") => Content::Url(url.clone()),
        (false, Some(text)) => Content::Base64(text.clone()),
        (false, None) if file.contains_key("content") => Content::Base64(String::new()),
        (false, None) => return Err("neither content nor deleted".into()),
    };
    Ok(FileRequest {
        path: path.to_owned(),
        place,
        content,
        mode: number("mode")?,
        directory_mode: number("dirmode")?,
        owner: number("owner")?,
        group: number("group")?,
    })
}

fn place(partition: Option<&Value>, path: &Path) -> std::result::Result<Where, String> {
    let by_number = |number: u64| {
        u32::try_from(number)
            .map(Where::Number)
            .map_err(|_| format!("partition: {number} is not a partition number"))
    };
    match partition {
        Some(Value::Number(number)) if number.is_u64() => {
            by_number(number.as_u64().unwrap_or_default())
        }
        Some(Value::String(text)) if !text.is_empty() => match text.trim().parse() {
            Ok(number) => by_number(number),
            Err(_) => Ok(Where::Device(text.into())),
        },
        None | Some(Value::String(_)) => {
            let mut parts = path
                .components()
                .filter(|part| matches!(part, Component::Normal(_)));
            match (parts.next(), parts.next()) {
                (Some(first), Some(_)) => Ok(Where::ByDirectory(PathBuf::from(first.as_os_str()))),
                _ => {
                    Err("expected a partition for a file in the root directory, found none".into())
                }
            }
        }
        Some(other) => Err(format!(
            "partition: expected a number or a device, found {other}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use landfall_report::failure::Class;
    use serde_json::json;

    use super::*;

    #[test]
    fn both_lists_in_order() {
        let files = read(
            &json!([{"path": "/etc/a.conf", "content": "eA==", "mode": 384}]),
            &json!([
                {"path": "b", "partition": 3, "content": "http://h/{node[uuid]}"},
                {"path": "c", "partition": "2", "deleted": true},
                {"path": "d", "partition": "/dev/sdb1", "content": "", "owner": 0},
            ]),
        )
        .unwrap();
        let places: Vec<&Where> = files.iter().map(|file| &file.place).collect();
        assert_eq!(
            places,
            [
                &Where::ByDirectory("etc".into()),
                &Where::Number(3),
                &Where::Number(2),
                &Where::Device("/dev/sdb1".into())
            ]
        );
        assert_eq!(files[0].mode, Some(0o600));
        assert_eq!(
            files[1].content,
            Content::Url("http://h/{node[uuid]}".into())
        );
        assert_eq!(files[2].content, Content::Deleted);
        assert_eq!(files[3].content, Content::Base64(String::new()));
        assert_eq!(read(&Value::Null, &Value::Null).unwrap(), []);
    }

    #[test]
    fn all_faults_are_reported_at_once() {
        for (bad, words) in [
            (json!([{"content": "x"}]), "no path"),
            (json!([{"path": "/x", "content": "x"}]), "root directory"),
            (json!([{"path": "/etc/", "content": "x"}]), "a directory"),
            (json!([{"path": "/etc/../x", "content": "x"}]), ".."),
            (
                json!([{"path": "/etc/x", "content": "x", "deleted": true}]),
                "both",
            ),
            (json!([{"path": "/etc/x"}]), "neither"),
            (
                json!([{"path": "/etc/x", "content": "x", "mode": "0644"}]),
                "mode",
            ),
            (
                json!([{"path": "/etc/x", "content": "x", "more": 1}]),
                "more",
            ),
            (json!(["x"]), "expected an object"),
            (json!({}), "expected a list"),
            (
                json!([{}, {"path": "/etc/x"}]),
                "no path in the file with path null; neither",
            ),
        ] {
            let failure = read(&Value::Null, &bad).unwrap_err();
            assert_eq!(failure.class, Class::InvalidCommandParamsError);
            assert!(failure.details.contains(words), "{bad}: {failure}");
        }
    }
}
