//! A client for QEMU's control protocol (QEMU, docs/interop/qmp-spec). It sends one
//! command at a time and records events in the journal.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener as StdUnixListener};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixListener;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::mpsc;

use crate::journal::{Journal, Source};

/// The events that tests wait for or that a developer needs. Others (the clock
/// was set, a NIC changed its filter) would only fill the journal.
const EVENTS: [&str; 6] = [
    "RESET",
    "SHUTDOWN",
    "POWERDOWN",
    "BLOCK_IO_ERROR",
    "GUEST_PANICKED",
    "WATCHDOG",
];

/// Listens on an abstract socket, which needs no path, and is visible only in
/// the lab's network namespace.
pub(super) fn listen(name: &str) -> Result<UnixListener> {
    let address = SocketAddr::from_abstract_name(name.as_bytes())?;
    let listener = StdUnixListener::bind_addr(&address)
        .with_context(|| format!("binding the abstract socket {name}"))?;
    listener.set_nonblocking(true)?;
    Ok(UnixListener::from_std(listener)?)
}

pub(super) struct Qmp {
    write: OwnedWriteHalf,
    answers: mpsc::UnboundedReceiver<Value>,
}

impl Qmp {
    /// Accepts QEMU's connection and ends the negotiation mode.
    pub(super) async fn accept(
        listener: UnixListener,
        machine: Source,
        journal: Journal,
    ) -> Result<Self> {
        let (stream, _) = listener.accept().await?;
        let (read, write) = stream.into_split();
        let (send, answers) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut lines = BufReader::new(read).lines();
            let mut last = String::new();
            while let Ok(Some(line)) = lines.next_line().await {
                let Ok(message) = serde_json::from_str::<Value>(&line) else {
                    continue;
                };
                if let Some(event) = message["event"].as_str() {
                    let text = format!("{event} {}", message["data"]);
                    // Skip repeated events: a reset through the keyboard controller is reported
                    // three times.
                    if EVENTS.contains(&event) && text != last {
                        journal.record(machine, text.as_str());
                        last = text;
                    }
                } else if message.get("QMP").is_none() && send.send(message).is_err() {
                    return;
                }
            }
        });
        let mut qmp = Self { write, answers };
        qmp.execute("qmp_capabilities", json!({})).await?;
        Ok(qmp)
    }

    /// Runs a command and returns its result.
    pub(super) async fn execute(&mut self, command: &str, arguments: Value) -> Result<Value> {
        let mut line = json!({"execute": command, "arguments": arguments}).to_string();
        line.push('\n');
        self.write.write_all(line.as_bytes()).await?;
        let mut answer = self
            .answers
            .recv()
            .await
            .with_context(|| format!("QEMU ended before it answered {command}"))?;
        if let Some(error) = answer.get("error") {
            bail!("QEMU refuses {command}: {error}");
        }
        Ok(answer["return"].take())
    }
}
