//! Makes a live system run the agent: a systemd unit, and the Ignition config that
//! installs the unit, the agent and the agent's configuration.

use std::str::FromStr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

/// Where the agent is installed. On CoreOS /usr is read-only, but /usr/local is in
/// /var.
pub(crate) const AGENT: &str = "/usr/local/bin/landfall-agent";
pub(crate) const UNIT: &str = "landfall-agent.service";

/// The version of Ignition's config format. Ignition 2.7 and newer accept it, so RHCOS
/// accepts it since OpenShift 4.7.
const VERSION: &str = "3.2.0";

/// The URL of a file that Ignition can fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileUrl(String);

/// Ignition cannot fetch a file from this URL. Correct it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("URL `{0}`: expected http://HOST[:PORT]/FILE or https://...")]
pub(crate) struct BadUrl(String);

impl FromStr for FileUrl {
    type Err = BadUrl;

    fn from_str(text: &str) -> Result<Self, BadUrl> {
        let bad = || BadUrl(text.escape_default().to_string());
        let rest = text
            .strip_prefix("http://")
            .or(text.strip_prefix("https://"));
        let (host, path) = rest.and_then(|rest| rest.split_once('/')).ok_or_else(bad)?;
        let is_whole = !host.is_empty() && !path.is_empty();
        let is_plain = text.chars().all(|c| c.is_ascii_graphic());
        if is_whole && is_plain {
            Ok(Self(text.to_owned()))
        } else {
            Err(bad())
        }
    }
}

/// A file whose content is in the config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EmbeddedFile {
    pub(crate) path: String,
    pub(crate) bytes: Vec<u8>,
}

/// Returns the text of the systemd unit. `any_live_system` is for a live system that is
/// not CoreOS. The agent cannot detect such a system, so the unit starts it with
/// `--live-system`.
pub(crate) fn unit(any_live_system: bool) -> String {
    let (condition, options) = if any_live_system {
        (
            "# The agent refuses to run if a disk is in use.",
            " --live-system",
        )
    } else {
        (
            "# Not on an installed system. The agent checks this again.\nConditionPathExists=/run/ostree-live",
            "",
        )
    };
    include_str!("landfall-agent.service")
        .replace("CONDITION", condition)
        .replace("OPTIONS", options)
}

/// Returns the whole Ignition config. `agent_sha512` is the hexadecimal digest of the
/// file at `agent_url`.
pub(crate) fn config(
    agent_url: &FileUrl,
    agent_sha512: &str,
    files: &[EmbeddedFile],
    unit: &str,
) -> Value {
    let agent = json!({
        "path": AGENT,
        "mode": 0o755,
        "overwrite": true,
        "contents": {
            "source": agent_url.0,
            "verification": {"hash": format!("sha512-{agent_sha512}")},
        },
    });
    let embedded = files.iter().map(|file| {
        // Only root may read the file, because a configuration may hold a token.
        json!({
            "path": file.path,
            "mode": 0o600,
            "overwrite": true,
            "contents": {
                "source": format!("data:;base64,{}", BASE64_STANDARD.encode(&file.bytes)),
            },
        })
    });
    let files: Vec<Value> = std::iter::once(agent).chain(embedded).collect();
    json!({
        "ignition": {"version": VERSION},
        "storage": {"files": files},
        "systemd": {"units": [{"name": UNIT, "enabled": true, "contents": unit}]},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_that_ignition_can_fetch() {
        for (text, good) in [
            ("http://192.0.2.1:8080/agent", true),
            ("https://host/a/b?c=d", true),
            ("http://[2001:db8::1]/agent", true),
            ("http://host", false),
            ("http://host/", false),
            ("http:///agent", false),
            ("tftp://host/agent", false),
            ("http://host/a b", false),
            ("/agent", false),
        ] {
            assert_eq!(text.parse::<FileUrl>().is_ok(), good, "{text}");
        }
    }

    #[test]
    fn only_a_unit_for_coreos_wants_its_marker() {
        let coreos = unit(false);
        assert!(coreos.contains("\nConditionPathExists=/run/ostree-live\n"));
        assert!(coreos.contains("\nExecStart=/usr/local/bin/landfall-agent run\n"));
        let other = unit(true);
        assert!(!other.contains("ConditionPathExists"));
        assert!(other.contains("\nExecStart=/usr/local/bin/landfall-agent run --live-system\n"));
        for unit in [coreos, other] {
            assert!(!unit.contains("CONDITION") && !unit.contains("OPTIONS"));
            assert!(unit.contains("\nType=notify\n"));
        }
    }

    #[test]
    fn the_agent_is_fetched_and_the_rest_is_inside() {
        let url = "http://192.0.2.1:8080/agent".parse().unwrap();
        let file = EmbeddedFile {
            path: "/etc/landfall/a.conf".to_owned(),
            bytes: b"[DEFAULT]\n".to_vec(),
        };
        let config = config(&url, "abcd", &[file], "[Unit]\n");
        let files = &config["storage"]["files"];
        assert_eq!(
            files[0],
            json!({
                "path": "/usr/local/bin/landfall-agent", "mode": 493, "overwrite": true,
                "contents": {
                    "source": "http://192.0.2.1:8080/agent",
                    "verification": {"hash": "sha512-abcd"},
                },
            })
        );
        assert_eq!(
            files[1],
            json!({
                "path": "/etc/landfall/a.conf", "mode": 384, "overwrite": true,
                "contents": {"source": "data:;base64,W0RFRkFVTFRdCg=="},
            })
        );
        assert_eq!(
            config["systemd"]["units"],
            json!([{"name": "landfall-agent.service", "enabled": true, "contents": "[Unit]\n"}])
        );
    }
}
