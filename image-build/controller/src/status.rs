//! `status` of a `PreprovisioningImage`. Reading ignores fields of an unexpected type;
//! writing replaces the whole status.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::host::Format;
use crate::resource::text;

pub(crate) const READY: &str = "Ready";
pub(crate) const ERROR: &str = "Error";
/// The maximum length of a condition's message in bytes. The CRD allows 32768 characters,
/// but people must be able to read the message.
const LONGEST_MESSAGE: usize = 4096;

/// The state of the image. An empty text stands for an absent field.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Status {
    pub(crate) image_url: String,
    pub(crate) kernel_url: String,
    pub(crate) extra_kernel_params: String,
    pub(crate) format: Option<Format>,
    pub(crate) architecture: String,
    pub(crate) network_data: NetworkData,
    /// All conditions, including those that other programs have set.
    pub(crate) conditions: Vec<Condition>,
}

/// The Secret whose network data is in the image, and its version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NetworkData {
    pub(crate) name: String,
    /// The Secret's `resourceVersion`.
    pub(crate) version: String,
}

impl Status {
    /// Reads a status. A part that has another type than documented counts as
    /// absent, and the next write replaces it.
    pub(crate) fn read(value: &Value) -> Self {
        let field = |key| text(value, key).to_owned();
        let network_data = value.get("networkData").unwrap_or(&Value::Null);
        let conditions = value.get("conditions").and_then(Value::as_array);
        Self {
            image_url: field("imageUrl"),
            kernel_url: field("kernelUrl"),
            extra_kernel_params: field("extraKernelParams"),
            format: Format::of_name(text(value, "format")),
            architecture: field("architecture"),
            network_data: NetworkData {
                name: text(network_data, "name").to_owned(),
                version: text(network_data, "version").to_owned(),
            },
            conditions: conditions
                .into_iter()
                .flatten()
                .filter_map(|condition| serde_json::from_value(condition.clone()).ok())
                .collect(),
        }
    }

    /// The body of a merge patch that replaces a resource's status by this one. The API
    /// server rejects it if the resource has changed since `resource_version`.
    pub(crate) fn patch(&self, resource_version: &str) -> Value {
        let field = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        json!({
            "metadata": {"resourceVersion": resource_version},
            "status": {
                "imageUrl": field(&self.image_url),
                "kernelUrl": field(&self.kernel_url),
                "extraKernelParams": field(&self.extra_kernel_params),
                "format": self.format.map(Format::name),
                "architecture": field(&self.architecture),
                "networkData": {
                    "name": field(&self.network_data.name),
                    "version": field(&self.network_data.version),
                },
                "conditions": self.conditions,
            },
        })
    }

    pub(crate) fn condition(&self, kind: &str) -> Option<&Condition> {
        let mut conditions = self.conditions.iter();
        conditions.find(|condition| condition.type_ == kind)
    }

    pub(crate) fn is_true(&self, kind: &str) -> bool {
        self.condition(kind)
            .is_some_and(|condition| condition.status == "True")
    }

    /// Sets a condition as metal3 does: the time of the transition moves only when
    /// the condition's status changes.
    pub(crate) fn set(&mut self, kind: &str, state: &State, generation: i64, now: Timestamp) {
        let status = if state.is_true { "True" } else { "False" };
        let unchanged = self
            .condition(kind)
            .filter(|condition| condition.status == status);
        // The API server stores whole seconds.
        let whole = Timestamp::from_second(now.as_second()).unwrap_or(now);
        let since = unchanged.map_or(Time(whole), |old| old.last_transition_time.clone());
        let new = Condition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: state.reason.to_owned(),
            message: shortened(&state.message),
            observed_generation: Some(generation),
            last_transition_time: since,
        };
        let mut conditions = self.conditions.iter_mut();
        match conditions.find(|condition| condition.type_ == kind) {
            Some(old) => *old = new,
            None => self.conditions.push(new),
        }
    }
}

/// What a condition says.
pub(crate) struct State {
    pub(crate) is_true: bool,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

fn shortened(message: &str) -> String {
    if message.len() <= LONGEST_MESSAGE {
        return message.to_owned();
    }
    let end = message.floor_char_boundary(LONGEST_MESSAGE);
    format!("{} ...", &message[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(is_true: bool, message: &str) -> State {
        State {
            is_true,
            reason: "ImageSuccess",
            message: message.to_owned(),
        }
    }

    fn second(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_time_of_the_transition_moves_with_the_status_only() {
        let mut status = Status::default();
        let mut since = Vec::new();
        for (is_true, message, now) in [(false, "a", 10), (false, "b", 20), (true, "b", 30)] {
            status.set(READY, &state(is_true, message), 1, second(now));
            let ready = status.condition(READY).unwrap();
            assert_eq!(ready.message, message);
            since.push(ready.last_transition_time.0.as_second());
        }
        assert_eq!(since, [10, 10, 30]);
        assert_eq!(status.conditions.len(), 1);
    }

    #[test]
    fn a_written_status_is_read_back() {
        let mut status = Status {
            image_url: "http://192.0.2.1/a.iso".to_owned(),
            format: Some(Format::Iso),
            architecture: "x86_64".to_owned(),
            ..Status::default()
        };
        let now: Timestamp = "2026-08-01T12:00:00.987654Z".parse().unwrap();
        status.set(READY, &state(true, "Generated image"), 3, now);
        let patch = status.patch("17");
        assert_eq!(patch["metadata"]["resourceVersion"], "17");
        assert_eq!(patch["status"]["kernelUrl"], Value::Null);
        assert_eq!(Status::read(&patch["status"]), status);
    }

    #[test]
    fn parts_of_another_type_count_as_absent() {
        for value in [
            json!(null),
            json!("ready"),
            json!([1]),
            json!({"imageUrl": 7, "format": "", "networkData": "a", "conditions": {"Ready": true}}),
            json!({"format": ["iso"], "networkData": [1], "conditions": [7, null, {"type": "Ready"}]}),
            json!({"conditions": [{"type": "Ready", "status": "True", "reason": "A", "message": "",
                "lastTransitionTime": "yesterday"}]}),
        ] {
            assert_eq!(Status::read(&value), Status::default(), "{value}");
        }
    }

    #[test]
    fn conditions_of_others_stay() {
        let mut status = Status::read(&json!({"conditions": [{
            "type": "Approved", "status": "True", "reason": "ByHand", "message": "",
            "lastTransitionTime": "2026-08-01T12:00:00Z",
        }]}));
        status.set(READY, &state(true, ""), 1, second(1));
        let kinds: Vec<_> = status.conditions.iter().map(|c| c.type_.as_str()).collect();
        assert_eq!(kinds, ["Approved", "Ready"]);
    }

    #[test]
    fn a_message_has_a_limit() {
        let mut status = Status::default();
        status.set(ERROR, &state(true, &"\u{e4}".repeat(40_000)), 1, second(1));
        let message = &status.condition(ERROR).unwrap().message;
        assert!(message.len() <= LONGEST_MESSAGE + 4, "{}", message.len());
    }
}
