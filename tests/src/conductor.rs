//! The scripted conductor, which plays Ironic's side of the deploy-agent
//! protocol, with the behaviour of Ironic 39 and its defaults.
//!
//! [`script`] describes what happens to the node, [`api`] answers the agent's
//! requests, and [`deploy`] sends commands after heartbeats through
//! [`agent_client`]. The conductor is strict where Ironic is strict. If Ironic
//! tolerates something that an agent should not do, the conductor records a
//! complaint, and any complaint fails the test.

pub mod agent_client;
mod api;
mod deploy;
mod node;
pub mod script;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::journal::{Journal, Source};
use crate::lab::{HOST_V4, HOST_V6, Lab};
use script::Script;

/// In seconds: the default of Ironic's `[api]ramdisk_heartbeat_timeout`.
pub const HEARTBEAT_TIMEOUT: u64 = 300;

pub const PORT: u16 = 6385;

/// State of the node's deployment. The names are Ironic's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProvisionState {
    WaitCallback,
    /// The conductor has sent the command with which the agent reboots or powers off
    /// into the new system.
    Active,
    /// The deployment failed, with this `last_error`.
    DeployFailed(String),
}

/// Why the agent cannot use the answer to a lookup. All variants but `Hostile` are
/// answers that Ironic gives.
#[derive(Debug, Clone, Copy)]
pub enum LookupFault {
    NotFound,
    Forbidden,
    Locked,
    /// An earlier boot of the machine has the token.
    TokenSent,
    /// The text of the error is [`TERMINAL_SEQUENCES`].
    Hostile,
}

/// A text that clears the screen and moves the cursor of the terminal that prints it,
/// by a control character (CSI) and by escape sequences.
pub const TERMINAL_SEQUENCES: &str = "gone\u{9b}2J\u{1b}[2J\u{1b}[1;1Hhere";

/// What the conductor knows about the agent.
struct Memory {
    state: watch::Sender<ProvisionState>,
    token: Option<String>,
    /// The last token that the conductor issued. Unlike `token`, it is kept when a
    /// deployment ends.
    last_token: Option<String>,
    logs: Option<String>,
    callback_url: Option<String>,
    verify_ca: Option<String>,
    agent_version: Option<String>,
    inventory: Option<Value>,
    lookups: usize,
    lookup_fault: Option<LookupFault>,
    heartbeats: usize,
    status_messages: Vec<String>,
    held: bool,
    complaints: Vec<String>,
}

struct Shared {
    journal: Journal,
    script: Script,
    memory: Mutex<Memory>,
    heartbeats: mpsc::Sender<()>,
}

impl Shared {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, text: impl Into<String>) {
        self.journal.record(Source::Conductor, text);
    }

    fn complain(&self, text: impl Into<String>) {
        let text = text.into();
        self.note(format!("complaint: {text}"));
        self.memory().complaints.push(text);
    }
}

/// A conductor with one node. It runs until it is dropped.
pub struct Conductor {
    shared: Arc<Shared>,
    state: watch::Receiver<ProvisionState>,
    tasks: JoinSet<()>,
}

impl Conductor {
    /// Serves on the lab's host addresses.
    pub async fn start(lab: &Lab, script: Script) -> Result<Self> {
        // One heartbeat can wait while the conductor handles another. The conductor
        // drops further heartbeats, as Ironic does while it has the node locked.
        let (heartbeats, waiting) = mpsc::channel(1);
        let (state, receiver) = watch::channel(ProvisionState::WaitCallback);
        let shared = Arc::new(Shared {
            journal: lab.journal.clone(),
            heartbeats,
            memory: Mutex::new(Memory {
                state,
                token: None,
                last_token: None,
                logs: None,
                callback_url: None,
                verify_ca: None,
                agent_version: None,
                inventory: None,
                lookups: 0,
                lookup_fault: None,
                heartbeats: 0,
                status_messages: Vec::new(),
                held: script.hold,
                complaints: Vec::new(),
            }),
            script,
        });
        let mut tasks = JoinSet::new();
        for address in [
            SocketAddr::from((HOST_V4, PORT)),
            SocketAddr::from((HOST_V6, PORT)),
        ] {
            let listener = TcpListener::bind(address)
                .await
                .with_context(|| format!("listening on {address}"))?;
            let router = api::router(shared.clone());
            tasks.spawn(async move {
                // Returns only after an error of accept(), which the agent then
                // notices.
                let _ = axum::serve(listener, router).await;
            });
        }
        tasks.spawn(deploy::drive(shared.clone(), waiting));
        shared.note("serving");
        Ok(Self {
            shared,
            state: receiver,
            tasks,
        })
    }

    /// Ends the conductor. Its addresses are free afterwards.
    pub async fn stop(mut self) {
        self.tasks.shutdown().await;
    }

    /// Waits for the end of the deployment.
    pub async fn outcome(&self, within: Duration) -> Result<ProvisionState> {
        let mut state = self.state.clone();
        let ended = state.wait_for(|state| *state != ProvisionState::WaitCallback);
        let outcome = tokio::time::timeout(within, ended)
            .await
            .with_context(|| format!("no end of the deployment within {} s", within.as_secs()))??;
        Ok(outcome.clone())
    }

    /// Waits for the deployment to succeed. Fails if there were complaints.
    pub async fn deployed(&self, within: Duration) -> Result<()> {
        let outcome = self.outcome(within).await?;
        ensure!(
            outcome == ProvisionState::Active,
            "the deployment ended as {outcome:?}"
        );
        self.no_complaints()
    }

    /// Waits for the deployment to fail and returns `last_error`. Fails if there
    /// were complaints.
    pub async fn failed(&self, within: Duration) -> Result<String> {
        let ProvisionState::DeployFailed(last_error) = self.outcome(within).await? else {
            anyhow::bail!("the deployment succeeded");
        };
        self.no_complaints()?;
        Ok(last_error)
    }

    fn no_complaints(&self) -> Result<()> {
        let complaints = self.shared.memory().complaints.clone();
        ensure!(
            complaints.is_empty(),
            "the agent broke the protocol:\n{}",
            complaints.join("\n")
        );
        Ok(())
    }

    /// Lets a held script ([`Script::hold`]) continue with the next heartbeat.
    pub fn release(&self) {
        self.shared.memory().held = false;
        self.shared.note("the deployment goes on");
    }

    /// The data of the inspection that the agent sent. The inventory is its member
    /// `inventory`.
    #[must_use]
    pub fn inventory(&self) -> Option<Value> {
        self.shared.memory().inventory.clone()
    }

    /// The last token given to the agent.
    #[must_use]
    pub fn token(&self) -> Option<String> {
        self.shared.memory().last_token.clone()
    }

    /// The agent's logs, collected after a failure: a tar.gz archive in base64.
    #[must_use]
    pub fn logs(&self) -> Option<String> {
        self.shared.memory().logs.clone()
    }

    /// Number of accepted heartbeats.
    #[must_use]
    pub fn heartbeats(&self) -> usize {
        self.shared.memory().heartbeats
    }

    /// The status text of each heartbeat that had one, also of rejected heartbeats.
    #[must_use]
    pub fn status_messages(&self) -> Vec<String> {
        self.shared.memory().status_messages.clone()
    }

    /// Makes lookups fail with this fault from now on, or succeed with `None`.
    pub fn fail_lookups(&self, fault: Option<LookupFault>) {
        self.shared.memory().lookup_fault = fault;
        self.shared.note(format!("lookups fail with {fault:?}"));
    }

    /// Number of lookups that found the node.
    #[must_use]
    pub fn lookups(&self) -> usize {
        self.shared.memory().lookups
    }
}
