//! A service as a process: its start, its log, and its first answer.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use landfall_tests::journal::{Journal, Source};
use landfall_tests::lab::Lab;
use landfall_tests::program;
use nix::unistd::Pid;
use tokio::fs::File;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Child;
use tokio::time::{Instant, sleep};

/// The time limit from a service's start to its first answer. Ironic is the
/// slowest with 3 to 13 s. The rest is for busy machines.
const START_LIMIT: Duration = Duration::from_secs(120);

/// Pause between attempts to reach a service.
const START_PAUSE: Duration = Duration::from_millis(200);

/// A process and everything that it starts. Dropping it kills all of them.
pub(crate) struct Service {
    name: &'static str,
    pub(super) process: Child,
}

impl Service {
    /// Starts a service. Its output is appended to a log file. If `source` is given,
    /// only its standard error is logged. These lines also go to the journal, except
    /// debug messages and Ironic's lines about requests for nodes.
    pub(crate) fn start(
        lab: &Lab,
        name: &'static str,
        program: &str,
        arguments: &[&str],
        source: Option<Source>,
    ) -> Result<Self> {
        let path = lab.log_path(name);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(&path)
            .with_context(|| format!("opening {}", path.display()))?;
        let mut command = program::bound_with_its_children(program);
        command.args(arguments);
        // Python's requests library prefers these variables to the authority that
        // Ironic sets for a session.
        for variable in ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"] {
            command.env_remove(variable);
        }
        let process = match source {
            None => command
                .stdout(log.try_clone()?)
                .stderr(log)
                .spawn()
                .with_context(|| format!("starting {program}"))?,
            Some(source) => {
                let mut process = command
                    .stdout(Stdio::null())
                    .stderr(Stdio::piped())
                    .spawn()
                    .with_context(|| format!("starting {program}"))?;
                let lines = process.stderr.take().context("no pipe from the service")?;
                tokio::spawn(copy(
                    BufReader::new(lines),
                    File::from_std(log),
                    lab.journal.clone(),
                    source,
                ));
                process
            }
        };
        Ok(Self { name, process })
    }

    /// Ends the service with SIGKILL. This kills the first process of its PID namespace,
    /// and the kernel kills the others with it.
    pub(crate) async fn kill(&mut self) -> Result<()> {
        Ok(self.process.kill().await?)
    }

    /// The process ID of the program itself. [`program::bound_with_its_children`]
    /// explains the two processes above it.
    pub(crate) fn program(&self) -> Result<Pid> {
        let outer = self.process.id().context("it has ended")?;
        let mut pid = i32::try_from(outer)?;
        for _ in ["the shell", "the program"] {
            let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
            let child = children.split_whitespace().next();
            pid = child.context("no child process")?.parse()?;
        }
        Ok(Pid::from_raw(pid))
    }

    /// Calls `asked` until it succeeds. Fails if the service ends or does not answer
    /// within [`START_LIMIT`].
    pub(crate) async fn answers(
        &mut self,
        mut asked: impl AsyncFnMut() -> Result<()>,
    ) -> Result<()> {
        let deadline = Instant::now() + START_LIMIT;
        loop {
            let Err(error) = asked().await else {
                return Ok(());
            };
            if let Some(status) = self.process.try_wait()? {
                bail!("{} ended at its start: {status}", self.name);
            }
            if Instant::now() > deadline {
                return Err(error).with_context(|| format!("waiting for {}", self.name));
            }
            sleep(START_PAUSE).await;
        }
    }
}

async fn copy(
    lines: impl AsyncBufReadExt + Unpin,
    mut log: File,
    journal: Journal,
    source: Source,
) {
    let mut lines = lines.split(b'\n');
    while let Ok(Some(mut line)) = lines.next_segment().await {
        let text = String::from_utf8_lossy(&line).into_owned();
        // Leave out Ironic's lines about requests for nodes, because the test itself
        // sends these requests all the time.
        let look = text.contains(" ironic.api ") && text.contains(" GET /v1/nodes");
        if !text.contains(" DEBUG ") && !look {
            journal.record(source, text);
        }
        line.push(b'\n');
        // Ignore an error: a full disk makes the test fail elsewhere, with a clearer
        // message.
        let _ = log.write_all(&line).await;
    }
    let _ = log.flush().await;
}
