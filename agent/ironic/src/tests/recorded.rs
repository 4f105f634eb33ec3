//! Repeats every request of the recorded agent in `agent/tests/transcripts`, against a
//! server that sends the recorded answers. Method, path, headers (except the API version)
//! and the members of a heartbeat must be the same.

use std::collections::BTreeSet;
use std::path::Path;

use landfall_http_client::fixtures::Asked;
use serde_json::Value;

use super::*;
use crate::wire::LookupAnswer;

/// The headers that Landfall's HTTP client adds on its own.
const OURS: [&str; 4] = ["host", "user-agent", "content-length", "accept-encoding"];

struct Exchange {
    method: String,
    path: String,
    headers: BTreeSet<(String, String)>,
    body: Value,
    status: u16,
    answer: String,
}

/// The requests of the recorded agent, file by file.
fn conversations() -> Vec<(String, Vec<Exchange>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/transcripts");
    let mut found: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "json")
        })
        .map(|path| {
            let entries: Vec<Value> =
                serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let exchanges = entries.iter().filter_map(exchange).collect();
            (name, exchanges)
        })
        .collect();
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    found
}

fn exchange(entry: &Value) -> Option<Exchange> {
    if entry["dir"] != "agent->ironic" {
        return None;
    }
    let (request, response) = (&entry["request"], &entry["response"]);
    let headers = request["headers"].as_object()?.iter();
    Some(Exchange {
        method: request["method"].as_str()?.to_owned(),
        path: request["path"].as_str()?.to_owned(),
        headers: headers
            .map(|(name, value)| {
                (
                    name.to_ascii_lowercase(),
                    value.as_str().unwrap().to_owned(),
                )
            })
            .collect(),
        body: request["body"].clone(),
        status: u16::try_from(response["status"].as_u64()?).ok()?,
        answer: match &response["body"] {
            Value::String(text) => text.clone(),
            body => body.to_string(),
        },
    })
}

/// The headers of a request without the headers that our HTTP client adds, and
/// separately the API version.
fn shape(asked: &Asked) -> (BTreeSet<(String, String)>, Option<String>) {
    let mut version = None;
    let mut headers = BTreeSet::new();
    for (name, value) in &asked.headers {
        match name.as_str() {
            "x-openstack-ironic-api-version" => version = Some(value.clone()),
            name if OURS.contains(&name) => {}
            _ => drop(headers.insert((name.clone(), value.clone()))),
        }
    }
    (headers, version)
}

/// The names of all members of an object.
fn names(value: &Value) -> BTreeSet<String> {
    match value {
        Value::Object(members) => members.keys().cloned().collect(),
        _ => BTreeSet::new(),
    }
}

#[test]
fn our_requests_agree_with_every_recorded_one() {
    let mut lookups = 0;
    let mut heartbeats = 0;
    let mut inspections = 0;
    for (name, exchanges) in conversations() {
        for recorded in exchanges {
            let ironic = Server::scripted([Reply::new(recorded.status, recorded.answer.clone())]);
            let plain = Transport {
                request_id: None,
                ..transport()
            };
            let base = [ironic.base.clone()];
            let service = Service::new(plain.clone(), &base, NEW, None);
            let what = format!("{name}: {} {}", recorded.method, recorded.path);
            let mut expected_version = None;
            if recorded.path.starts_with("/v1/lookup?") {
                lookups += 1;
                expected_version = Some("1.62");
                ask_lookup(&service, &recorded, &what);
            } else if let Some(uuid) = recorded.path.strip_prefix("/v1/heartbeat/") {
                heartbeats += 1;
                expected_version = Some("1.68");
                ask_heartbeat(&service, uuid, &recorded, &what);
            } else if recorded.path == "/v1/continue_inspection" {
                inspections += 1;
                let urls = [format!("{}{}", ironic.base, recorded.path)];
                let body = recorded.body.to_string();
                let uuid = run(post_inventory(
                    &plain,
                    &urls,
                    &body,
                    Retry::Limited,
                    pending(),
                ))
                .unwrap();
                let answer: Value = serde_json::from_str(&recorded.answer).unwrap();
                let answered = answer["uuid"].as_str().or(answer["node"]["uuid"].as_str());
                assert_eq!(uuid.as_deref(), answered, "{what}");
            } else {
                assert_eq!(recorded.path, "/", "{what}: what is that?");
                let unknown = Service::new(plain, &base, "", None);
                run(unknown.make_version_known());
                assert!(unknown.takes_certificate(), "{what}");
            }
            let asked = ironic.asked().remove(0);
            assert_eq!(
                asked.line,
                format!("{} {} HTTP/1.1", recorded.method, recorded.path)
            );
            let (headers, version) = shape(&asked);
            let mut wanted = recorded.headers;
            // The recorded agent used other API versions than Landfall, so the version is
            // compared with the expected one below.
            wanted.retain(|(name, _)| name != "x-openstack-ironic-api-version");
            assert_eq!(headers, wanted, "{what}");
            assert_eq!(version.as_deref(), expected_version, "{what}");
        }
    }
    assert!(
        lookups >= 6 && heartbeats >= 40 && inspections >= 4,
        "{lookups} {heartbeats} {inspections}"
    );
}

fn ask_lookup(service: &Service, recorded: &Exchange, what: &str) {
    let encoded = recorded.path.split_once("addresses=").unwrap().1;
    let macs = percent_encoding::percent_decode_str(encoded)
        .decode_utf8()
        .unwrap();
    let macs: Vec<&str> = macs.split(',').collect();
    let mut query = query_of(machine(&macs));
    let dir = TempDir::new().unwrap();
    let found = run(look_up_until_known(
        service,
        &mut query,
        &mut token(&dir),
        QUICK,
    ));
    assert_eq!(recorded.status, 200, "{what}");
    let lookup = LookupAnswer::read(&recorded.answer).unwrap();
    match lookup.agent_token() {
        Some("******") => assert_eq!(found.unwrap_err(), NoNode::TokenAlreadySent, "{what}"),
        Some(secret) => {
            let (node, kept) = found.unwrap();
            assert_eq!((node, kept.as_str()), (lookup.clone(), secret), "{what}");
        }
        None => panic!("{what}: no token was recorded"),
    }
}

fn ask_heartbeat(service: &Service, uuid: &str, recorded: &Exchange, what: &str) {
    let text = |name: &str| recorded.body[name].as_str().unwrap().to_owned();
    let callback = Callback {
        url: text("callback_url"),
        certificate: Some(text("agent_verify_ca")),
        token: text("agent_token"),
    };
    let body = heartbeat::body(service, &callback, None).unwrap();
    let ours: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(names(&ours), names(&recorded.body), "{what}");
    for name in ["callback_url", "agent_token", "agent_verify_ca"] {
        assert_eq!(ours[name], recorded.body[name], "{what}");
    }
    let answer = run(service.post_heartbeat(uuid, body, false)).unwrap();
    assert_eq!(answer.status, recorded.status, "{what}");
    if answer.status >= 400 {
        let fault = wire::fault(&answer);
        assert!(
            fault.contains(&answer.status.to_string()) && !fault.contains('{'),
            "{what}: {fault}"
        );
    }
}
