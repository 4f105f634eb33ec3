//! The documents that describe the API. Programs that were written for the API
//! of Ironic's agent may read them.

use serde_json::{Value, json};

const DOCS: &str = "https://docs.openstack.org/ironic-python-agent/";

/// The answer to `GET /`.
pub(super) fn root(base: &str) -> Value {
    let version = json!({"id": "v1", "links": links(base)});
    json!({
        "name": "OpenStack Ironic Python Agent API",
        "description": "landfall: an agent that speaks the protocol of the Ironic Python Agent",
        "versions": [version],
        "default_version": version,
    })
}

/// The answer to `GET /v1/`.
pub(super) fn version_1(base: &str) -> Value {
    let resource = |name: &str| {
        json!([
            {"href": format!("{base}/v1/{name}"), "rel": "self"},
            {"href": format!("{base}/{name}"), "rel": "bookmark"},
        ])
    };
    json!({
        "id": "v1",
        "commands": resource("commands"),
        "status": resource("status"),
        "media_types": [{
            "base": "application/json",
            "type": "application/vnd.openstack.ironic-python-agent.v1+json",
        }],
        "links": links(base),
    })
}

fn links(base: &str) -> Value {
    json!([
        {"href": format!("{base}/v1"), "rel": "self"},
        {"href": DOCS, "rel": "describedby", "type": "text/html"},
    ])
}
