//! The status as text: the full screen of a virtual terminal, and the block of a serial
//! console. No I/O.

use crate::event::Event;
use crate::status::{Nic, Status, WayStep};
use crate::wrap::wrapped;

/// The width of the block for serial consoles.
const BLOCK_WIDTH: usize = 80;
/// The least number of log lines on a screen.
const LEAST_LOG: usize = 4;

/// One line of the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScreenLine {
    pub text: String,
    pub tone: Tone,
}

/// How a line is emphasised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Title,
    Plain,
    Waiting,
    Failed,
}

/// How much of the way to the service is shown.
#[derive(Clone, Copy, PartialEq)]
enum Detail {
    /// Every step in a line of its own.
    Steps,
    /// The steps that are done in one line together.
    Brief,
}

/// The screen in `size` (columns, lines), with the last `events`. `now` is in seconds
/// since boot, `clock` is the date and time in UTC, `hint` tells what the operator can
/// press.
pub fn screen(
    status: &Status,
    events: &[Event],
    now: f64,
    clock: &str,
    hint: &str,
    size: (usize, usize),
) -> Vec<ScreenLine> {
    let (width, height) = (size.0.max(40), size.1.max(10));
    let room = height.saturating_sub(LEAST_LOG + 2);
    let mut page = Page::new(width);
    page.title(status, now, clock);
    let mut body = page.clone();
    body.facts(status, now, Detail::Steps);
    if body.lines.len() > room {
        body = page;
        body.facts(status, now, Detail::Brief);
    }
    if body.lines.len() > room {
        let hidden = body.lines.len() - room + 1;
        body.lines.truncate(room - 1);
        body.put(
            Tone::Plain,
            format!("({hidden} more lines: see /status.json)"),
        );
    }
    body.put(Tone::Plain, rule(hint, '-', width));
    let free = height - body.lines.len();
    let mut log = Page::new(width);
    for event in events {
        let tone = match event.severity() {
            ..=3 => Tone::Failed,
            4 => Tone::Waiting,
            _ => Tone::Plain,
        };
        log.wrapped(tone, "", &event.for_consoles(), 12);
    }
    let skipped = log.lines.len().saturating_sub(free);
    body.lines.extend(log.lines.drain(skipped..));
    body.lines
}

/// The status as a block of plain lines, each of at most 80 ASCII columns.
pub fn block(status: &Status, now: f64, hint: &str) -> Vec<String> {
    let mut page = Page::new(BLOCK_WIDTH);
    let title = format!("== status after {} ", duration(now));
    page.put(Tone::Plain, format!("{title:=<BLOCK_WIDTH$}"));
    page.host(status);
    page.facts(status, now, Detail::Brief);
    page.put(Tone::Plain, rule(hint, '=', BLOCK_WIDTH));
    page.lines.into_iter().map(|line| line.text).collect()
}

/// A line across the screen, with the hint in it.
fn rule(hint: &str, character: char, width: usize) -> String {
    let hint = match hint {
        "" => String::new(),
        hint => format!("{character}{character} {hint} "),
    };
    let rest = width.saturating_sub(hint.len());
    hint + &character.to_string().repeat(rest)
}

/// What a change of the status must change for another block to be printed: all but
/// numbers that count on.
pub(crate) fn essence(status: &Status) -> Status {
    let mut essence = status.clone();
    essence.progress = None;
    if let Some(step) = &mut essence.step {
        step.since = 0.0;
    }
    if let Some(error) = &mut essence.last_error {
        error.time = 0.0;
    }
    essence
}

#[derive(Clone)]
struct Page {
    width: usize,
    lines: Vec<ScreenLine>,
}

impl Page {
    fn new(width: usize) -> Self {
        Self {
            width,
            lines: Vec::new(),
        }
    }

    fn put(&mut self, tone: Tone, text: String) {
        self.lines.push(ScreenLine { text, tone });
    }

    fn wrapped(&mut self, tone: Tone, label: &str, text: &str, indent: usize) {
        for line in wrapped(label, text, indent, self.width) {
            self.put(tone, line);
        }
    }

    fn title(&mut self, status: &Status, now: f64, clock: &str) {
        let left = format!(" Landfall {}  {}", status.build, name(status));
        let right = format!("up {}  {clock} ", duration(now));
        let gap = self.width.saturating_sub(left.len() + right.len()).max(1);
        let mut title = format!("{left}{}{right}", " ".repeat(gap));
        title.truncate(self.width);
        self.put(Tone::Title, title);
        self.host(status);
        self.put(Tone::Plain, "-".repeat(self.width));
    }

