//! Collects everything that happens in one test, in one list, with the host's
//! time.
//!
//! Guest clocks are useless for measurements: under emulation on a busy host they
//! run at their own speed. So the journal stamps every line of the serial console,
//! every request and every event of the machine with the host's time. Tests wait
//! for entries of this list.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use tokio::sync::watch;

/// The origin of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A line on the guest's serial console: firmware, boot loader, kernel, agent.
    Console,
    /// The scripted conductor: requests that it received and commands that it sent.
    Conductor,
    Images,
    /// dnsmasq: DHCP and TFTP.
    Dhcp,
    /// The real Ironic: a line of its log, except debug messages.
    Ironic,
    /// The virtual machine itself: started, reset, powered off.
    Machine,
    /// The guest at the far end of the host's cables: its console and its machine.
    Peer,
    /// One of several hosts side by side: its console and its machine.
    Host(u8),
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Console => "console",
            Self::Conductor => "conductor",
            Self::Images => "images",
            Self::Dhcp => "dhcp",
            Self::Ironic => "ironic",
            Self::Machine => "machine",
            Self::Peer => "peer",
            Self::Host(number) => return formatter.pad(&format!("host{number}")),
        })
    }
}

#[derive(Debug, Clone)]
pub struct Event {
    /// The host's time since the journal was created.
    pub at: Duration,
    pub source: Source,
    /// What happened, in one line.
    pub text: String,
}

impl fmt::Display for Event {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{:9.3} {:<9} {}",
            self.at.as_secs_f64(),
            self.source,
            self.text
        )
    }
}

/// A position in the journal, from which a search starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark(usize);

type Listener = Box<dyn Fn(&Event) + Send + Sync>;

struct Inner {
    start: Instant,
    events: Mutex<Vec<Event>>,
    count: watch::Sender<usize>,
    listener: Option<Listener>,
}

/// The list of events. Clones share the list.
#[derive(Clone)]
pub struct Journal {
    inner: Arc<Inner>,
}

impl Default for Journal {
    fn default() -> Self {
        Self::new(None)
    }
}

