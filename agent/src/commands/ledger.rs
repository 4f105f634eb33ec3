//! The list of commands since the boot, as Ironic reads it back.
//!
//! Ironic follows a deployment only by this list. If the list is empty, Ironic assumes
//! that the agent has just booted, and starts the next step. So the list is kept in /run.
//! After a crash of the agent, a command that was running is run again or listed as
//! failed, but never removed.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use landfall_report::failure::{Class, Failure, Result as Outcome};
use landfall_sys::state_file::StateFile;
use serde_json::{Value, json};
use tokio::sync::watch;
use uuid::Uuid;

/// The maximum number of entries. An agent that runs for weeks with Ironic's fast track
/// drops the oldest ones.
const KEPT: usize = 500;
/// The number of newest entries that keep their whole result. A few are enough: Ironic
/// reads only the last entry, and repeats a request within a minute if it missed the
/// answer.
const WHOLE: usize = 4;
/// In bytes: the length limit of a text in the result of an older entry, and of the whole
/// result as JSON. Logs and config drives have megabytes, and nobody reads old ones.
const OLD_TEXT_LIMIT: usize = 1 << 10;
const OLD_RESULT_LIMIT: usize = 16 << 10;
/// How often a command is started before a crash counts as its failure.
const TRIES: u64 = 2;

const RUNNING: &str = "RUNNING";
const SUCCEEDED: &str = "SUCCEEDED";
const FAILED: &str = "FAILED";

/// The list. All methods take `&self`, so it can be shared.
#[derive(Debug)]
pub struct Ledger {
    entries: Mutex<Vec<Entry>>,
    /// Counts the commands that have ended. A change wakes the tasks that wait for a
    /// command.
    endings: watch::Sender<u64>,
    file: StateFile,
    /// The body of the running command, if a restarted agent may run the command
    /// again. It has its own file, because it may contain a config drive and the
    /// list is written often.
    request: StateFile,
}

#[derive(Debug, Clone)]
struct Entry {
    id: String,
    name: String,
    status: String,
    error: Value,
    result: Value,
    tries: u64,
}

/// The error if another command is running; holds its name.
#[derive(Debug, PartialEq, Eq)]
pub struct Busy(pub String);

/// A command that a crash interrupted and that must run again.
#[derive(Debug)]
pub struct Interrupted {
    /// The ID of its entry, which is still RUNNING.
    pub id: String,
    /// The body of its request.
    pub request: Vec<u8>,
}

impl Ledger {
    /// Loads the list from this directory, or starts an empty one. Also returns the
    /// command that was running when the agent crashed, if it can run again.
    pub fn restore(directory: &Path) -> (Self, Option<Interrupted>) {
        Self::of_files(
            StateFile::new(directory, "commands.json"),
            StateFile::new(directory, "running-command.json"),
        )
    }

    /// An empty list that is not stored anywhere.
    pub fn in_memory() -> Self {
        Self::of_files(StateFile::nowhere(), StateFile::nowhere()).0
    }

    fn of_files(file: StateFile, request: StateFile) -> (Self, Option<Interrupted>) {
        let mut entries = match file.load() {
            Ok(None) => Vec::new(),
            Ok(Some(bytes)) => read(&bytes),
            Err(error) => {
                tracing::warn!("cannot read the stored command list: {error}; it starts empty");
                Vec::new()
            }
        };
        // Commands run one at a time, so at most one entry is still running.
        let mut again = None;
        for entry in entries.iter_mut().filter(|entry| entry.status == RUNNING) {
            let body = request.load().ok().flatten();
            match body.filter(|_| entry.tries < TRIES && again.is_none()) {
                Some(request) => {
                    entry.tries += 1;
                    again = Some(Interrupted {
                        id: entry.id.clone(),
                        request,
                    });
                }
                None => entry.end(Err(Failure::other(format!(
                    "the agent crashed while it executed {}",
                    entry.name
                )))),
            }
        }
        let ledger = Self {
            entries: Mutex::new(entries),
            endings: watch::Sender::new(0),
            file,
            request,
        };
        ledger.save(&ledger.lock());
        (ledger, again)
    }

