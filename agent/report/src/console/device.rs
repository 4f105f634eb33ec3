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

use super::keyboard::follow_keys;
use super::screen::Screen;
use crate::form::{self, Form, Key};
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

/// How long a form stays open without a key: a serial console shows no lines meanwhile.
const FORM_IDLE: Duration = Duration::from_secs(300);
/// The most lines that a serial console keeps while a form is open.
const MOST_HELD: usize = CONSOLE_QUEUE;

enum Job {
    Print(String),
    Press(Key),
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
    /// Opens the console, and shows on it what `mode` says. If `form` is true, keys open
    /// the form that is offered.
    pub(super) fn open(device: &Path, mode: ConsoleMode, form: bool) -> Option<Self> {
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
        if form {
            let keys = queue.clone();
            let device = device.to_owned();
            // If the thread cannot be started, only the form is missing.
            let _ = thread::Builder::new()
                .name("keyboard".into())
                .spawn(move || follow_keys(&device, |key| keys.send(Job::Press(key)).is_ok()));
        }
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

/// A form while an operator uses it.
struct OpenForm {
    form: Box<dyn Form>,
    last_key: Instant,
}

/// Gives a key to the open form. Enter opens one: noise on a serial line seldom looks
/// like it.
fn press(open: &mut Option<OpenForm>, key: Key) {
    let last_key = Instant::now();
    match open {
        Some(open_form) => {
            open_form.last_key = last_key;
            if !open_form.form.press(key) {
                *open = None;
            }
        }
        None if key == Key::Enter => {
            *open = form::open().map(|form| OpenForm { form, last_key });
        }
        None => {}
    }
}

fn close_idle(open: &mut Option<OpenForm>) {
    open.take_if(|open| open.last_key.elapsed() >= FORM_IDLE);
}

/// Draws the status screen whenever a line is said, and every second; or the form while
/// it is open.
fn serve_screen(file: File, jobs: &Receiver<Job>) {
    let mut screen = Screen::new(file);
    let mut open = None;
    screen.draw();
    let mut drawn = Instant::now();
    let mut due = drawn + REDRAW;
    loop {
        let mut flushed = None;
        match jobs.recv_timeout(due.saturating_duration_since(Instant::now())) {
            Ok(Job::Print(_)) => {
                due = due.min(drawn + DRAW_PAUSE);
                continue;
            }
            Ok(Job::Press(key)) => press(&mut open, key),
            Ok(Job::Flush(done)) => flushed = Some(done),
            Err(RecvTimeoutError::Timeout) => close_idle(&mut open),
            Err(RecvTimeoutError::Disconnected) => return,
        }
        match &open {
            Some(open) => screen.draw_form(&*open.form),
            None => screen.draw(),
        }
        if let Some(done) = flushed {
            let _ = done.try_send(());
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
        Some(status_screen::block(
            status,
            seconds_since_boot(),
            form::hint(),
        ))
    }
}

/// A serial console: prints lines, and draws the form while it is open.
struct SerialLine {
    file: File,
    open: Option<OpenForm>,
    /// Draws the form. Made when the first one is opened.
    screen: Option<Screen>,
    /// The lines that were said while the form was open.
    held: Vec<String>,
    /// How many lines there were beyond [`MOST_HELD`].
    not_held: usize,
}

impl SerialLine {
    fn print(&mut self, text: String) {
        if self.open.is_none() {
            // If the console has disappeared, the error cannot be shown anywhere.
            let _ = self.file.write_all(text.as_bytes());
        } else if self.held.len() < MOST_HELD {
            self.held.push(text);
        } else {
            self.not_held += 1;
        }
    }

    /// Changes the form by `change` and shows the result.
    fn change_form(&mut self, change: impl FnOnce(&mut Option<OpenForm>)) {
        let was_open = self.open.is_some();
        change(&mut self.open);
        if let Some(open) = &self.open {
            if self.screen.is_none() {
                self.screen = self.file.try_clone().ok().map(Screen::new);
            }
            if let Some(screen) = &mut self.screen {
                screen.draw_form(&*open.form);
            }
        } else if was_open {
            if let Some(mut screen) = self.screen.take() {
                screen.clear();
            }
            for line in std::mem::take(&mut self.held) {
                self.print(line);
            }
            let dropped = std::mem::take(&mut self.not_held);
            if dropped > 0 {
                self.print(format!(
                    "(lines dropped while the form was open: {dropped})\n"
                ));
            }
        }
    }
}

fn serve_lines(file: File, jobs: &Receiver<Job>, mut blocks: Option<Blocks>) {
    let mut line = SerialLine {
        file,
        open: None,
        screen: None,
        held: Vec::new(),
        not_held: 0,
    };
    loop {
        match jobs.recv_timeout(REDRAW) {
            Ok(Job::Print(text)) => line.print(text),
            Ok(Job::Press(key)) => line.change_form(|open| press(open, key)),
            Ok(Job::Flush(done)) => {
                // The last lines before the machine stops must be seen.
                line.change_form(|open| *open = None);
                let _ = done.try_send(());
            }
            Err(RecvTimeoutError::Timeout) if line.open.is_some() => {
                line.change_form(close_idle);
            }
            Err(RecvTimeoutError::Timeout) => {
                let due = { blocks.as_mut() }
                    .and_then(|blocks| blocks.due(&status::now(), Instant::now()));
                if let Some(block) = due {
                    line.print(block.join("\n") + "\n");
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

    struct Echo(String);

    impl Form for Echo {
        fn press(&mut self, key: Key) -> bool {
            if let Key::Char(character) = key {
                self.0.push(character);
            }
            key != Key::Escape
        }

        fn lines(&self, _: usize) -> Vec<crate::ScreenLine> {
            vec![crate::ScreenLine {
                text: format!("form: {}", self.0),
                tone: crate::Tone::Plain,
            }]
        }
    }

    /// What the terminal shows up to the text.
    fn until(terminal: &mut File, text: &str) -> String {
        use std::io::Read as _;
        let mut seen = String::new();
        let mut bytes = [0; 256];
        while !seen.contains(text) {
            let length = terminal.read(&mut bytes).unwrap();
            seen.push_str(&String::from_utf8_lossy(&bytes[..length]));
        }
        seen
    }

    #[test]
    fn a_key_opens_the_form_and_lines_wait_until_it_is_closed() {
        form::offer(|| Box::new(Echo(String::new())));
        let pty = nix::pty::openpty(None, None).unwrap();
        let device = nix::unistd::ttyname(&pty.slave).unwrap();
        let mut terminal = File::from(pty.master);
        let console = Console::open(&device, ConsoleMode::Lines, true).unwrap();
        // The console reads keys, and prints none of them, only after a moment.
        let start = Instant::now();
        loop {
            let mode = nix::sys::termios::tcgetattr(&pty.slave).unwrap();
            if !mode
                .local_flags
                .contains(nix::sys::termios::LocalFlags::ICANON)
            {
                break;
            }
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "no keys are read"
            );
            thread::sleep(Duration::from_millis(5));
        }
        terminal.write_all(b"x").unwrap();
        console.print("before");
        let seen = until(&mut terminal, "before\r\n");
        assert!(!seen.contains("form"), "only Enter opens the form: {seen}");
        terminal.write_all(b"\rab").unwrap();
        let seen = until(&mut terminal, "form: ab");
        assert!(seen.contains("\x1b[2J"), "{seen}");
        console.print("held");
        terminal.write_all(b"c").unwrap();
        let seen = until(&mut terminal, "form: abc");
        assert!(!seen.contains("held"), "{seen}");
        terminal.write_all(b"\x1b").unwrap();
        until(&mut terminal, "held\r\n");
    }

    #[test]
    fn without_the_form_no_key_is_read() {
        let pty = nix::pty::openpty(None, None).unwrap();
        let device = nix::unistd::ttyname(&pty.slave).unwrap();
        let console = Console::open(&device, ConsoleMode::Lines, false).unwrap();
        let mut terminal = File::from(pty.master);
        terminal.write_all(b"\r").unwrap();
        console.print("said");
        let seen = until(&mut terminal, "said\r\n");
        assert!(!seen.contains("form"), "{seen}");
        let mode = nix::sys::termios::tcgetattr(&pty.slave).unwrap();
        assert!(
            mode.local_flags
                .contains(nix::sys::termios::LocalFlags::ICANON)
        );
    }
}
