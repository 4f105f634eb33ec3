//! Chromium's DevTools protocol over a pipe. It needs neither a WebSocket nor a driver
//! program: messages in JSON end with a zero byte
//! (chromium/src, content/browser/devtools/devtools_pipe_handler.cc).

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use landfall_sys::skip::skip;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Debian's package.
const PROGRAM: &str = "/usr/bin/chromium";
/// The longest wait for a message of the browser. The first start on a busy machine is
/// slow.
const TIMEOUT: Duration = Duration::from_secs(120);
/// There is no sandbox: a sandbox needs namespaces that containers lack, and root
/// cannot use it. The browser resolves no name, so it reaches nothing but this machine.
const OPTIONS: &[&str] = &[
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--disable-quic",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--remote-debugging-pipe",
];

/// A browser with a new profile. Dropping it ends it.
pub struct Browser {
    child: Child,
    commands: Option<ChildStdin>,
    messages: Receiver<Value>,
    /// Events that arrived while the answer to a command was awaited.
    events: VecDeque<Value>,
    last_id: u64,
    session: Option<String>,
    _profile: TempDir,
}

impl Browser {
    /// Starts the browser. `None` if this machine has no browser and the test may be
    /// skipped.
    #[must_use]
    pub fn start() -> Option<Self> {
        if !Path::new(PROGRAM).exists() {
            skip(format!("{PROGRAM} is missing; tests/setup.sh installs it"));
            return None;
        }
        let profile = tempfile::tempdir().unwrap();
        // The browser expects the pipe as descriptors 3 and 4.
        let mut child = Command::new("sh")
            .args(["-c", r#"exec "$@" 3<&0 4>&1 0</dev/null 1>/dev/null"#])
            .args(["sh", PROGRAM])
            .args(OPTIONS)
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .env("HOME", profile.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut browser = Self {
            commands: child.stdin.take(),
            messages: messages(child.stdout.take().unwrap()),
            child,
            events: VecDeque::new(),
            last_id: 0,
            session: None,
            _profile: profile,
        };
        browser.attach();
        Some(browser)
    }

    fn attach(&mut self) {
        let tab = self.command("Target.createTarget", &json!({"url": "about:blank"}));
        let attach = json!({"targetId": tab["targetId"], "flatten": true});
        let attached = self.command("Target.attachToTarget", &attach);
        self.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network", "Audits"] {
            self.command(&format!("{domain}.enable"), &json!({}));
        }
    }

    /// The result of a command.
    pub(crate) fn command(&mut self, method: &str, parameters: &Value) -> Value {
        self.last_id += 1;
        let mut command = json!({"id": self.last_id, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            command["sessionId"] = json!(session);
        }
        let mut bytes = command.to_string().into_bytes();
        bytes.push(0);
        self.commands.as_mut().unwrap().write_all(&bytes).unwrap();
        loop {
            let message = self.next(method);
            if message["id"] == self.last_id {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].clone();
            }
            self.events.push_back(message);
        }
    }

    /// The value of an expression in the page.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let parameters = json!({"expression": expression, "returnByValue": true});
        let result = self.command("Runtime.evaluate", &parameters);
        assert!(result["exceptionDetails"].is_null(), "{result:#}");
        result["result"]["value"].clone()
    }

    /// All events up to and including the first one of this method.
    pub(crate) fn events_until(&mut self, method: &str) -> Vec<Value> {
        let mut seen = Vec::new();
        loop {
            let event = match self.events.pop_front() {
                Some(event) => event,
                None => self.next(method),
            };
            let is_last = event["method"] == method;
            seen.push(event);
            if is_last {
                return seen;
            }
        }
    }

    /// The events since the last call.
    pub(crate) fn events_so_far(&mut self) -> Vec<Value> {
        self.events
            .drain(..)
            .chain(self.messages.try_iter())
            .collect()
    }

    fn next(&self, awaited: &str) -> Value {
        let message = self.messages.recv_timeout(TIMEOUT);
        message.unwrap_or_else(|error| panic!("{awaited}: no message from {PROGRAM}: {error}"))
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser ends with all its processes when its pipe is closed.
        self.commands = None;
        while self.messages.recv_timeout(TIMEOUT).is_ok() {}
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The messages from the browser, until it ends.
fn messages(output: ChildStdout) -> Receiver<Value> {
    let (sender, messages) = channel();
    thread::spawn(move || {
        for message in BufReader::new(output).split(0).map_while(Result::ok) {
            let message = serde_json::from_slice(&message).unwrap();
            if sender.send(message).is_err() {
                return;
            }
        }
    });
    messages
}
