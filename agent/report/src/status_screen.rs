//! The status as text: the full screen of a virtual terminal, and the block of a serial
//! console. No I/O.

mod page;

use crate::event::Event;
use crate::status::Status;
use page::{Detail, Page, duration};

/// The width of the block for serial consoles.
const BLOCK_WIDTH: usize = 80;
/// The number of lines that a screen reserves for the log.
const LEAST_LOG: usize = 4;
/// The least height of a screen that reserves lines for the log.
const LEAST_SCREEN: usize = 10;

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

/// The screen in `size` (columns, lines), with the last `events`. `now` is in seconds
/// since boot, `clock` is the date and time in UTC, `hint` says which key the operator
/// can press, or is empty.
pub fn screen(
    status: &Status,
    events: &[Event],
    now: f64,
    clock: &str,
    hint: &str,
    size: (usize, usize),
) -> Vec<ScreenLine> {
    let (width, height) = (size.0.max(1), size.1.max(1));
    // A very small terminal reserves no lines for the log: the log gets only the lines
    // that the facts leave free.
    let taken = if height < LEAST_SCREEN {
        1
    } else {
        LEAST_LOG + 2
    };
    let room = height.saturating_sub(taken).max(1);
    let mut page = Page::new(width);
    page.title(status, now, clock);
    let mut body = page.clone();
    body.facts(status, now, Detail::Steps);
    if body.height() > room {
        body = page;
        body.facts(status, now, Detail::Brief);
        body.fit(room);
    }
    body.put(Tone::Plain, rule(unless_refused(status, hint), '-', width));
    let mut lines = body.into_lines();
    let free = height.saturating_sub(lines.len());
    let mut log = Page::new(width);
    for event in events {
        let tone = match event.severity() {
            ..=3 => Tone::Failed,
            4 => Tone::Waiting,
            _ => Tone::Plain,
        };
        log.wrapped(tone, "", &event.for_consoles(), 12);
    }
    let skipped = log.height().saturating_sub(free);
    lines.extend(log.into_lines().into_iter().skip(skipped));
    lines.truncate(height);
    lines
}

/// The status as a block of plain lines, each of at most 80 ASCII columns.
pub fn block(status: &Status, now: f64, clock: &str, hint: &str) -> Vec<String> {
    let mut page = Page::new(BLOCK_WIDTH);
    let since = duration(now);
    let title = format!("status after {since}, {clock}, Landfall {}", status.build);
    page.put(Tone::Plain, rule(&title, '=', BLOCK_WIDTH));
    page.host(status, &status.host.name);
    page.facts(status, now, Detail::Brief);
    page.put(
        Tone::Plain,
        rule(unless_refused(status, hint), '=', BLOCK_WIDTH),
    );
    let lines = page.into_lines().into_iter();
    lines.map(|line| line.text).collect()
}

/// Returns `hint`, or nothing if the form would refuse to change the network.
fn unless_refused<'a>(status: &Status, hint: &'a str) -> &'a str {
    match status.why_network_stays() {
        Some(_) => "",
        None => hint,
    }
}

/// A line across the screen, with a text in it.
fn rule(text: &str, character: char, width: usize) -> String {
    let mut line = match text {
        "" => String::new(),
        text => format!("{character}{character} {text} "),
    };
    let rest = width.saturating_sub(line.len());
    line += &character.to_string().repeat(rest);
    line.truncate(width);
    line
}

/// The part of the status whose changes cause another block: everything except the
/// progress and the times, which change constantly.
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

#[cfg(test)]
mod tests;
