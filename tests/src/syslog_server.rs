//! The real rsyslogd, which receives what `landfall.syslog` sends.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::net::TcpStream;
use tokio::process::Child;
use tokio::time::{Instant, sleep};

use crate::lab::{HOST_V4, Lab};
use crate::program;

const PORT: u16 = 514;

/// The time limit for rsyslogd to listen, and to write what it has received.
const LIMIT: Duration = Duration::from_secs(30);

/// A line of the log, as rsyslogd has parsed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The message ID.
    pub stage: String,
    /// `err`, `warning`, `info` or `debug`.
    pub severity: String,
    pub text: String,
}

/// Listens until it is dropped.
pub struct SyslogServer {
    log: PathBuf,
    _process: Child,
}

impl SyslogServer {
    /// The value for `landfall.syslog`.
    #[must_use]
    pub fn url() -> String {
        format!("tcp://{HOST_V4}:{PORT}")
    }

    pub async fn start(lab: &Lab) -> Result<Self> {
        let log = lab.path("syslog");
        let configuration = lab.path("rsyslog.conf");
        let text = format!(
            "module(load=\"imtcp\")\n\
             input(type=\"imtcp\" address=\"{HOST_V4}\" port=\"{PORT}\")\n\
             template(name=\"fields\" type=\"string\" \
             string=\"%msgid%\\t%syslogseverity-text%\\t%msg%\\n\")\n\
             action(type=\"omfile\" file=\"{}\" template=\"fields\")\n",
            log.display()
        );
        std::fs::write(&configuration, text)?;
        let process = program::bound_to_this_thread("/usr/sbin/rsyslogd")
            .arg("-n")
            .arg("-f")
            .arg(configuration)
            .arg("-i")
            .arg(lab.path("rsyslog.pid"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("starting rsyslogd (package rsyslog)")?;
        let start = Instant::now();
        while TcpStream::connect((HOST_V4, PORT)).await.is_err() {
            if start.elapsed() > LIMIT {
                bail!("rsyslogd does not listen");
            }
            sleep(Duration::from_millis(50)).await;
        }
        Ok(Self {
            log,
            _process: process,
        })
    }

    /// All lines so far.
    pub fn lines(&self) -> Result<Vec<Line>> {
        // The file appears with the first line.
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let whole = &text[..text.rfind('\n').unwrap_or(0)];
        let parse = |line: &str| {
            let mut fields = line.splitn(3, '\t').map(str::to_owned);
            let (Some(stage), Some(severity), Some(text)) =
                (fields.next(), fields.next(), fields.next())
            else {
                bail!("expected three fields, found {line:?}");
            };
            Ok(Line {
                stage,
                severity,
                text,
            })
        };
        whole.lines().map(parse).collect()
    }

    /// Waits for a line for which `is_last` is true, and returns all lines.
    pub async fn lines_until(&self, is_last: impl Fn(&Line) -> bool) -> Result<Vec<Line>> {
        let start = Instant::now();
        loop {
            let lines = self.lines()?;
            if lines.iter().any(&is_last) {
                return Ok(lines);
            }
            if start.elapsed() > LIMIT {
                bail!("the last line has not arrived: {lines:#?}");
            }
            sleep(Duration::from_millis(100)).await;
        }
    }
}