    fn host(&mut self, status: &Status) {
        let host = &status.host;
        let machine = format!("{} {}", host.vendor, host.product);
        let serial = Some(format!("serial {}", host.serial)).filter(|_| !host.serial.is_empty());
        let secure_boot = match host.secure_boot {
            Some(true) => ", Secure Boot",
            Some(false) => ", no Secure Boot",
            None => "",
        };
        let boot = Some(format!("{}{secure_boot}", host.boot_mode.to_uppercase()));
        let memory = host.memory.map(|memory| format!("{memory} MiB"));
        let facts = [Some(machine.trim().to_owned()), serial, boot, memory];
        let facts: Vec<_> = { facts.into_iter().flatten() }
            .filter(|fact| !fact.is_empty())
            .collect();
        self.wrapped(Tone::Plain, " ", &facts.join(" | "), 2);
    }

    fn facts(&mut self, status: &Status, now: f64, detail: Detail) {
        match (&status.done, &status.step) {
            (Some(done), _) => self.fact(Tone::Plain, "NOW", done),
            (None, Some(step)) => {
                let text = format!("{}, for {}", step.name, duration(now - step.since));
                self.fact(Tone::Plain, "NOW", &text);
            }
            (None, None) => {}
        }
        if let Some(progress) = &status.progress {
            self.fact(Tone::Plain, "", &progress.to_string());
        }
        if let Some(error) = &status.last_error {
            let ago = duration(now - error.time);
            let text = format!("{}: {} ({ago} ago)", error.stage, error.text);
            self.fact(Tone::Failed, "ERROR", &text);
            if let Some(remedy) = &error.remedy {
                self.fact(Tone::Failed, "", &format!("-> {remedy}"));
            }
        }
        if let Some(service) = &status.service {
            let (tone, answers) = match status.service_answers {
                true => (Tone::Plain, "answers"),
                false => (Tone::Waiting, "has not answered yet"),
            };
            self.fact(tone, "SERVICE", &format!("{service} {answers}"));
        }
        if let Some(node) = &status.node {
            self.fact(Tone::Plain, "NODE", node);
        }
        if let Some(disk) = &status.root_disk {
            self.fact(Tone::Plain, "DISK", &format!("{}: {}", disk.path, disk.why));
        }
        let network = &status.network;
        if let Some(source) = &network.source {
            self.fact(Tone::Plain, "NETWORK", &format!("configured by {source}"));
        }
        for fault in &network.faults {
            self.fact(Tone::Failed, "", &format!("FAULT {fault}"));
        }
        if network.nics.is_empty() {
            let why = network.no_nic.as_deref().unwrap_or_default();
            self.fact(Tone::Failed, "", &format!("no NIC found {why}"));
        }
        for nic in &network.nics {
            self.nic(nic, detail);
        }
    }

    fn fact(&mut self, tone: Tone, label: &str, text: &str) {
        self.wrapped(tone, &format!(" {label:<8}"), text, 9);
    }

    fn nic(&mut self, nic: &Nic, detail: Detail) {
        self.fact(
            Tone::Plain,
            "",
            &format!("{}: {}", nic.name, nic.in_words()),
        );
        let (done, open): (Vec<_>, Vec<_>) =
            nic.way.iter().partition(|step| step.outcome == "done");
        if detail == Detail::Steps {
            for step in &done {
                self.step(Tone::Plain, step, "");
            }
        } else {
            if !nic.addresses.is_empty() {
                self.step_text(Tone::Plain, "", &nic.addresses.join(", "));
            }
            let names: Vec<_> = { done.iter() }
                .filter(|step| !["carrier", "address"].contains(&step.step.as_str()))
                .map(|step| step.step.as_str())
                .collect();
            if !names.is_empty() {
                self.step_text(Tone::Plain, "way", &format!("{} ok", names.join(", ")));
            }
        }
        for step in open {
            match step.outcome.as_str() {
                "failed" => self.step(Tone::Failed, step, "FAILED: "),
                _ => self.step(Tone::Waiting, step, ""),
            }
        }
    }

    fn step(&mut self, tone: Tone, step: &WayStep, word: &str) {
        self.step_text(tone, &step.step, &format!("{word}{}", step.text));
        if let Some(remedy) = &step.remedy {
            self.step_text(tone, "", &format!("-> {remedy}"));
        }
    }

    fn step_text(&mut self, tone: Tone, label: &str, text: &str) {
        let label = match label {
            "" => format!("{:11}", ""),
            label => format!("{:11}{label:<8}", ""),
        };
        self.wrapped(tone, &label, text, 19.min(self.width / 2));
    }
}

fn name(status: &Status) -> &str {
    match status.host.name.as_str() {
        "" => "(no host name)",
        name => name,
    }
}

/// `1 h 02 min`, `3 min 20 s` or `12 s`.
fn duration(seconds: f64) -> String {
    let seconds = seconds.max(0.0) as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds:02} s"),
        (hours, minutes, _) => format!("{hours} h {minutes:02} min"),
    }
}

#[cfg(test)]
mod tests;
