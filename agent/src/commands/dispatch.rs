//! Accepts requests, checks them in the order that Ironic expects, and runs the
//! commands.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use landfall_report::failure::{Class, Failure, Result as Outcome};
use serde_json::Value;
use tokio::sync::{Mutex, Notify};

use super::command::{Command, FlowTask};
use super::ledger::{Busy, Interrupted, Ledger};
use super::parse::{Parsed, Refusal, Request};

const ONLY_STANDALONE: &str =
    "poll.set_node_info is only possible if the agent runs with serve --standalone";

/// Executes a command. The caller passes this function in, so that this module does not
/// depend on disk code.
pub type Executor =
    Arc<dyn Fn(Command) -> Pin<Box<dyn Future<Output = Outcome<Value>> + Send>> + Send + Sync>;

/// The only entry point for commands. Cheap to clone.
#[derive(Clone)]
pub struct Dispatcher {
    ledger: Arc<Ledger>,
    executor: Executor,
    /// A synchronous command holds this lock while it runs. A second POST waits for the
    /// lock instead of getting status 409, as with Ironic's agent.
    order: Arc<Mutex<()>>,
    /// The name of the command that ended this boot, if any.
    ended_by: Arc<OnceLock<&'static str>>,
    /// Notified when an asynchronous command has ended, so that the agent sends a
    /// heartbeat: Ironic asks for the result only after a heartbeat.
    ended: Arc<Notify>,
    /// Whether `set_node_info` may set the node. Only a standalone agent accepts the
    /// command, because it makes no lookup and has no other source for the node.
    standalone: bool,
    /// Whether MD5 may be the only checksum of an image.
    md5_enabled: bool,
}

impl Dispatcher {
    pub fn new(ledger: Ledger, executor: Executor, ended: Arc<Notify>) -> Self {
        Self {
            ledger: Arc::new(ledger),
            executor,
            order: Arc::default(),
            ended_by: Arc::default(),
            ended,
            standalone: false,
            md5_enabled: false,
        }
    }

    #[must_use]
    pub fn md5_enabled(mut self, enabled: bool) -> Self {
        self.md5_enabled = enabled;
        self
    }

    #[must_use]
    pub fn standalone(mut self) -> Self {
        self.standalone = true;
        self
    }

    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Runs a command again that a crash of the agent interrupted.
    pub fn resume(&self, Interrupted { id, request }: Interrupted) {
        match Request::parse(&request).and_then(Request::command) {
            Ok(Parsed::Command(command)) => {
                tracing::warn!(
                    "{} was interrupted by a crash of the agent; starting it again",
                    command.name()
                );
                self.spawn(id, *command);
            }
            // The ledger should never contain a body that cannot be parsed. If it does,
            // mark the command as failed.
            Ok(Parsed::Failed(_, failure)) => self.ledger.end(&id, Err(failure)),
            Err(refusal) => self.ledger.end(
                &id,
                Err(Failure::new(Class::InvalidCommandError, refusal.text)),
            ),
        }
    }

    /// Runs the command in this body and returns its entry. If the command is
    /// synchronous or `wait` is set, this waits until the command has ended.
    ///
    /// # Errors
    /// If the request was rejected; then no command was started. The error has the HTTP
    /// status.
    pub async fn submit(&self, body: Vec<u8>, wait: bool) -> Result<Value, Refusal> {
        let turn = self.order.lock().await;
        let request = Request::parse(&body)?;
        if let Some(name) = self.ledger.busy() {
            return Err(busy(Busy(name)));
        }
        // The boot is ending, and would interrupt a new write.
        if let Some(name) = self.ended_by.get() {
            return Err(busy(Busy((*name).to_owned())));
        }
        if request.is("poll", "set_node_info") && !self.standalone {
            return Err(Refusal {
                status: 400,
                text: format!("Invalid command: {ONLY_STANDALONE}"),
            });
        }
        let refused = |refusal: &Refusal| tracing::error!("request refused: {}", refusal.text);
        let mut command = match request.command().inspect_err(refused)? {
            Parsed::Command(command) => *command,
            Parsed::Failed(name, failure) => {
                let id = self.ledger.begin(&name, None).map_err(busy)?;
                tracing::error!("{name}: {failure}");
                self.ledger.end(&id, Err(failure));
                return Ok(self.ledger.get(&id).unwrap_or_default());
            }
        };
        if let Command::StartFlow { tasks } = &mut command
            && !self.standalone
        {
            fail_set_node_info(tasks);
        }
        if let Command::PrepareImage { info, .. } = &command {
            info.refuse_md5(self.md5_enabled)
                .map_err(|failure| Refusal {
                    status: 400,
                    text: failure.in_words(),
                })?;
        }
        let synchronous = !command.is_asynchronous();
        let keep = command.may_be_repeated().then_some(&body[..]);
        let id = self.ledger.begin(command.name(), keep).map_err(busy)?;
        // Free the body: one with a config drive takes up most of the agent's memory.
        drop(body);
        self.spawn(id.clone(), command);
        if synchronous {
            let entry = self.ledger.ended(&id).await;
            drop(turn);
            return Ok(entry.unwrap_or_default());
        }
        drop(turn);
        let entry = if wait {
            self.ledger.ended(&id).await
        } else {
            self.ledger.get(&id)
        };
        Ok(entry.unwrap_or_default())
    }

