//! Draws the status on a virtual terminal.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::time::{Duration, Instant, SystemTime};

use landfall_sys::boot_clock::seconds_since_boot;
use landfall_sys::calendar;
use landfall_sys::window_size::window_size;

use crate::form::{self, Form};
use crate::status_screen::{self, ScreenLine, Tone};
use crate::{last_events, status};

/// How often every line is drawn, not only those that have changed.
const REDRAW_ALL: Duration = Duration::from_secs(5);
/// The size of a VT100, for a terminal that does not know its size: a serial line.
const VT100_SIZE: (usize, usize) = (80, 24);
/// How many lines stay free below the last status of the agent. Init prints at most three
/// lines there (see `lock_down` in init's shutdown.rs), and moves the cursor to the
/// fourth. With fewer free lines, init's lines would scroll the title off the screen.
const LINES_OF_INIT: usize = 4;
/// More log lines than fit on a large screen.
const LOG_LINES: usize = 80;

/// A virtual terminal, or a serial console while the form is open, and the lines drawn on
/// it.
pub(super) struct Screen {
    file: File,
    drawn: Vec<ScreenLine>,
    /// When all lines were last drawn.
    all_drawn: Option<Instant>,
}

impl Screen {
    pub(super) fn new(file: File) -> Self {
        Self {
            file,
            drawn: Vec::new(),
            all_drawn: None,
        }
    }

    /// Draws only the lines that have changed, because a frame buffer behind PCI is slow,
    /// and in most seconds only two lines change. Draws all lines every few seconds,
    /// because the kernel prints on the same terminal.
    pub(super) fn draw(&mut self) {
        let size = self.size();
        let status = status::now();
        let free = match status.done {
            None => 1,
            Some(_) => LINES_OF_INIT,
        };
        let lines = status_screen::screen(
            &status,
            &last_events(LOG_LINES),
            seconds_since_boot(),
            &calendar::shown(SystemTime::now()),
            form::hint(),
            (size.0, size.1.saturating_sub(free)),
        );
        // If the work is done, the agent ends soon, and init prints below the last status
        // of the agent.
        let cursor = match status.done {
            None => size.1,
            Some(_) => lines.len() + 1,
        };
        self.show(lines, size.1, cursor);
    }

    /// Draws a form in place of the status.
    pub(super) fn draw_form(&mut self, form: &dyn Form) {
        let size = self.size();
        let mut lines = form.lines(size.0);
        lines.truncate(size.1);
        self.show(lines, size.1, size.1);
    }

    /// Clears the terminal, so that lines can be printed on it.
    pub(super) fn clear(&mut self) {
        // If the terminal has disappeared, the error cannot be shown anywhere.
        let _ = self.file.write_all(b"\x1b[0m\x1b[2J\x1b[H");
    }

    fn size(&self) -> (usize, usize) {
        window_size(&self.file).unwrap_or(VT100_SIZE)
    }

    /// Shows the lines on a terminal of this height, and leaves the cursor in line
    /// `cursor`.
    fn show(&mut self, lines: Vec<ScreenLine>, height: usize, cursor: usize) {
        let all = self.all_drawn.is_none_or(|at| at.elapsed() >= REDRAW_ALL);
        let mut drawing = String::new();
        if self.all_drawn.is_none() {
            // Also ends attributes that the firmware or GRUB may have left.
            drawing.push_str("\x1b[0m\x1b[2J");
        }
        if all {
            self.drawn.clear();
            self.all_drawn = Some(Instant::now());
        }
        drawing.push_str(&changes(&self.drawn, &lines, height, cursor));
        // If the terminal has disappeared, the error cannot be shown anywhere.
        let _ = self.file.write_all(drawing.as_bytes());
        self.drawn = lines;
    }
}

/// Returns the control sequences of the Linux console (console_codes(4)) that change
/// `drawn` into `lines` on a terminal of this height. The cursor stays in line `cursor`,
/// where later output of the kernel or of init begins. The status leaves this line empty,
/// so the output does not mix with the status. If `cursor` is the last line, the output
/// scrolls the screen.
fn changes(drawn: &[ScreenLine], lines: &[ScreenLine], height: usize, cursor: usize) -> String {
    let mut out = String::new();
    for (number, line) in lines.iter().enumerate() {
        if drawn.get(number) == Some(line) {
            continue;
        }
        let attributes = match line.tone {
            Tone::Title => "\x1b[7m",
            Tone::Plain => "",
            Tone::Waiting => "\x1b[33m",
            Tone::Failed => "\x1b[1;31m",
        };
        // Erase the line before writing it: a character in the last column leaves the
        // cursor on that column, so a later erase to the end of the line would remove the
        // character.
        let row = number + 1;
        let _ = write!(out, "\x1b[{row};1H\x1b[2K{attributes}{}\x1b[0m", line.text);
    }
    if lines.len() < height && lines.len() != drawn.len() {
        let _ = write!(out, "\x1b[{};1H\x1b[J", lines.len() + 1);
    }
    let _ = write!(out, "\x1b[{};1H", cursor.min(height));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changed_lines_are_drawn() {
        let line = |text: &str| ScreenLine {
            text: text.into(),
            tone: Tone::Plain,
        };
        let two = [line("a"), line("b")];
        assert_eq!(
            changes(&[], &two, 2, 2),
            "\x1b[1;1H\x1b[2Ka\x1b[0m\x1b[2;1H\x1b[2Kb\x1b[0m\x1b[2;1H"
        );
        assert_eq!(
            changes(&two, &[line("a"), line("c")], 3, 3),
            "\x1b[2;1H\x1b[2Kc\x1b[0m\x1b[3;1H"
        );
        assert_eq!(
            changes(&two, &two[..1], 3, 3),
            "\x1b[2;1H\x1b[J\x1b[3;1H",
            "the rest is erased"
        );
        assert_eq!(
            changes(&two, &two[..1], 3, 2),
            "\x1b[2;1H\x1b[J\x1b[2;1H",
            "init continues below the status"
        );
    }
}