    /// Adds a running command and returns its ID. `request` is the body, if a
    /// restarted agent may run the command again.
    ///
    /// # Errors
    /// If the last command of the list is still running.
    pub fn begin(&self, name: &str, request: Option<&[u8]>) -> Result<String, Busy> {
        let mut entries = self.lock();
        if let Some(last) = entries.last().filter(|last| last.status == RUNNING) {
            return Err(Busy(last.name.clone()));
        }
        match request {
            Some(body) => self.request.store_or_warn(body),
            None => self.request.remove(),
        }
        let id = Uuid::new_v4().to_string();
        entries.push(Entry {
            id: id.clone(),
            name: name.to_owned(),
            status: RUNNING.to_owned(),
            error: Value::Null,
            result: Value::Null,
            tries: 1,
        });
        let excess = entries.len().saturating_sub(KEPT);
        entries.drain(..excess);
        // With the new entry one more entry counts as old, so shorten it.
        if let Some(old) = entries.len().checked_sub(WHOLE + 1) {
            entries[old].shorten();
        }
        self.save(&entries);
        Ok(id)
    }

    /// The name of the last command, if it is running.
    pub fn busy(&self) -> Option<String> {
        let entries = self.lock();
        let last = entries.last()?;
        (last.status == RUNNING).then(|| last.name.clone())
    }

    /// Records the outcome of a command.
    pub fn end(&self, id: &str, outcome: Outcome<Value>) {
        let mut entries = self.lock();
        if let Some(entry) = entries.iter_mut().find(|entry| entry.id == id) {
            entry.end(outcome);
        }
        self.save(&entries);
        self.request.remove();
        drop(entries);
        self.endings.send_modify(|count| *count += 1);
    }

    /// Waits until the command has ended and returns its entry. Returns `None` if
    /// there is no such command.
    pub async fn ended(&self, id: &str) -> Option<Value> {
        let mut endings = self.endings.subscribe();
        loop {
            let entry = self.get(id)?;
            if entry["command_status"] != RUNNING {
                return Some(entry);
            }
            // Cannot fail: `self` holds the sender.
            endings.changed().await.ok()?;
        }
    }

    /// One entry in the form that Ironic reads.
    pub fn get(&self, id: &str) -> Option<Value> {
        let entries = self.lock();
        entries
            .iter()
            .find(|entry| entry.id == id)
            .map(Entry::to_json)
    }

    /// All entries, oldest first, in the form that Ironic reads.
    pub fn list(&self) -> Value {
        let entries: Vec<Value> = self.lock().iter().map(Entry::to_json).collect();
        json!({ "commands": entries })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn save(&self, entries: &[Entry]) {
        let entries: Vec<Value> = entries
            .iter()
            .map(|entry| {
                let mut json = entry.to_json();
                json["tries"] = entry.tries.into();
                json
            })
            .collect();
        self.file
            .store_or_warn(Value::Array(entries).to_string().as_bytes());
    }
}

impl Entry {
    fn end(&mut self, outcome: Outcome<Value>) {
        match outcome {
            Ok(result) => {
                self.status = SUCCEEDED.to_owned();
                // Wrap a plain text in an object: the result must be an object or null.
                self.result = match result {
                    Value::String(text) => json!({ "result": text }),
                    other => other,
                };
            }
            Err(failure) => {
                self.status = match failure.class {
                    Class::VersionMismatch => "CLEAN_VERSION_MISMATCH".to_owned(),
                    _ => FAILED.to_owned(),
                };
                self.error = failure.to_json();
            }
        }
    }

    /// Shortens long texts in the result. A result that is still too large becomes
    /// null.
    fn shorten(&mut self) {
        shorten_texts(&mut self.result);
        if self.result.to_string().len() > OLD_RESULT_LIMIT {
            self.result = Value::Null;
        }
    }