impl Journal {
    /// An empty journal whose time starts now. The listener is called for each
    /// event when it is recorded.
    #[must_use]
    pub fn new(listener: Option<Listener>) -> Self {
        Self {
            inner: Arc::new(Inner {
                start: Instant::now(),
                events: Mutex::new(Vec::new()),
                count: watch::Sender::new(0),
                listener,
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Event>> {
        // The list is valid even if a test panicked while it held the lock.
        self.inner
            .events
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The host's time since the journal was created.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.inner.start.elapsed()
    }

    /// Adds an event with the current time.
    pub fn record(&self, source: Source, text: impl Into<String>) {
        self.record_at(self.now(), source, text);
    }

    /// Adds an event with an earlier time, which must come from this journal's
    /// [`Journal::now`].
    pub fn record_at(&self, at: Duration, source: Source, text: impl Into<String>) {
        let event = Event {
            at,
            source,
            text: text.into(),
        };
        if let Some(listener) = &self.inner.listener {
            listener(&event);
        }
        let mut events = self.lock();
        events.push(event);
        self.inner.count.send_replace(events.len());
    }

    #[must_use]
    pub fn start(&self) -> Mark {
        Mark(0)
    }

    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark(self.lock().len())
    }

    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        self.lock().clone()
    }

    #[must_use]
    pub fn events_after(&self, mark: Mark) -> Vec<Event> {
        self.lock().iter().skip(mark.0).cloned().collect()
    }

    /// Returns the first matching event after `mark` that has already happened.
    pub fn find(&self, mark: Mark, matches: impl Fn(&Event) -> bool) -> Option<Event> {
        let events = self.lock();
        events.iter().skip(mark.0).find(|e| matches(e)).cloned()
    }

    /// Returns the first event of `source` after `mark` that contains all `parts`.
    pub fn line(&self, source: Source, mark: Mark, parts: &[&str]) -> Result<Event> {
        let matches = |e: &Event| e.source == source && parts.iter().all(|p| e.text.contains(p));
        let found = self.find(mark, matches);
        found.with_context(|| format!("{source}: expected a line with {parts:?}, found none"))
    }

    /// Returns the first line of the console that contains all `parts`.
    pub fn console_line(&self, parts: &[&str]) -> Result<Event> {
        self.line(Source::Console, self.start(), parts)
    }

    /// Returns the last matching event after `mark`.
    pub fn find_last(&self, mark: Mark, matches: impl Fn(&Event) -> bool) -> Option<Event> {
        let events = self.lock();
        events.iter().skip(mark.0).rfind(|e| matches(e)).cloned()
    }

    /// Waits for a matching event after `mark`. `what` names it in the error. The
    /// wait fails early if the machine ends.
    pub async fn wait_for(
        &self,
        what: &str,
        mark: Mark,
        within: Duration,
        matches: impl Fn(&Event) -> bool,
    ) -> Result<Event> {
        self.wait_for_of(Source::Machine, what, mark, within, matches)
            .await
    }

    /// Like [`Journal::wait_for`], for the machine with the events of this source.
    pub(crate) async fn wait_for_of(
        &self,
        machine: Source,
        what: &str,
        mark: Mark,
        within: Duration,
        matches: impl Fn(&Event) -> bool,
    ) -> Result<Event> {
        let deadline = tokio::time::Instant::now() + within;
        let mut count = self.inner.count.subscribe();
        let mut next = mark.0;
        loop {
            let mut ended = None;
            {
                let events = self.lock();
                for event in events.iter().skip(next) {
                    if matches(event) {
                        return Ok(event.clone());
                    }
                    if event.source == machine && event.text.starts_with(MACHINE_ENDED) {
                        ended = Some(event.text.clone());
                    }
                }
                next = events.len().max(next);
            }
            if let Some(ended) = ended {
                bail!("waiting for {what}: {ended}");
            }
            match tokio::time::timeout_at(deadline, count.changed()).await {
                // The sender cannot be gone, because `self` holds it.
                Ok(_) => {}
                Err(_) => bail!("waiting for {what}: nothing within {} s", within.as_secs()),
            }
        }
    }
}

/// Fails unless `text` contains all `parts`.
pub fn ensure_contains(text: &str, parts: &[&str]) -> Result<()> {
    for part in parts {
        ensure!(text.contains(part), "'{part}' is not in: {text}");
    }
    Ok(())
}

/// Start of the text of the event for an ended machine; see [`Journal::wait_for`].
pub const MACHINE_ENDED: &str = "machine ended";

#[cfg(test)]
mod tests {
    use super::*;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap()
            .block_on(future)
    }

    #[test]
    fn wait_sees_what_came_before_and_after_it_began() {
        block_on(async {
            let journal = Journal::default();
            let mark = journal.mark();
            journal.record(Source::Console, "one");
            let second = Duration::from_secs(1);
            let is = |text: &'static str| move |e: &Event| e.text == text;
            journal
                .wait_for("one", mark, second, is("one"))
                .await
                .unwrap();
            let later = journal.clone();
            let (waited, ()) =
                tokio::join!(journal.wait_for("two", mark, second, is("two")), async {
                    later.record(Source::Console, "two");
                });
            assert_eq!(waited.unwrap().text, "two");
            let after = journal.mark();
            assert!(journal.find(after, is("two")).is_none());
        });
    }

    #[test]
    fn an_ended_machine_ends_the_wait() {
        block_on(async {
            let journal = Journal::default();
            let mark = journal.mark();
            journal.record(Source::Machine, format!("{MACHINE_ENDED}: exit status 0"));
            let error = journal
                .wait_for("a line", mark, Duration::from_secs(600), |e| {
                    e.text == "a line"
                })
                .await
                .unwrap_err();
            assert_eq!(
                error.to_string(),
                "waiting for a line: machine ended: exit status 0"
            );
        });
    }
}
