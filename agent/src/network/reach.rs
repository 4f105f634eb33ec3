//! What is known of the way to the provisioning service, NIC by NIC.
//!
//! Discovery finds it out and tells it here: the network prefers the NIC that
//! has reached the service, and the state file keeps what was seen.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// What discovery has found out so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reach {
    /// The kernel's index of the NIC over which the service has answered.
    pub over: Option<u32>,
    /// By the kernel's index: each step of the way up to the first that was
    /// not done.
    pub ways: BTreeMap<u32, Vec<StepResult>>,
}

/// A step of the way from a NIC to the service, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// There is a cable, and somebody at its other end.
    Carrier,
    /// There is an address that reaches further than the link.
    Address,
    /// There is a route to the service over this NIC.
    Route,
    /// The service's name has an address.
    Dns,
    /// The service takes connections.
    Tcp,
    /// Each side believes the other.
    Tls,
    /// The service answers a request.
    Http,
}

impl Step {
    /// Its name on the console and in JSON.
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

/// How far a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Done.
    Done,
    /// Nothing is wrong yet.
    Waiting,
    /// It was tried in vain. It is tried again.
    Failed,
}

impl Outcome {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Done => "done",
            Outcome::Waiting => "waiting",
            Outcome::Failed => "failed",
        }
    }
}

/// What became of one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepResult {
    /// Which step.
    pub step: Step,
    /// How far it is.
    pub outcome: Outcome,
    /// What was found, or what is missing, for the operator.
    pub text: String,
}

impl StepResult {
    /// A step that is done.
    pub fn done(step: Step, text: impl Into<String>) -> Self {
        Self {
            step,
            outcome: Outcome::Done,
            text: text.into(),
        }
    }

    /// As state files and tools tell it.
    pub fn json(&self) -> Value {
        json!({
            "step": self.step.name(),
            "outcome": self.outcome.name(),
            "text": self.text,
        })
    }

    /// A step that takes its time.
    pub fn waiting(step: Step, text: impl Into<String>) -> Self {
        Self {
            outcome: Outcome::Waiting,
            ..Self::done(step, text)
        }
    }

    /// A step that was tried in vain.
    pub fn failed(step: Step, text: impl Into<String>) -> Self {
        Self {
            outcome: Outcome::Failed,
            ..Self::done(step, text)
        }
    }
}
