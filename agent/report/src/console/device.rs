//! One console: a thread that prints lines, or draws the status screen.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use landfall_boot_params::argument_value::ConsoleMode;
use landfall_sys::boot_clock::seconds_since_boot;

use super::screen::Screen;
use crate::status::{self, Status};
use crate::status_screen;

/// How many lines a console may lag behind. If it is slower, lines are dropped.
pub(super) const CONSOLE_QUEUE: usize = 512;

/// The shortest and the longest pause between two drawings of the screen, which has a
/// clock.
const DRAW_PAUSE: Duration = Duration::from_millis(200);
const REDRAW: Duration = Duration::from_secs(1);

/// The pause between two blocks of the status on a serial console. At 9600 baud a
/// block takes about a second.
const BLOCK_PAUSE: Duration = Duration::from_secs(60);
/// How long the first block waits after the console was opened: a boot that
/// proceeds needs none.
const FIRST_BLOCK: Duration = Duration::from_secs(15);
/// How long a block waits for further changes.
const BLOCK_SETTLES: Duration = Duration::from_secs(3);

enum Job {
    Print(String),
    Flush(SyncSender<()>),
}

/// Whether the device is a virtual terminal: the screen of the machine or of its BMC.
fn is_virtual_terminal(device: &Path) -> bool {
    let name = device.file_name().unwrap_or_default().to_string_lossy();
    let number = name.strip_prefix("tty");
    number.is_some_and(|number| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// One console with its thread.
#[derive(Debug)]
pub(super) struct Console {
    queue: SyncSender<Job>,
    dropped: Mutex<u64>,
}

impl Console {
    /// Opens the console, and shows on it what `mode` says.
    pub(super) fn open(device: &Path, mode: ConsoleMode) -> Option<Self> {
        // A console without a device node (netconsole) gets the lines from the kernel
        // log.
        let file = OpenOptions::new().write(true).open(device).ok()?;
        let is_virtual = is_virtual_terminal(device);
        let (queue, jobs) = sync_channel(CONSOLE_QUEUE);
        thread::Builder::new()
            .name("console".into())
            .spawn(move || match (mode, is_virtual) {
                (ConsoleMode::Status, true) => serve_screen(file, &jobs),
                (ConsoleMode::Status, false) => serve_lines(file, &jobs, Some(Blocks::new())),
                (ConsoleMode::Lines | ConsoleMode::Quiet, _) => serve_lines(file, &jobs, None),
            })
            .ok()?;
        Some(Self {
            queue,
            dropped: Mutex::new(0),
        })
    }

    pub(super) fn print(&self, text: &str) {
        let mut dropped = self.dropped.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out = String::new();
        if *dropped > 0 {
            let _ = writeln!(out, "(console too slow; lines dropped: {})", *dropped);
        }
        out.push_str(text);
        out.push('\n');
        match self.queue.try_send(Job::Print(out)) {
            Ok(()) => *dropped = 0,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => *dropped += 1,
        }
    }

    /// Waits until all earlier lines are printed, at most `bound`.
    pub(super) fn wait_until_printed(&self, bound: Duration) {
        let (done, printed) = sync_channel(1);
        if self.queue.try_send(Job::Flush(done)).is_ok() {
            // After the timeout the agent continues as well.
            let _ = printed.recv_timeout(bound);
        }
    }
}

/// Draws the status screen whenever a line is said, and every second.
fn serve_screen(file: File, jobs: &Receiver<Job>) {
    let mut screen = Screen::new(file);
    screen.draw();
    let mut drawn = Instant::now();
    let mut due = drawn + REDRAW;
    loop {
        match jobs.recv_timeout(due.saturating_duration_since(Instant::now())) {
            Ok(Job::Print(_)) => {
                due = due.min(drawn + DRAW_PAUSE);
                continue;
            }
            Ok(Job::Flush(done)) => {
                screen.draw();
                let _ = done.try_send(());
            }
            Err(RecvTimeoutError::Timeout) => screen.draw(),
            Err(RecvTimeoutError::Disconnected) => return,
        }
        drawn = Instant::now();
        due = drawn + REDRAW;
    }
}

/// Decides when a serial console gets a block of the status.
struct Blocks {
    shown: Option<Status>,
    /// When the last change was seen, if it is not shown yet.
    changed: Option<(Status, Instant)>,
    /// No block before this.
    not_before: Instant,
}

impl Blocks {
    fn new() -> Self {
        Self {
            shown: None,
            changed: None,
            not_before: Instant::now() + FIRST_BLOCK,
        }
    }

    /// The block, if one is due.
    fn due(&mut self, status: &Status, at: Instant) -> Option<Vec<String>> {
        let essence = status_screen::essence(status);
        if self.shown.as_ref() == Some(&essence) {
            self.changed = None;
            return None;
        }
        let since = match &self.changed {
            Some((known, since)) if *known == essence => *since,
            _ => {
                self.changed = Some((essence, at));
                return None;
            }
        };
        if at < self.not_before || at < since + BLOCK_SETTLES {
            return None;
        }
        self.not_before = at + BLOCK_PAUSE;
        self.changed = None;
        self.shown = Some(essence);
        Some(status_screen::block(status, seconds_since_boot()))
    }
}

fn serve_lines(mut file: File, jobs: &Receiver<Job>, mut blocks: Option<Blocks>) {
    loop {
        match jobs.recv_timeout(REDRAW) {
            Ok(Job::Print(text)) => {
                // If the console has disappeared, the error cannot be shown
                // anywhere.
                let _ = file.write_all(text.as_bytes());
            }
            Ok(Job::Flush(done)) => {
                let _ = done.try_send(());
            }
            Err(RecvTimeoutError::Timeout) => {
                let due = { blocks.as_mut() }
                    .and_then(|blocks| blocks.due(&status::now(), Instant::now()));
                if let Some(block) = due {
                    let _ = file.write_all((block.join("\n") + "\n").as_bytes());
                }
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbered_ttys_are_virtual_terminals() {
        for (device, expected) in [
            ("/dev/tty0", true),
            ("/dev/tty1", true),
            ("/dev/tty", false),
            ("/dev/ttyS0", false),
            ("/dev/hvc0", false),
            ("/dev/console", false),
        ] {
            assert_eq!(is_virtual_terminal(Path::new(device)), expected, "{device}");
        }
    }

    #[test]
    fn a_block_follows_a_change_but_not_more_often_than_every_minute() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut blocks = Blocks::new();
        blocks.not_before = at(15);
        let mut status = Status::default();
        let mut due = |status: &Status, seconds| blocks.due(status, at(seconds)).is_some();
        assert!(!due(&status, 0), "the first change is seen");
        assert!(!due(&status, 10), "too early");
        assert!(due(&status, 15));
        assert!(!due(&status, 100), "nothing has changed");
        status.node = Some("n".into());
        assert!(!due(&status, 101));
        assert!(due(&status, 104));
        status.node = Some("m".into());
        assert!(!due(&status, 105));
        assert!(!due(&status, 150), "a minute has not passed");
        assert!(due(&status, 164));
    }
}
