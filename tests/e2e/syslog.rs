//! The whole log of a machine arrives at a real syslog server.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use landfall_tests::installation::{BOOT, DEPLOYMENT, POWER_OFF};
use landfall_tests::journal::Source;
use landfall_tests::lab::Lab;
use landfall_tests::site::Plan;
use landfall_tests::syslog_server::{Line, SyslogServer};

use crate::host_test;
use crate::machine_faults::{kill_agent, writing};

/// The stage of the lines of PID 1.
const INIT: &str = "init";

/// A log line, from the console or from syslog: its stage, and its text with the level.
#[derive(Debug, PartialEq, Eq)]
struct LogLine {
    stage: String,
    text: String,
}

impl LogLine {
    /// `None` for lines of the kernel, whose times have six decimals.
    fn on_console(line: &str) -> Option<Self> {
        let (time, line) = line.trim_start().strip_prefix('[')?.split_once("] ")?;
        let (_, decimals) = time.split_once('.')?;
        let (stage, text) = line.split_once(": ")?;
        (decimals.len() == 3).then(|| Self {
            stage: stage.to_owned(),
            text: text.trim_end().to_owned(),
        })
    }

    fn by_syslog(line: &Line) -> Self {
        let level = match line.severity.as_str() {
            "err" => "FAILED ",
            "warning" => "warning: ",
            _ => "",
        };
        Self {
            stage: line.stage.clone(),
            text: format!("{level}{}", line.text.trim_end()),
        }
    }

    fn is_of_init(&self) -> bool {
        self.stage == INIT
    }
}

/// The lines of init and of the agents on the console, up to the last line of an agent.
/// Init prints more lines after that one, but no process sends them to the syslog
/// server.
fn on_console(lab: &Lab) -> Result<Vec<LogLine>> {
    let events = lab.journal.events().into_iter();
    let of_console = events.filter(|event| event.source == Source::Console);
    let mut lines: Vec<LogLine> = of_console
        .filter_map(|event| LogLine::on_console(&event.text))
        .collect();
    let last = lines.iter().rposition(|line| !line.is_of_init());
    lines.truncate(last.context("the agent has said nothing")? + 1);
    Ok(lines)
}

/// Fails if the console or syslog lacks a line that the other one has, or if the order
/// differs.
fn ensure_same(console: &[LogLine], syslog: &[LogLine]) -> Result<()> {
    // Init and the agent print on the console concurrently, so only the order within
    // the lines of one process is fixed.
    for is_of_init in [true, false] {
        let of = |lines: &'_ [LogLine]| -> Vec<String> {
            { lines.iter() }
                .filter(|line| line.is_of_init() == is_of_init)
                .map(|line| format!("{}: {}", line.stage, line.text))
                .collect()
        };
        let (console, syslog) = (of(console), of(syslog));
        let differs = console
            .iter()
            .zip(&syslog)
            .find(|(one, other)| one != other);
        ensure!(
            console == syslog,
            "{} lines on the console, {} by syslog; first difference: {differs:?}\n{console:#?}\n{syslog:#?}",
            console.len(),
            syslog.len()
        );
    }
    Ok(())
}

/// Compares syslog with the console, from the first line of init to the last line of
/// the agent: each line arrives once, in order, although the kernel kills the agent
/// while it writes the image. With `landfall.console=lines` the screen shows the lines
/// as well, and no console shows the status.
#[test]
fn every_line_from_the_first_of_init_to_the_last_arrives_by_syslog() {
    host_test("every_line_arrives_by_syslog", async |lab| {
        let server = SyslogServer::start(lab).await?;
        let plan = Plan {
            // `loglevel=3` keeps the kernel's lines from interrupting those of the
            // agent. `landfall.console=lines` disables the status block, which is not
            // part of the log.
            more_arguments: "landfall.syslog=tcp://192.0.2.1:514 landfall.console=lines \
                             loglevel=3 sysrq_always_enabled",
            ..Plan::default()
        };
        ensure!(plan.more_arguments.contains(&SyslogServer::url()));
        let mut site = plan.site(lab).await?;
        site.files[0].behaviour.bytes_per_second = Some(2 << 20);
        let services = site.serve(lab).await?;
        let mut guest = site.power_on(lab).await?;
        writing(&guest).await?;
        // Wait until the agent has sent its lines: a line that is being sent when the
        // agent is killed may arrive twice.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let picture = lab.log_path("lines").with_extension("png");
        let screen = guest.vga_text(&picture).await?;
        ensure!(
            screen.contains("disk: writing the image: ") && !screen.contains(" Landfall "),
            "expected lines without a status, found {screen}"
        );
        kill_agent(lab, &mut guest).await?;
        services.conductor.deployed(BOOT + DEPLOYMENT).await?;
        guest.powered_off(POWER_OFF).await?;
        let block = lab.journal.console_line(&["== status after"]);
        ensure!(block.is_err(), "the status is on the console: {block:?}");
        let console = on_console(lab)?;
        let last = console.last().context("no line")?;
        let syslog = server
            .lines_until(|line| LogLine::by_syslog(line) == *last)
            .await?;
        let syslog: Vec<LogLine> = syslog.iter().map(LogLine::by_syslog).collect();
        let (first, end) = (&syslog[0], &syslog[syslog.len() - 1]);
        ensure!(
            first.is_of_init() && first.text.starts_with("landfall "),
            "the first line is {first:?}"
        );
        ensure!(
            end == last && end.text == "done: this machine is switched off now",
            "the last line is {end:?}"
        );
        let is_about_kill = |line: &LogLine| line.is_of_init() && line.text.contains("SIGKILL");
        ensure!(
            syslog.iter().any(is_about_kill),
            "init's line about the killed agent is missing"
        );
        ensure_same(&console, &syslog)
    });
}
