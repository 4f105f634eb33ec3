//! The form on one console: opened by a key, closed by the operator or after a while.

use std::time::{Duration, Instant};

use crate::form::{self, Form, Key};

/// How long a form stays open without a key. The time is limited because a serial console
/// shows no lines while a form is open.
const IDLE: Duration = Duration::from_secs(300);
/// The Enter key opens the form only if no other key arrived within this time before
/// it. So a serial line that echoes the output does not open the form: the echo of a
/// line break comes right after the text of the line.
const ALONE: Duration = Duration::from_millis(200);

/// The form of one console, while it is open.
#[derive(Default)]
pub(super) struct OpenForm {
    form: Option<Box<dyn Form>>,
    last_key: Option<Instant>,
}

impl OpenForm {
    /// The form, if it is open.
    pub(super) fn shown(&self) -> Option<&dyn Form> {
        self.form.as_deref()
    }

    /// Passes the key to the form. If no form is open, a lone Enter opens one, because
    /// noise on a serial line seldom looks like a lone Enter.
    pub(super) fn press(&mut self, key: Key, now: Instant) {
        let before = self.last_key.replace(now);
        match &mut self.form {
            Some(form) => {
                let stays_open = form.press(key);
                if !stays_open {
                    self.form = None;
                }
            }
            None if key == Key::Enter => {
                let is_alone = before.is_none_or(|before| now >= before + ALONE);
                self.form = is_alone.then(form::open).flatten();
            }
            None => {}
        }
    }

    pub(super) fn close_if_idle(&mut self) {
        if self.last_key.is_some_and(|last| last.elapsed() >= IDLE) {
            self.close();
        }
    }

    pub(super) fn close(&mut self) {
        self.form = None;
    }
}
