//! The form that an operator opens on a console. The consoles pass the keys to the form
//! and show its lines; the code that offers the form decides its content.

use std::sync::OnceLock;

use crate::status_screen::ScreenLine;

/// A key of a console.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// A printable ASCII character.
    Char(char),
    Enter,
    Backspace,
    /// Ctrl-U
    Clear,
    /// Cursor up, or Shift-Tab.
    Up,
    /// Cursor down, or Tab.
    Down,
    Left,
    Right,
    Escape,
}

/// A form on one console.
pub trait Form: Send {
    /// Takes a key. Returns false if the key closes the form.
    fn press(&mut self, key: Key) -> bool;
    /// The lines of the form, each of at most `width` characters.
    fn lines(&self, width: usize) -> Vec<ScreenLine>;
}

/// What the consoles print about the form.
pub(crate) const HINT: &str = "press Enter to change the network";

type OpenForm = Box<dyn Fn() -> Box<dyn Form> + Send + Sync>;

static OFFERED: OnceLock<OpenForm> = OnceLock::new();

/// Offers a form on all consoles for the rest of the process. Only the first offer
/// takes effect.
pub fn offer(open: impl Fn() -> Box<dyn Form> + Send + Sync + 'static) {
    let _ = OFFERED.set(Box::new(open));
}

/// A new form, if one is offered.
pub(crate) fn open() -> Option<Box<dyn Form>> {
    OFFERED.get().map(|open| open())
}

/// What the consoles print about the form, if one is offered.
pub(crate) fn hint() -> &'static str {
    match OFFERED.get() {
        Some(_) => HINT,
        None => "",
    }
}
