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

use super::blocks::Blocks;
use super::keyboard::follow_keys;
use super::open_form::OpenForm;
use super::screen::Screen;
use crate::form::Key;
use crate::status;

/// How many lines a console may lag behind. If it is slower, lines are dropped.
pub(super) const CONSOLE_QUEUE: usize = 512;

/// The minimum time between two drawings of the screen when new lines arrive.
const DRAW_PAUSE: Duration = Duration::from_millis(200);
/// The maximum time between two drawings: the screen shows a clock with seconds.
const REDRAW: Duration = Duration::from_secs(1);
/// After a key, the form waits this long for further keys before it is drawn. So pasted
/// text is drawn once, not for each of its characters.
const KEYS_SETTLE: Duration = Duration::from_millis(20);

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
    /// Opens the console in this mode. If `form` is true, the Enter key opens the network
    /// form, provided that the agent offers one. Returns `None` if the device cannot be
    /// opened.
    pub(super) fn open(device: &Path, mode: ConsoleMode, form: bool) -> Option<Self> {
        // A console without a device node (netconsole) is skipped. The kernel prints the
        // agent's lines there from its log, but only with `debug` or `loglevel=8` on its
        // command line.
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

    /// Waits until the console has printed all earlier lines, at most `bound`.
    pub(super) fn wait_until_printed(&self, bound: Duration) {
        let (done, printed) = sync_channel(1);
        if self.queue.try_send(Job::Flush(done)).is_ok() {
            // The agent also continues after the timeout.
            let _ = printed.recv_timeout(bound);
        }
    }
}

/// Draws the status screen after log lines and every second, or the form while it is
/// open.
fn serve_screen(file: File, jobs: &Receiver<Job>) {
    let mut screen = Screen::new(file);
    let mut form = OpenForm::default();
    screen.draw();
    let mut drawn = Instant::now();
    let mut due = drawn + REDRAW;
    loop {
        let mut flushed = None;
        match jobs.recv_timeout(due.saturating_duration_since(Instant::now())) {
            Ok(Job::Print(_)) => due = due.min(drawn + DRAW_PAUSE),
            Ok(Job::Press(key)) => {
                let now = Instant::now();
                form.press(key, now);
                due = due.min(now + KEYS_SETTLE);
            }
            Ok(Job::Flush(done)) => {
                // The operator must see the last status before the machine stops.
                form.close();
                due = Instant::now();
                flushed = Some(done);
            }
            Err(RecvTimeoutError::Timeout) => form.close_if_idle(),
            Err(RecvTimeoutError::Disconnected) => return,
        }
        // Check the time after every job, not only after a timeout, so that the screen
        // is drawn even if jobs keep arriving.
        if Instant::now() < due {
            continue;
        }
        match form.shown() {
            Some(form) => screen.draw_form(form),
            None => screen.draw(),
        }
        if let Some(done) = flushed {
            let _ = done.try_send(());
        }
        drawn = Instant::now();
        due = drawn + REDRAW;
    }
}

/// A serial console: prints lines, and draws the form while it is open.
struct SerialLine {
    file: File,
    form: OpenForm,
    /// Draws the form. Made when the form is opened.
    screen: Option<Screen>,
    /// The lines that arrived while the form was open.
    held: Vec<String>,
    /// The number of lines that were dropped because [`MOST_HELD`] lines were held.
    not_held: usize,
}

impl SerialLine {
    fn print(&mut self, text: String) {
        if self.form.shown().is_none() {
            // If the console has disappeared, the error cannot be shown anywhere.
            let _ = self.file.write_all(text.as_bytes());
        } else if self.held.len() < MOST_HELD {
            self.held.push(text);
        } else {
            self.not_held += 1;
        }
    }

    /// Draws the form. If the form has just been closed, prints the lines that arrived
    /// while it was open.
    fn draw(&mut self) {
        if let Some(form) = self.form.shown() {
            if self.screen.is_none() {
                self.screen = self.file.try_clone().ok().map(Screen::new);
            }
            if let Some(screen) = &mut self.screen {
                screen.draw_form(form);
            }
        } else if let Some(mut screen) = self.screen.take() {
            screen.clear();
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
        form: OpenForm::default(),
        screen: None,
        held: Vec::new(),
        not_held: 0,
    };
    // When the form must be drawn.
    let mut due: Option<Instant> = None;
    let mut checked = Instant::now();
    loop {
        let wait = due.map_or(REDRAW, |due| due.saturating_duration_since(Instant::now()));
        let received = jobs.recv_timeout(wait);
        let now = Instant::now();
        match received {
            Ok(Job::Print(text)) => line.print(text),
            Ok(Job::Press(key)) => {
                line.form.press(key, now);
                due = due.or(Some(now + KEYS_SETTLE));
            }
            Ok(Job::Flush(done)) => {
                // The operator must see the last lines before the machine stops.
                line.form.close();
                line.draw();
                let _ = done.try_send(());
            }
            Err(RecvTimeoutError::Timeout) if line.form.shown().is_some() => {
                line.form.close_if_idle();
                due = Some(now);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        // Check the form and the blocks after every job, not only after a timeout, so
        // that an idle form is closed and blocks are printed even if lines keep arriving.
        if checked.elapsed() >= REDRAW && line.form.shown().is_some() {
            checked = Instant::now();
            line.form.close_if_idle();
            if line.form.shown().is_none() {
                due = Some(checked);
            }
        } else if checked.elapsed() >= REDRAW {
            checked = Instant::now();
            let block = { blocks.as_mut() }.and_then(|blocks| blocks.due(&status::now(), checked));
            if let Some(block) = block {
                line.print(block.join("\n") + "\n");
            }
        }
        if due.is_some_and(|due| due <= Instant::now()) {
            line.draw();
            due = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::form::{self, Form};

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

    /// Reads what the terminal shows, until it has shown `text`.
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
        // It takes a moment until the console reads keys and no longer echoes them.
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
        // An Enter right after another key does not open the form.
        thread::sleep(Duration::from_millis(300));
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
