//! Sends recorded requests to the agent's real server: the conductor's requests
//! from the transcripts, and the requests that were sent to ironic-python-agent.
//! The status and the shape of each answer must match the recorded answer.
//!
//! The answers may differ in these points:
//!
//! - A step, the boot loader command and the power-off command end as FAILED: this
//!   machine is not the ramdisk, so the agent writes nothing and leaves the power
//!   on. The shape must then match the recorded failure (40-deploy-step-fails).
//! - A command that was RUNNING when a list was recorded may have ended here.
//! - The agent offers its own steps, under the hardware managers that it emulates.
//!   Each step must have the keys of a recorded step.
//! - A fault text may be a shorter beginning of the recorded one.
//! - The documents that describe the API contain the port of this server.
//! - A step request carries the versions of this agent's hardware managers instead
//!   of the recorded versions: a conductor sends back the versions that it
//!   received.

#![expect(
    clippy::unwrap_used,
    reason = "what a test finds wrong ends it, outside of test functions as well"
)]

mod serve;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use serve::Server;

/// Commands that the agent refuses on a developer's machine, so that they end as
/// FAILED instead of as recorded.
const REFUSED: [&str; 4] = [
    "execute_clean_step",
    "execute_deploy_step",
    "install_bootloader",
    "power_off",
];

/// Objects whose keys may differ between the recorded answer and the agent's answer:
/// the managers and the descriptions of steps.
const OPEN_OBJECTS: [&str; 6] = [
    "clean_steps",
    "deploy_steps",
    "service_steps",
    "hardware_manager_version",
    "argsinfo",
    // The elements of a list, such as the steps: some keys exist only in some steps.
    "[]",
];

fn shape(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "text",
        Value::Array(_) => "list",
        Value::Object(_) => "object",
    }
}

/// Lists where two values differ in shape. Empty if they do not differ.
fn differences(at: &str, recorded: &Value, found: &Value) -> Vec<String> {
    match (recorded, found) {
        (Value::Object(_), Value::Object(_)) if recorded.get("command_status").is_some() => {
            entry_differences(at, recorded, found)
        }
        (Value::Object(recorded), Value::Object(found)) => {
            let open = OPEN_OBJECTS.iter().any(|key| at.ends_with(key));
            let mut all: Vec<String> = Vec::new();
            let keys: BTreeSet<&String> = recorded.keys().chain(found.keys()).collect();
            for key in keys {
                match (recorded.get(key), found.get(key)) {
                    (Some(recorded), Some(found)) => {
                        all.extend(differences(&format!("{at}.{key}"), recorded, found));
                    }
                    _ if open => {}
                    (Some(_), None) => all.push(format!("{at}.{key}: missing")),
                    (None, _) => all.push(format!("{at}.{key}: not recorded")),
                }
            }
            all
        }
        // Each element must have the shape of the first recorded element. The entries of
        // a list of commands are compared one by one instead.
        (Value::Array(recorded), Value::Array(found)) => match recorded.first() {
            Some(first) if !at.ends_with("commands") => found
                .iter()
                .flat_map(|found| differences(&format!("{at}[]"), first, found))
                .collect(),
            _ if recorded.len() != found.len() => {
                vec![format!("{at}: {} and {}", recorded.len(), found.len())]
            }
            _ => std::iter::zip(recorded, found)
                .flat_map(|(recorded, found)| differences(at, recorded, found))
                .collect(),
        },
        _ if shape(recorded) == shape(found) => Vec::new(),
        _ => vec![format!("{at}: {} and {}", shape(recorded), shape(found))],
    }
}

