//! Work that must not be interrupted. A shutdown or reboot waits for it.
//!
//! The disk stays consistent even if power fails at any moment (ARCHITECTURE.md,
//! invariants). An orderly shutdown guarantees more: a commit that has begun is
//! completed, together with the firmware's boot entry for it, and no new commit
//! begins.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

static OF_THIS_PROCESS: Sections = Sections::new();

/// Begins a critical section. After [`close`] this call blocks forever, because the
/// process is about to end. A thread that has a section must not begin another one: if
/// [`close`] is called in between, both calls wait forever.
pub fn enter() -> CriticalSection {
    OF_THIS_PROCESS.enter()
}

/// Waits until no critical section is open, and prevents new sections. If a section is
/// open, calls `waits` before it starts to wait.
pub fn close(waits: impl FnOnce()) {
    OF_THIS_PROCESS.close(waits);
}

/// An open critical section. It ends when this value is dropped.
#[derive(Debug)]
#[must_use = "the section ends when this is dropped"]
pub struct CriticalSection(&'static Sections);

impl Drop for CriticalSection {
    fn drop(&mut self) {
        self.0.lock().open -= 1;
        self.0.changed.notify_all();
    }
}

#[derive(Debug)]
struct Sections {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    open: usize,
    closed: bool,
}

impl Sections {
    const fn new() -> Self {
        Self {
            state: Mutex::new(State {
                open: 0,
                closed: false,
            }),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&'static self) -> CriticalSection {
        let state = self.lock();
        let mut state = self
            .changed
            .wait_while(state, |state| state.closed)
            .unwrap_or_else(PoisonError::into_inner);
        state.open += 1;
        CriticalSection(self)
    }

    fn close(&self, waits: impl FnOnce()) {
        let mut state = self.lock();
        state.closed = true;
        if state.open > 0 {
            waits();
        }
        // A poisoned lock would end the wait early. But the lock is poisoned only if a
        // thread panics while it holds the lock, and a panic aborts the whole program
        // (profile release).
        drop(
            self.changed
                .wait_while(state, |state| state.open > 0)
                .unwrap_or_else(PoisonError::into_inner),
        );
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{RecvTimeoutError, channel};
    use std::thread;
    use std::time::Duration;

    use super::*;

    const A_MOMENT: Duration = Duration::from_millis(100);
    const TIMEOUT: Duration = Duration::from_secs(20);

    fn sections() -> &'static Sections {
        Box::leak(Box::new(Sections::new()))
    }

    #[test]
    fn the_end_waits_for_every_section() {
        let sections = sections();
        let (first, second) = (sections.enter(), sections.enter());
        let (report, reports) = channel();
        let waits = report.clone();
        thread::spawn(move || {
            sections.close(|| waits.send("waits").unwrap());
            report.send("closed").unwrap();
        });
        assert_eq!(reports.recv_timeout(TIMEOUT), Ok("waits"));
        drop(first);
        assert_eq!(
            reports.recv_timeout(A_MOMENT),
            Err(RecvTimeoutError::Timeout)
        );
        drop(second);
        assert_eq!(reports.recv_timeout(TIMEOUT), Ok("closed"));
    }

    #[test]
    fn no_section_begins_after_the_end() {
        let sections = sections();
        sections.close(|| panic!("nothing to wait for"));
        let (report, reports) = channel();
        thread::spawn(move || {
            let _section = sections.enter();
            report.send(()).unwrap();
        });
        assert_eq!(
            reports.recv_timeout(A_MOMENT),
            Err(RecvTimeoutError::Timeout)
        );
    }
}
