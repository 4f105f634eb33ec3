//! Watches an iSCSI connection, and logs in again after the connection has failed. The
//! kernel sends and answers pings by itself.

use std::io;
use std::time::{Duration, Instant};

use landfall_sys::backoff::Backoff;
use landfall_sys::system_path::SystemPath;

use crate::kernel::Kernel;
use crate::kernel::message::{self, Event};
use crate::session::Session;

/// The first and the longest pause between two logins.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(20);
/// The time after the loss of the connection when the agent gives up. The kernel has
/// failed the requests to the disk long before, so every program that wrote to the disk
/// has already received an error.
const GIVE_UP: Duration = Duration::from_secs(15 * 60);
/// How often the agent reads the state of the session, because the kernel may lose an
/// event. This is less than the time for which the kernel keeps the requests to a disk
/// without another path.
const LOOK: Duration = Duration::from_secs(30);

/// The opcode of an asynchronous message (RFC 7143, 11.9), and the events with which
/// the target announces that it ends the connection.
const ASYNCHRONOUS: u8 = 0x32;
const ENDS_CONNECTION: std::ops::RangeInclusive<u8> = 1..=3;

struct Watched {
    session: Session,
    lost: Option<Lost>,
}

struct Lost {
    since: Instant,
    /// When the agent tries again. `None` if it has given up.
    next: Option<Instant>,
    backoff: Backoff,
    last_fault: String,
}

/// Watches the session as long as the process lives.
///
/// # Errors
/// If the netlink socket fails.
pub fn watch(mut kernel: Kernel, session: Session) -> io::Result<()> {
    let system = SystemPath::live();
    let number = session.kernel.number;
    kernel.keep_events_of(number);
    let mut watched = Watched {
        session,
        lost: None,
    };
    loop {
        // A session of an earlier run of the agent may be without a connection from the
        // start.
        if watched.lost.is_none() && !watched.session.is_connected(&system) {
            watched.lose("the kernel has no connection for it");
        }
        let next = watched.lost.as_ref().and_then(|lost| lost.next);
        let wait = next.map_or(LOOK, |next| next.saturating_duration_since(Instant::now()));
        if let Some(event) = kernel.next_event(wait)?
            && let Some(reason) = failure(&event)
        {
            watched.lose(&reason);
        }
        watched.try_again(&mut kernel);
    }
}

/// Why the connection has failed or is about to end. `None` for any other event.
fn failure(event: &Event) -> Option<String> {
    match event {
        Event::ConnectionError { code, .. } => Some(message::reason(*code)),
        Event::Received { header, .. }
            if header[0] & 0x3f == ASYNCHRONOUS && ENDS_CONNECTION.contains(&header[36]) =>
        {
            Some("the target ends the connection".to_owned())
        }
        Event::Received { .. } | Event::Other(_) => None,
    }
}

impl Watched {
    fn lose(&mut self, reason: &str) {
        if self.lost.is_some() {
            return;
        }
        let way = &self.session.way;
        tracing::warn!("the connection to {way} is lost: {reason}; the agent logs in again");
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        let now = Instant::now();
        self.lost = Some(Lost {
            since: now,
            next: Some(now + backoff.pause()),
            backoff,
            last_fault: reason.to_owned(),
        });
    }

    fn try_again(&mut self, kernel: &mut Kernel) {
        let Some(lost) = &mut self.lost else { return };
        if lost.next.is_none_or(|next| next > Instant::now()) {
            return;
        }
        let way = &self.session.way;
        match self.session.resume(kernel) {
            Ok(()) => {
                let seconds = lost.since.elapsed().as_secs();
                tracing::info!("logged in to {way} again after {seconds} s");
                self.lost = None;
            }
            // Retry after any error. The settings are correct, because there was a
            // session, and an array that is restarting may return any error. open-iscsi
            // also retries after all errors (iscsi_login_eh of initiator.c).
            Err(error) if lost.since.elapsed() < GIVE_UP => {
                let text = error.to_string();
                // Log each new reason once, and not each attempt.
                if text != lost.last_fault {
                    tracing::warn!("cannot log in to {way} again, the agent retries: {text}");
                    lost.last_fault = text;
                }
                lost.next = Some(Instant::now() + lost.backoff.pause());
            }
            Err(error) => {
                let remedy = error.remedy();
                tracing::error!(
                    "cannot log in to {way} again, and the agent does not retry: {error} -- {remedy}, then start the host again"
                );
                lost.next = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_connection_is_recognised() {
        let error = Event::ConnectionError {
            session: 4,
            code: 1020,
        };
        assert_eq!(
            failure(&error),
            Some("the target closed the connection".to_owned())
        );
        let mut header = [0; 48];
        for (opcode, event, ends) in [
            (0x32, 1, true),
            (0x32, 0, false),
            (0x32, 4, false),
            (0x20, 1, false),
        ] {
            header[0] = opcode;
            header[36] = event;
            let event = Event::Received {
                session: 4,
                header,
                data: Vec::new(),
            };
            assert_eq!(failure(&event).is_some(), ends, "{opcode:#x} {event:?}");
        }
    }
}