/// Compares two entries of the command list.
fn entry_differences(at: &str, recorded: &Value, found: &Value) -> Vec<String> {
    let name = recorded["command_name"].as_str().unwrap();
    let mut all = Vec::new();
    let keys = |value: &Value| {
        value
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<BTreeSet<_>>()
    };
    if keys(recorded) != keys(found) {
        all.push(format!("{at}: {:?}", keys(found)));
    }
    if found["command_name"] != name {
        all.push(format!("{at}: {name} and {}", found["command_name"]));
    }
    if found["id"]
        .as_str()
        .and_then(|id| id.parse::<uuid::Uuid>().ok())
        .is_none()
    {
        all.push(format!("{at}: id {}", found["id"]));
    }
    let status = |value: &Value| value["command_status"].as_str().unwrap().to_owned();
    let expected = match (status(recorded).as_str(), status(found).as_str()) {
        // The command has ended in the meantime.
        ("RUNNING", "SUCCEEDED") => return all,
        ("RUNNING" | "SUCCEEDED", "FAILED") if REFUSED.contains(&name) => {
            json!({"error": failure(), "result": null})
        }
        (recorded_status, found_status) if recorded_status == found_status => json!({
            "error": recorded["command_error"],
            "result": recorded["command_result"],
        }),
        (recorded, found) => {
            all.push(format!("{at}: {name} {recorded} and {found}"));
            return all;
        }
    };
    let found = json!({"error": found["command_error"], "result": found["command_result"]});
    all.extend(differences(&format!("{at}.{name}"), &expected, &found));
    all
}

/// The recorded error of a step that ended as FAILED.
fn failure() -> Value {
    let entries = read(&transcripts().join("40-deploy-step-fails.json"));
    let all = entries.as_array().unwrap().iter();
    all.flat_map(|entry| entry["response"]["body"]["commands"].as_array())
        .flatten()
        .find(|command| command["command_status"] == "FAILED")
        .map(|command| command["command_error"].clone())
        .unwrap()
}

fn transcripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts")
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

struct Replay {
    server: Server,
    client: reqwest::Client,
    /// `hardware_manager_version` as recorded, and as this agent reported it.
    versions: Option<(Value, Value)>,
}

impl Replay {
    fn start(token: &str) -> Self {
        // The server uses TLS, because a conductor requires it.
        Self {
            server: Server::start(token, &[]),
            client: serve::client(),
            versions: None,
        }
    }

    /// Sends the recorded request. Returns where the answer differs from the
    /// recorded answer.
    async fn repeat(
        &mut self,
        at: &str,
        method: &str,
        target: &str,
        recorded: &Value,
    ) -> Vec<String> {
        let mut body = recorded["request"]["body"].clone();
        for key in ["clean_version", "deploy_version", "service_version"] {
            if let (Some(version), Some((theirs, ours))) =
                (body.pointer_mut(&format!("/params/{key}")), &self.versions)
                && version == theirs
            {
                *version = ours.clone();
            }
        }
        let (status, found) = self.ask(method, target, &body).await;
        let recorded = &recorded["response"];
        let version = |body: &Value| {
            body.pointer("/command_result/hardware_manager_version")
                .cloned()
        };
        if let Some(versions) = version(&recorded["body"]).zip(version(&found)) {
            self.versions = Some(versions);
        }
        let mut faults = differences(at, &recorded["body"], &found);
        if recorded["status"] != status {
            faults.push(format!(
                "{at}: status {} and {status}: {found}",
                recorded["status"]
            ));
        }
        if let Some(text) = recorded["body"]["faultstring"].as_str() {
            let found = found["faultstring"].as_str().unwrap_or_default();
            if found.is_empty() || !text.starts_with(found.trim_end_matches('.')) {
                faults.push(format!("{at}: {text:?} and {found:?}"));
            }
        }
        faults
    }

    async fn ask(&self, method: &str, target: &str, body: &Value) -> (u16, Value) {
        let url = format!("{}{target}", self.server.base);
        let mut request = self.client.request(method.parse().unwrap(), url);
        if !body.is_null() {
            request = request
                .header("content-type", "application/json")
                .body(body.to_string());
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.headers()["server"], "ironic-python-agent");
        assert_eq!(response.headers()["content-type"], "application/json");
        let status = response.status().as_u16();
        (status, response.json().await.unwrap())
    }