    /// The entry with exactly the five keys that Ironic's agent sends.
    fn to_json(&self) -> Value {
        json!({
            "id": self.id,
            "command_name": self.name,
            "command_status": self.status,
            "command_error": self.error,
            "command_result": self.result,
        })
    }
}

fn shorten_texts(value: &mut Value) {
    match value {
        Value::String(text) if text.len() > OLD_TEXT_LIMIT => {
            *text = format!("({} bytes, no longer kept)", text.len());
        }
        Value::Array(items) => items.iter_mut().for_each(shorten_texts),
        Value::Object(members) => members.values_mut().for_each(shorten_texts),
        _ => {}
    }
}

/// Reads a saved list; empty if it is not a JSON array. Values that are not valid entries
/// are left out.
fn read(bytes: &[u8]) -> Vec<Entry> {
    let Ok(Value::Array(values)) = serde_json::from_slice(bytes) else {
        return Vec::new();
    };
    values
        .into_iter()
        .filter_map(|value| {
            Some(Entry {
                id: value["id"].as_str()?.to_owned(),
                name: value["command_name"].as_str()?.to_owned(),
                status: value["command_status"].as_str()?.to_owned(),
                error: value["command_error"].clone(),
                result: value["command_result"].clone(),
                tries: value["tries"].as_u64().unwrap_or(TRIES),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn restore(dir: &tempfile::TempDir) -> (Ledger, Option<Interrupted>) {
        Ledger::restore(dir.path())
    }

    #[test]
    fn one_command_at_a_time_and_five_keys() {
        let dir = tempfile::tempdir().unwrap();
        let (ledger, _) = restore(&dir);
        let id = ledger.begin("sync", None).unwrap();
        assert_eq!(
            ledger.begin("power_off", None),
            Err(Busy("sync".to_owned()))
        );
        ledger.end(&id, Ok(Value::Null));
        assert_eq!(ledger.busy(), None);
        let entry = ledger.get(&id).unwrap();
        let keys: Vec<&String> = entry.as_object().unwrap().keys().collect();
        assert_eq!(
            keys,
            [
                "command_error",
                "command_name",
                "command_result",
                "command_status",
                "id"
            ]
        );
        assert_eq!(entry["command_status"], "SUCCEEDED");
    }

    #[test]
    fn a_crash_restarts_a_repeatable_command_once() {
        let dir = tempfile::tempdir().unwrap();
        let body = br#"{"name":"deploy.execute_deploy_step","params":{}}"#;
        let id = {
            let (ledger, _) = restore(&dir);
            ledger.begin("execute_deploy_step", Some(body)).unwrap()
        };
        {
            let (ledger, again) = restore(&dir);
            let again = again.unwrap();
            assert_eq!(again.id, id);
            assert_eq!(again.request, body);
            assert_eq!(ledger.busy().as_deref(), Some("execute_deploy_step"));
        }
        let (ledger, again) = restore(&dir);
        assert!(again.is_none(), "the second crash is the command's failure");
        assert_eq!(ledger.get(&id).unwrap()["command_status"], "FAILED");
    }

    #[test]
    fn a_request_that_could_not_be_kept_is_a_failure_after_a_crash() {
        let dir = tempfile::tempdir().unwrap();
        // A directory blocks the file name, which has the same effect as a full
        // /run.
        std::fs::create_dir(dir.path().join("running-command.new")).unwrap();
        let id = restore(&dir).0.begin("execute_deploy_step", Some(b"{}"));
        let (ledger, again) = restore(&dir);
        assert!(again.is_none());
        assert_eq!(
            ledger.get(&id.unwrap()).unwrap()["command_status"],
            "FAILED"
        );
    }

    #[test]
    fn a_crash_in_any_other_command_is_its_failure() {
        let dir = tempfile::tempdir().unwrap();
        let id = restore(&dir).0.begin("install_bootloader", None).unwrap();
        let (ledger, again) = restore(&dir);
        assert!(again.is_none());
        let entry = ledger.get(&id).unwrap();
        assert_eq!(entry["command_status"], "FAILED");
        assert_eq!(entry["command_error"]["type"], "CommandExecutionError");
    }

    #[test]
    fn the_ledger_of_a_long_running_agent_is_bounded() {
        let ledger = Ledger::in_memory();
        let logs = "H4sI".repeat(1 << 16);
        for number in 0..600 {
            let id = ledger.begin("collect_system_logs", None).unwrap();
            let many: Vec<u32> = (0..10_000).collect();
            let result = if number % 2 == 0 {
                json!({ "system_logs": logs })
            } else {
                json!({ "many": many })
            };
            ledger.end(&id, Ok(result));
        }
        let list = ledger.list();
        let commands = list["commands"].as_array().unwrap();
        assert_eq!(commands.len(), KEPT);
        for command in &commands[KEPT - WHOLE..] {
            assert!(command.to_string().len() > OLD_RESULT_LIMIT);
        }
        let old: usize = commands[..KEPT - WHOLE]
            .iter()
            .map(|command| command.to_string().len())
            .max()
            .unwrap();
        assert!(old < 500, "{old}");
        assert_eq!(
            commands[0]["command_result"]["system_logs"],
            "(262144 bytes, no longer kept)"
        );
        assert_eq!(commands[1]["command_result"], Value::Null);
    }

    #[tokio::test]
    async fn waiting_ends_with_the_command() {
        let dir = tempfile::tempdir().unwrap();
        let (ledger, _) = restore(&dir);
        let id = ledger.begin("sync", None).unwrap();
        let (ended, ()) = tokio::join!(ledger.ended(&id), async {
            tokio::task::yield_now().await;
            ledger.end(&id, Err(Failure::device_not_found("gone")));
        });
        assert_eq!(ended.unwrap()["command_error"]["details"], "gone");
        assert_eq!(ledger.ended("nosuch").await, None);
    }
}