    /// Runs the command in a separate task: it continues even if the conductor
    /// disconnects.
    fn spawn(&self, id: String, command: Command) {
        let this = self.clone();
        let name = command.name();
        tracing::info!("{name} begins");
        tokio::spawn(async move {
            let asynchronous = command.is_asynchronous();
            let ends_the_boot = command.ends_the_boot();
            let outcome = (this.executor)(command).await.map(|result| match result {
                Value::String(text) if asynchronous => format!("{name}: {text}").into(),
                other => other,
            });
            match &outcome {
                Ok(_) if ends_the_boot => {
                    tracing::info!("{name} done");
                    // Ignore an error: an earlier command has already set the value.
                    let _ = this.ended_by.set(name);
                }
                Ok(_) => tracing::info!("{name} done"),
                Err(failure) => tracing::error!("{name}: {failure}"),
            }
            this.ledger.end(&id, outcome);
            if asynchronous {
                this.ended.notify_one();
            }
        });
    }
}

fn busy(Busy(name): Busy) -> Refusal {
    Refusal {
        status: 409,
        text: format!("Agent is busy: executing command {name}"),
    }
}

/// Replaces `set_node_info` in a flow by an error. So the flow starts and fails at this
/// command, as with Ironic's agent.
fn fail_set_node_info(tasks: &mut [FlowTask]) {
    for task in tasks {
        if let Ok(Command::SetNodeInfo { .. }) = task.command {
            let failure = Failure::new(Class::InvalidCommandError, ONLY_STANDALONE);
            task.command = Err(failure);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dispatcher(dir: &tempfile::TempDir, gate: Arc<Notify>) -> Dispatcher {
        let (ledger, _) = Ledger::restore(dir.path());
        let executor: Executor = Arc::new(move |command| {
            let gate = Arc::clone(&gate);
            Box::pin(async move {
                if command.is_asynchronous() {
                    gate.notified().await;
                }
                Ok(Value::Null)
            })
        });
        Dispatcher::new(ledger, executor, Arc::default())
    }

    fn body(name: &str) -> Vec<u8> {
        serde_json::json!({"name": name, "params": {}})
            .to_string()
            .into_bytes()
    }

    #[tokio::test]
    async fn running_command_makes_busy_before_the_extension_is_looked_up() {
        let dir = tempfile::tempdir().unwrap();
        let gate = Arc::new(Notify::new());
        let dispatcher = dispatcher(&dir, Arc::clone(&gate));
        let entry = dispatcher
            .submit(body("standby.power_off"), false)
            .await
            .unwrap();
        assert_eq!(entry["command_status"], "RUNNING");
        for name in ["standby.sync", "nosuch.thing"] {
            let refusal = dispatcher.submit(body(name), false).await.unwrap_err();
            assert_eq!(refusal.status, 409);
            assert_eq!(refusal.text, "Agent is busy: executing command power_off");
        }
        let refusal = dispatcher.submit(body("nodot"), false).await.unwrap_err();
        assert_eq!(refusal.status, 400, "the dot rule comes first");
        gate.notify_one();
        dispatcher.ended.notified().await;
        let refusal = dispatcher.submit(body("standby.sync"), false).await;
        assert_eq!(
            refusal.unwrap_err().text,
            "Agent is busy: executing command power_off",
            "the machine is going down"
        );
    }

    #[tokio::test]
    async fn a_request_waits_for_a_synchronous_command_and_not_for_409() {
        let (began, running) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (ring, gate) = (Arc::clone(&began), Arc::clone(&running));
        let executor: Executor = Arc::new(move |_| {
            let (ring, gate) = (Arc::clone(&ring), Arc::clone(&gate));
            Box::pin(async move {
                ring.notify_one();
                gate.notified().await;
                Ok(Value::from("text"))
            })
        });
        let dispatcher = Dispatcher::new(Ledger::in_memory(), executor, Arc::default());
        let submit = |name| dispatcher.submit(body(name), true);
        let others = async {
            began.notified().await;
            // Reading the list must not wait for the running command.
            assert_eq!(dispatcher.ledger().busy().as_deref(), Some("sync"));
            running.notify_one();
            began.notified().await;
            running.notify_one();
        };
        let (first, second, ()) =
            tokio::join!(submit("standby.sync"), submit("standby.run_image"), others);
        assert_eq!(first.unwrap()["command_result"]["result"], "text");
        assert_eq!(
            second.unwrap()["command_result"]["result"],
            "run_image: text",
            "asynchronous ones are told with their name"
        );
    }

    #[tokio::test]
    async fn only_a_standalone_agent_accepts_its_node() {
        let ledger = Ledger::in_memory;
        let executor: Executor = Arc::new(|_| Box::pin(async { Ok(Value::Null) }));
        let looked_up = Dispatcher::new(ledger(), Arc::clone(&executor), Arc::default());
        let refusal = looked_up.submit(body("poll.set_node_info"), true).await;
        assert_eq!(refusal.unwrap_err().status, 400);
        let parsed = Arc::new(std::sync::Mutex::new(Vec::new()));
        let seen = Arc::clone(&parsed);
        let recorder: Executor = Arc::new(move |command| {
            if let Command::StartFlow { tasks } = command {
                *seen.lock().unwrap() = tasks;
            }
            Box::pin(async { Ok(Value::Null) })
        });
        let flow = serde_json::json!({"name": "flow.start_flow", "params": {"flow": [
            {"poll.set_node_info": {"node_info": {"node": {"uuid": "a"}, "config": {}}}},
        ]}});
        let looked_up = Dispatcher::new(ledger(), recorder, Arc::default());
        let flow = flow.to_string().into_bytes();
        looked_up.submit(flow, true).await.unwrap();
        let failure = parsed.lock().unwrap()[0].command.clone().unwrap_err();
        assert_eq!(failure.details, ONLY_STANDALONE);
        let standalone = Dispatcher::new(ledger(), executor, Arc::default()).standalone();
        let entry = standalone.submit(body("poll.set_node_info"), true).await;
        assert_eq!(entry.unwrap()["command_error"]["type"], "TypeError");
    }

    #[tokio::test]
    async fn an_image_with_an_md5_alone_is_refused_unless_md5_is_enabled() {
        let body = serde_json::json!({"name": "standby.prepare_image", "params": {"image_info": {
            "id": "a", "urls": ["http://h/a"], "checksum": "0".repeat(32),
        }}})
        .to_string()
        .into_bytes();
        let executor: Executor = Arc::new(|_| Box::pin(async { Ok(Value::Null) }));
        let usual = Dispatcher::new(Ledger::in_memory(), executor, Arc::default());
        let refusal = usual.submit(body.clone(), true).await.unwrap_err();
        assert_eq!(refusal.status, 400);
        assert!(
            refusal
                .text
                .starts_with("Invalid command parameters: Image checksum is not available"),
            "{}",
            refusal.text
        );
        let allowing = usual.md5_enabled(true);
        let entry = allowing.submit(body, true).await.unwrap();
        assert_eq!(entry["command_status"], "SUCCEEDED");
    }

    #[tokio::test]
    async fn synchronous_command_is_answered_when_it_has_ended() {
        let dir = tempfile::tempdir().unwrap();
        let entry = dispatcher(&dir, Arc::default())
            .submit(body("standby.sync"), false)
            .await
            .unwrap();
        assert_eq!(entry["command_status"], "SUCCEEDED");
    }
}
