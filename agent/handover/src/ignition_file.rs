//! Writes the Ignition config where the `metal` provider reads it on the first
//! boot, and adds the host name to it, as OpenShift's agent does.

use std::fmt;
use std::path::Path;

use landfall_ignition_config::{InvalidConfig, check_version};
use landfall_report::failure::{Failure, Result};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};

use crate::boot_files::BootFiles;

const DIRECTORY: &str = "ignition";
const FILE: &str = "ignition/config.ign";

/// The characters that a `data:` URL must encode: all except the unreserved
/// ones (RFC 3986, 2.3).
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// The config is not of spec 3. This is only a warning, because an old image accepts
/// spec 2. With a current image the installation succeeds, but Ignition stops the first
/// boot of the installed system. Write the config in spec 3.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "Ignition config: {0}; only images from before OpenShift 4.6 accept spec 2, in any other image Ignition stops the first boot (unsupported config version) -- write the config in spec 3"
)]
pub struct OtherSpec(InvalidConfig);

/// The version of a config, if it has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec(Option<String>);

impl Spec {
    /// A warning if the version is not 3.x.
    pub fn warning(&self) -> Option<OtherSpec> {
        check_version(self.0.as_deref()).err().map(OtherSpec)
    }
}

impl fmt::Display for Spec {
    /// ` (spec 3.4.0)`, or nothing without a version.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(version) => {
                let plain = version.chars().filter(char::is_ascii_graphic);
                write!(f, " (spec {})", plain.take(20).collect::<String>())
            }
            None => Ok(()),
        }
    }
}

/// Rejects a config that is not a JSON object. Nothing else is checked, because the system
/// on the disk may have a newer Ignition than the agent knows.
pub fn check(config: &[u8]) -> Result<Spec> {
    let root = parse(config)?;
    let version = root.get("ignition").and_then(|it| it.get("version"));
    // Treat a version that is a number like any other wrong version.
    let version = version.map(|version| match version {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    });
    Ok(Spec(version))
}

/// Fails if the partition already has a config, because two deployments must not mix.
/// Also fails if the path of the config's directory exists and is not a directory.
pub fn check_absent(boot: &(impl BootFiles + ?Sized)) -> Result<()> {
    boot.check_directory(Path::new(DIRECTORY))?;
    let path = Path::new(FILE);
    if boot.exists(path)? {
        return Err(boot.problem(path, &"the image holds an Ignition config already"));
    }
    Ok(())
}

/// Writes exactly these bytes. Fails if the file exists.
pub fn write(boot: &(impl BootFiles + ?Sized), config: &[u8]) -> Result<()> {
    boot.make_directory(Path::new(DIRECTORY), 0o700)?;
    boot.create(Path::new(FILE), config)
}

/// Adds a file `/etc/hostname` to the config, as ironic-agent-image does if the ramdisk
/// has a host name. Returns the config unchanged if there is no host name, or if the
/// config already has this file (Ignition rejects two entries for one path).
///
/// Returns `None` if there is neither a config nor a host name.
///
/// # Errors
/// If the config is not a JSON object, if `storage.files` is not a list, or if the host
/// name is not a single word, because /etc/hostname holds one word on one line.
pub fn with_hostname(config: Option<&[u8]>, hostname: Option<&str>) -> Result<Option<Vec<u8>>> {
    let Some(hostname) = hostname.filter(|name| !name.is_empty()) else {
        return match config {
            Some(config) => check(config).map(|_| Some(config.to_vec())),
            None => Ok(None),
        };
    };
    if hostname.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(Failure::invalid_params(format!(
            "host name {hostname:?}: expected one word"
        )));
    }
    let mut root = match config {
        Some(config) => parse(config)?,
        None => parse(br#"{"ignition":{"version":"3.0.0"}}"#)?,
    };
    // Version 2.x of the specification requires `filesystem`, the name of the file
    // system.
    let version = root
        .get("ignition")
        .and_then(|ignition| ignition.get("version"))
        .and_then(Value::as_str)
        .unwrap_or_default();
    let mut entry = json!({
        "path": "/etc/hostname",
        "mode": 0o644,
        "overwrite": true,
        "contents": { "source": format!("data:,{}", utf8_percent_encode(hostname, ENCODED)) },
    });
    if version.starts_with("2.") {
        entry["filesystem"] = json!("root");
    }
    let storage = root
        .entry("storage")
        .or_insert_with(|| Value::Object(Map::new()));
    let files = storage
        .as_object_mut()
        .map(|storage| storage.entry("files").or_insert_with(|| json!([])))
        .and_then(Value::as_array_mut)
        .ok_or_else(|| {
            Failure::invalid_params("ignition config: expected a list in storage.files")
        })?;
    if let Some(config) = config
        && files.iter().any(|file| file["path"] == "/etc/hostname")
    {
        return Ok(Some(config.to_vec()));
    }
    files.push(entry);
    Ok(Some(Value::Object(root).to_string().into_bytes()))
}

