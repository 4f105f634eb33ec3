//! Makes the Ignition config of one run, and the proof that it was applied.

use serde_json::json;

/// A config that contains a random value. If the installed system shows the value,
/// it applied this config.
#[derive(Debug, Clone)]
pub struct Proof {
    value: String,
    host_name: String,
}

impl Proof {
    /// A new random value, for a node with this host name.
    #[must_use]
    pub fn new(host_name: &str) -> Self {
        Self {
            value: uuid::Uuid::new_v4().simple().to_string(),
            host_name: host_name.to_owned(),
        }
    }

    /// The same value, for a node with another host name.
    #[must_use]
    pub fn with_host_name(self, host_name: &str) -> Self {
        Self {
            host_name: host_name.to_owned(),
            ..self
        }
    }

    /// The config. It contains no host name: the agent must add it from the
    /// deployment's meta data.
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

    /// A config that only points to [`Self::config`], which must be served at
    /// `url`.
    #[must_use]
    pub fn pointer(url: &str) -> String {
        json!({"ignition": {"version": "3.2.0", "config": {"merge": [{"source": url}]}}})
            .to_string()
    }

    /// The line that the installed system prints after Ignition wrote both files,
    /// the proof and the host name.
    #[must_use]
    pub fn line(&self) -> String {
        format!("hostname={} proof={}", self.host_name, self.value)
    }
}

/// The start of the installed system's last line if everything succeeded.
pub const INSTALLED_SYSTEM_OK: &str = "TEST-IMAGE-OK first=1 platform=metal";

/// The start of the installed system's last line at each later boot.
pub const INSTALLED_SYSTEM_LATER_BOOT: &str = "TEST-IMAGE-OK first=0";
