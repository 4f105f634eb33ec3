//! Tests the scripted conductor itself: it must refuse what the real Ironic refused in
//! the recordings, with the same texts.

use anyhow::{Context, Result, ensure};
use landfall_tests::conductor::script::{Finish, Image, Method, Script};
use landfall_tests::conductor::{self, Conductor};
use landfall_tests::lab::{Family, Lab};
use landfall_tests::site::MAC;
use serde_json::{Value, json};

use crate::host_test;

struct Answer {
    status: u16,
    body: Value,
}

impl Answer {
    /// The text of an error, which Ironic sends as JSON inside JSON.
    fn fault(&self) -> Result<String> {
        let text = self.body["error_message"]
            .as_str()
            .context("no error_message")?;
        let fault: Value = serde_json::from_str(text)?;
        let text = fault["faultstring"]
            .as_str()
            .or(fault["description"].as_str());
        Ok(text.context("no text in the fault")?.to_owned())
    }
}

async fn ask(
    method: &str,
    path: &str,
    version: Option<&str>,
    body: Option<Value>,
) -> Result<Answer> {
    let client = reqwest::Client::builder().no_proxy().build()?;
    let url = format!("{}{path}", Family::V4.url(conductor::PORT));
    let mut request = client
        .request(method.parse()?, url)
        .header("Content-Type", "application/json")
        .header("Accept", "application/json");
    if let Some(version) = version {
        request = request.header("X-OpenStack-Ironic-API-Version", version);
    }
    if let Some(body) = body {
        request = request.body(body.to_string());
    }
    let response = request.send().await?;
    let status = response.status().as_u16();
    let body = serde_json::from_str(&response.text().await?).unwrap_or(Value::Null);
    Ok(Answer { status, body })
}

const NODE: &str = "/v1/heartbeat/62347504-3396-4ff0-b5e1-bc78f454c418";

async fn refused(lab: &Lab) -> Result<()> {
    // reqwest needs a crypto provider even for plain HTTP. An error means that a
    // provider is already installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let script = Script {
        macs: vec![MAC.to_owned()],
        root_device: None,
        automated_clean: false,
        uefi: false,
        image: Image {
            url: "http://192.0.2.1/image".to_owned(),
            hash_algorithm: "sha256",
            hash: "00".repeat(32),
            authorization: None,
        },
        method: Method::WriteImage { config_drive: None },
        finish: Finish::PowerOff,
        hold: true,
        heartbeat_timeout: conductor::HEARTBEAT_TIMEOUT,
        poll_while_held: false,
        erasure_concurrency: 4,
        target_raid_config: None,
    };
    let _conductor = Conductor::start(lab, script).await?;
    let lookup = format!("/v1/lookup?addresses={MAC}");
    let first = ask("GET", &lookup, Some("1.62"), None).await?;
    ensure!(first.status == 200, "first lookup: {}", first.status);
    let token = first.body["config"]["agent_token"]
        .as_str()
        .context("no token")?
        .to_owned();
    ensure!(
        token.len() == 43,
        "expected a token of 43 characters, found {}",
        token.len()
    );
    let second = ask("GET", &lookup, Some("1.62"), None).await?;
    ensure!(
        second.body["config"]["agent_token"] == "******",
        "the token was shown twice"
    );

    let beat = |changes: Value| {
        let mut body = json!({
            "callback_url": "https://192.0.2.10:9999", "agent_version": "9", "agent_token": token,
        });
        for (key, value) in changes.as_object().into_iter().flatten() {
            body[key] = value.clone();
        }
        Some(body)
    };
    let not_found = "Resource could not be found.";
    let needs_address = "At least one of 'addresses' and 'node_uuid' parameters is required";
    let latest = Some("1.68");
    let table = [
        ("GET", lookup.as_str(), None, None, 404, not_found),
        (
            "GET",
            &lookup,
            Some("1.999"),
            None,
            406,
            "Version 1.999 was requested but",
        ),
        (
            "GET",
            "/v1/lookup?addresses=52:54:00:ff:ff:ff",
            latest,
            None,
            404,
            not_found,
        ),
        (
            "GET",
            "/v1/lookup?addresses=xx",
            latest,
            None,
            400,
            needs_address,
        ),
        ("GET", "/v1/lookup", latest, None, 400, needs_address),
        (
            "POST",
            NODE,
            latest,
            Some(json!({"callback_url": "https://192.0.2.10:9999", "agent_version": "9"})),
            400,
            "Agent token is required for heartbeat processing.",
        ),
        (
            "POST",
            NODE,
            latest,
            beat(json!({"agent_token": "wrong"})),
            400,
            "Invalid or missing agent token received.",
        ),
        (
            "POST",
            NODE,
            latest,
            beat(json!({"callback_url": "http://192.0.2.10:9999"})),
            400,
            "TLS is required by configuration",
        ),
        (
            "POST",
            NODE,
            latest,
            beat(json!({"callback_url": "ftp://x"})),
            400,
            "An issue with the supplied \"callback_url\" has been detected.",
        ),
        (
            "POST",
            NODE,
            Some("1.67"),
            beat(json!({"agent_verify_ca": "x"})),
            400,
            "Field \"agent_verify_ca\" not recognised in this version",
        ),
        (
            "POST",
            NODE,
            latest,
            beat(json!({"zzz": 1})),
            400,
            "Unexpected arguments: zzz",
        ),
        (
            "POST",
            "/v1/heartbeat/00000000-0000-0000-0000-000000000000",
            latest,
            beat(json!({})),
            404,
            "Node 00000000-0000-0000-0000-000000000000 could not be found.",
        ),
        (
            "POST",
            "/v1/continue_inspection",
            Some("1.84"),
            Some(json!({"inventory": {"interfaces": []}})),
            400,
            "Schema error for data: [] should be non-empty",
        ),
        (
            "POST",
            "/v1/continue_inspection",
            Some("1.83"),
            Some(json!({"inventory": {"interfaces": [{"mac_address": MAC}]}})),
            404,
            "API version 1.84 or newer is required",
        ),
    ];
    for (method, path, version, body, status, text) in table {
        let what = format!("{method} {path} {version:?} {body:?}");
        let answer = ask(method, path, version, body).await?;
        ensure!(
            answer.status == status,
            "{what}: expected {status}, found {}",
            answer.status
        );
        let fault = answer.fault().with_context(|| what.clone())?;
        ensure!(
            fault.starts_with(text),
            "{what}: expected '{text}', found '{fault}'"
        );
    }

    // Valid heartbeats, and the fields that must not change after the first one.
    let good = json!({"agent_verify_ca": "one"});
    ensure!(
        ask("POST", NODE, latest, beat(good.clone())).await?.status == 202,
        "a good heartbeat is refused"
    );
    for (changes, text) in [
        (
            json!({"agent_verify_ca": "one", "callback_url": "https://192.0.2.10:9998"}),
            "callback_url",
        ),
        (json!({"agent_verify_ca": "two"}), "agent_verify_ca"),
    ] {
        let answer = ask("POST", NODE, latest, beat(changes)).await?;
        ensure!(
            answer.status == 400 && answer.fault()?.contains(text),
            "a changed {text} is accepted"
        );
    }
    Ok(())
}

#[test]
fn conductor_refuses_what_ironic_refuses() {
    host_test("conductor_refuses_what_ironic_refuses", refused);
}
