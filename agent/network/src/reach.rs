//! Records how far discovery has come from each NIC towards the provisioning service.
//!
//! Discovery publishes its results here. The network task then prefers the NIC that has
//! reached the service, and writes the result to the state file.

use std::collections::BTreeMap;

use serde_json::{Value, json};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reach {
    /// Index of the NIC over which the service has answered.
    pub over: Option<u32>,
    /// For each NIC, by its index: the steps towards the service, up to the first step
    /// that is not done.
    pub ways: BTreeMap<u32, Vec<StepResult>>,
}

/// A step on the way from a NIC to the service. The variants have the order of the steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// A cable is plugged in, and the other end is active.
    Carrier,
    /// The NIC has an address that reaches further than its link.
    Address,
    Route,
    /// The service's name resolves to an address.
    Dns,
    /// The service accepts connections.
    Tcp,
    /// The TLS handshake succeeds.
    Tls,
    Http,
}

impl Step {
    /// The step's name on the console and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Step::Carrier => "carrier",
            Step::Address => "address",
            Step::Route => "route",
            Step::Dns => "DNS",
            Step::Tcp => "TCP",
            Step::Tls => "TLS",
            Step::Http => "HTTP",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// The step is not done, but nothing has failed.
    Waiting,
    /// The last attempt failed. The agent retries.
    Failed,
}

impl Outcome {
    /// The outcome's name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Done => "done",
            Outcome::Waiting => "waiting",
            Outcome::Failed => "failed",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepResult {
    pub step: Step,
    pub outcome: Outcome,
    /// What was found or what is missing, for the operator.
    pub text: String,
}

impl StepResult {
    pub fn done(step: Step, text: impl Into<String>) -> Self {
        Self {
            step,
            outcome: Outcome::Done,
            text: text.into(),
        }
    }

    /// The form in state files and in the output of tools.
    pub fn json(&self) -> Value {
        json!({
            "step": self.step.name(),
            "outcome": self.outcome.name(),
            "text": self.text,
        })
    }

    pub fn waiting(step: Step, text: impl Into<String>) -> Self {
        Self {
            outcome: Outcome::Waiting,
            ..Self::done(step, text)
        }
    }

    pub fn failed(step: Step, text: impl Into<String>) -> Self {
        Self {
            outcome: Outcome::Failed,
            ..Self::done(step, text)
        }
    }
}