    /// Waits until no command runs, because the requests were recorded with pauses
    /// between them.
    async fn settle(&self, token: &str) {
        for _ in 0..100 {
            let target = format!("/v1/commands/?agent_token={token}");
            let (_, list) = self.ask("GET", &target, &Value::Null).await;
            let last = list["commands"].as_array().and_then(|list| list.last());
            if last.is_none_or(|last| last["command_status"] != "RUNNING") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("still running after 10 s");
    }
}

fn token_of(target: &str) -> Option<&str> {
    let token = target.split_once("agent_token=")?.1;
    Some(token.split('&').next().unwrap())
}

#[tokio::test]
async fn a_conductor_gets_the_answers_that_were_recorded() {
    let mut files: Vec<PathBuf> = fs::read_dir(transcripts())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "json")
        })
        .collect();
    files.sort();
    let (mut asked, mut faults) = (0, Vec::new());
    for file in files {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let entries = read(&file);
        let calls: Vec<&Value> = entries
            .as_array()
            .unwrap()
            .iter()
            .filter(|entry| entry["dir"] == "ironic->agent")
            .collect();
        let Some(first) = calls.first() else {
            continue;
        };
        let mut token = token_of(first["request"]["path"].as_str().unwrap()).unwrap();
        let mut replay = Replay::start(token);
        for call in calls {
            let request = &call["request"];
            let target = request["path"].as_str().unwrap();
            // A different token means that the agent was restarted.
            if token_of(target) != Some(token) {
                token = token_of(target).unwrap();
                replay = Replay::start(token);
            }
            replay.settle(token).await;
            let method = request["method"].as_str().unwrap();
            let at = format!("{name} {}: {method} {}", call["n"], request["body"]["name"]);
            faults.extend(replay.repeat(&at, method, target, call).await);
            asked += 1;
        }
    }
    assert!(asked > 30, "only {asked} requests found");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[tokio::test]
async fn the_originals_answers_are_ours() {
    let entries = read(
        &Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/original_api/mixed-bios-3nic-query.json"),
    );
    let right = "0123456789abcdef0123456789abcdef0123456789abc";
    let mut replay = Replay::start(right);
    let mut faults = Vec::new();
    for (number, entry) in entries.as_array().unwrap().iter().enumerate() {
        let request = &entry["request"];
        let method = request["method"].as_str().unwrap();
        let query: Vec<String> = request["query"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, value)| format!("{key}={}", value.as_str().unwrap()))
            .collect();
        let target = format!("{}?{}", request["path"].as_str().unwrap(), query.join("&"));
        let at = format!("{number}: {method} {target} {}", request["body"]["name"]);
        faults.extend(replay.repeat(&at, method, &target, entry).await);
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn answers_of_another_shape_are_found() {
    let recorded = json!({"a": {"b": [{"c": 1}]}, "d": null});
    assert!(differences("", &recorded, &recorded).is_empty());
    for found in [
        json!({"a": {"b": [{"c": "1"}]}, "d": null}),
        json!({"a": {"b": {}}, "d": null}),
        json!({"a": {"b": []}}),
        json!({"a": {"b": [{"c": 1}]}, "d": {}}),
        json!({"a": {"b": [{"c": 1}]}, "d": null, "e": 1}),
    ] {
        assert_eq!(differences("", &recorded, &found).len(), 1, "{found}");
    }
    let entry = |status: &str, error: Value| {
        json!({"id": "0bdd34df-4b72-46a0-a186-ee308a8677ce", "command_name": "sync",
            "command_status": status, "command_error": error, "command_result": null})
    };
    let succeeded = entry("SUCCEEDED", Value::Null);
    assert!(differences("", &succeeded, &succeeded).is_empty());
    let failed = entry("FAILED", failure());
    assert!(
        !differences("", &succeeded, &failed).is_empty(),
        "nobody refuses sync"
    );
}