fn parse(config: &[u8]) -> Result<Map<String, Value>> {
    match serde_json::from_slice(config) {
        Ok(Value::Object(root)) => Ok(root),
        Ok(_) => Err(Failure::invalid_params(
            "ignition config: expected a JSON object",
        )),
        Err(e) => Err(Failure::invalid_params(format!(
            "ignition config: expected JSON: {e}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If the agent rewrote the config, the spaces, the order and the escapes would
    /// differ, so the test would detect it.
    const USER: &[u8] = b"{ \"storage\":{\"files\":[ ]},\n\t\"ignition\" : {\"version\":\"3.2.0\"} , \"x\":\"\\u0041\"}\n";

    fn with(config: Option<&[u8]>, hostname: Option<&str>) -> Option<Vec<u8>> {
        with_hostname(config, hostname).unwrap()
    }

    #[test]
    fn untouched_bytes_when_nothing_is_added() {
        assert_eq!(with(Some(USER), None).as_deref(), Some(USER));
        assert_eq!(with(Some(USER), Some("")).as_deref(), Some(USER));
        assert_eq!(with(None, None), None);
        let own =
            br#"{"ignition":{"version":"3.0.0"}, "storage":{"files":[{"path":"/etc/hostname"}]}}"#;
        assert_eq!(with(Some(own), Some("node")).as_deref(), Some(&own[..]));
    }

    #[test]
    fn a_host_name_becomes_a_file() {
        let config: Value =
            serde_json::from_slice(&with(Some(USER), Some("n\u{f6}de/1.example")).unwrap())
                .unwrap();
        assert_eq!(
            config["storage"]["files"],
            json!([{
                "path": "/etc/hostname",
                "mode": 420,
                "overwrite": true,
                "contents": {"source": "data:,n%C3%B6de%2F1.example"},
            }])
        );
        assert_eq!(config["x"], "A", "the rest stays");
        let made: Value = serde_json::from_slice(&with(None, Some("node")).unwrap()).unwrap();
        assert_eq!(made["ignition"]["version"], "3.0.0");
        assert_eq!(made["storage"]["files"][0]["path"], "/etc/hostname");
        let second = br#"{"ignition":{"version":"2.2.0"}}"#;
        let made: Value = serde_json::from_slice(&with(Some(second), Some("n")).unwrap()).unwrap();
        assert_eq!(made["storage"]["files"][0]["filesystem"], "root");
    }

    /// coreos-installer and Ironic's agent do not warn about such a version, and the
    /// first boot fails.
    #[test]
    fn a_version_that_current_images_reject_is_a_warning() {
        for (config, found) in [
            (&br#"{"ignition":{"version":"3.0.0"}}"#[..], None),
            (br#"{"ignition":{"version":"3.7.0-experimental"}}"#, None),
            (br#"{"ignition":{"version":"2.2.0"}}"#, Some("\"2.2.0\"")),
            (br#"{"ignition":{"version":"30.0.0"}}"#, Some("\"30.0.0\"")),
            (br#"{"ignition":{"version":3}}"#, Some("\"3\"")),
            (br#"{"ignition":{}}"#, Some("none")),
            (br#"{"ignition":[]}"#, Some("none")),
            (b"{}", Some("none")),
        ] {
            let warning = check(config).unwrap().warning();
            let warning = warning.map(|warning| warning.to_string());
            let expected =
                found.map(|found| format!("expected ignition.version 3.x, found {found}; only"));
            assert_eq!(warning.is_some(), expected.is_some(), "{warning:?}");
            if let (Some(warning), Some(expected)) = (warning, expected) {
                assert!(warning.contains(&expected), "{warning}");
            }
        }
    }

    #[test]
    fn the_console_gets_the_version_as_one_short_word() {
        let long = format!(r#"{{"ignition":{{"version":"{}"}}}}"#, "3".repeat(99));
        for (config, expected) in [
            (r#"{"ignition":{"version":"3.4.0"}}"#, " (spec 3.4.0)"),
            (
                r#"{"ignition":{"version":"3.4.0\n[ 1.0]"}}"#,
                " (spec 3.4.0[1.0])",
            ),
            (r#"{"ignition":{"version":3}}"#, " (spec 3)"),
            (long.as_str(), " (spec 33333333333333333333)"),
            ("{}", ""),
        ] {
            assert_eq!(check(config.as_bytes()).unwrap().to_string(), expected);
        }
    }

    #[test]
    fn an_invalid_ignition_config_is_rejected() {
        for bad in [&b""[..], b"[]", b"{", b"null", b"\xff", b"{\"a\":1} x"] {
            assert!(check(bad).is_err(), "{bad:?}");
            assert!(with_hostname(Some(bad), None).is_err(), "{bad:?}");
        }
        for bad in [&br#"{"storage":[]}"#[..], br#"{"storage":{"files":{}}}"#] {
            assert!(with_hostname(Some(bad), Some("n")).is_err());
        }
        for bad in ["node\n", "a\nb", "a b", "\0", "\u{85}"] {
            assert!(with_hostname(None, Some(bad)).is_err(), "{bad:?}");
        }
    }
}
