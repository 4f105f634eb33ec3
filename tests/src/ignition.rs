//! The Ignition config of one run, and the proof that it was applied.

use serde_json::json;

/// A config with a value that nobody can know before this run.
#[derive(Debug, Clone)]
pub struct Proof {
    value: String,
    host_name: String,
}

impl Proof {
    /// A new random value for a node that shall be called `host_name`.
    #[must_use]
    pub fn new(host_name: &str) -> Self {
        Self {
            value: uuid::Uuid::new_v4().simple().to_string(),
            host_name: host_name.to_owned(),
        }
    }

    /// The config. It says nothing about the host name: that is for the agent
    /// to add from the deployment's meta data.
    #[must_use]
    pub fn config(&self) -> String {
        json!({
            "ignition": {"version": "3.2.0"},
            "storage": {"files": [{
                "path": "/etc/ignition-proof",
                "mode": 0o644,
                "contents": {"source": format!("data:,{}", self.value)},
            }]},
        })
        .to_string()
    }

    /// A config that says nothing but where the rest is: [`Self::config`] is to
    /// be served there.
    #[must_use]
    pub fn pointer(url: &str) -> String {
        json!({"ignition": {"version": "3.2.0", "config": {"merge": [{"source": url}]}}})
            .to_string()
    }

    /// What the installed system prints when Ignition has written both files:
    /// the proof and the host name.
    #[must_use]
    pub fn line(&self) -> String {
        format!("hostname={} proof={}", self.host_name, self.value)
    }
}

/// How the last line of the installed system begins when all went well.
pub const INSTALLED_SYSTEM_OK: &str = "TEST-IMAGE-OK first=1 platform=metal";

/// How it begins at each later boot.
pub const INSTALLED_SYSTEM_AGAIN: &str = "TEST-IMAGE-OK first=0";
