//! What user space owes the kernel while a session exists: a new login after the connection
//! has failed. The kernel answers and sends pings by itself.

use std::io;
use std::time::{Duration, Instant};

use landfall_sys::backoff::Backoff;
use landfall_sys::system_path::SystemPath;

use crate::kernel::Kernel;
use crate::kernel::message::{self, Event};
use crate::session::Session;

/// The pauses between logins.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(20);
/// After this time the agent gives up. The kernel has failed the requests to the disk long
/// before, so what wrote to it has ended with an error.
const GIVE_UP: Duration = Duration::from_secs(15 * 60);
/// How long a wait without events lasts. Nothing happens after it.
const IDLE: Duration = Duration::from_secs(3600);

/// The opcode of an asynchronous message (RFC 7143, 11.9), and its events after which the
/// target ends the connection.
const ASYNCHRONOUS: u8 = 0x32;
const ENDS_CONNECTION: std::ops::RangeInclusive<u8> = 1..=3;

struct Watched {
    session: Session,
    lost: Option<Lost>,
}

struct Lost {
    since: Instant,
    next: Instant,
    backoff: Backoff,
    last_fault: String,
}

/// Watches the sessions as long as the process lives.
///
/// # Errors
/// If the netlink socket fails.
pub fn watch(mut kernel: Kernel, sessions: Vec<Session>) -> io::Result<()> {
    let mut all: Vec<Watched> = sessions
        .into_iter()
        .map(|session| Watched {
            session,
            lost: None,
        })
        .collect();
    // A session of an earlier run of the agent may have lost its connection in between.
    let system = SystemPath::live();
    for watched in &mut all {
        if !watched.session.is_connected(&system) {
            watched.lose("it failed before the agent was there");
        }
    }
    loop {
        let next = all
            .iter()
            .filter_map(|watched| Some(watched.lost.as_ref()?.next))
            .min();
        let wait = next.map_or(IDLE, |next| next.saturating_duration_since(Instant::now()));
        if let Some(event) = kernel.next_event(wait)?
            && let Some((number, reason)) = failure(&event)
            && let Some(watched) = all
                .iter_mut()
                .find(|watched| watched.session.kernel.number == number)
        {
            watched.lose(&reason);
        }
        for watched in &mut all {
            watched.try_again(&mut kernel);
        }
    }
}

/// The session whose connection has failed or is about to end, and why.
fn failure(event: &Event) -> Option<(u32, String)> {
    match event {
        Event::ConnectionError { session, code } => Some((*session, message::reason(*code))),
        Event::Received {
            session, header, ..
        } if header[0] & 0x3f == ASYNCHRONOUS && ENDS_CONNECTION.contains(&header[36]) => {
            Some((*session, "the target ends the connection".to_owned()))
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
            next: now + backoff.pause(),
            backoff,
            last_fault: reason.to_owned(),
        });
    }

    fn try_again(&mut self, kernel: &mut Kernel) {
        let Some(lost) = &mut self.lost else { return };
        let now = Instant::now();
        if lost.next > now {
            return;
        }
        let way = &self.session.way;
        match self.session.resume(kernel) {
            Ok(()) => {
                let seconds = lost.since.elapsed().as_secs();
                tracing::info!("the session to {way} is there again after {seconds} s");
                self.lost = None;
            }
            Err(error) if error.is_temporary() && lost.since.elapsed() < GIVE_UP => {
                let text = error.to_string();
                // Once for each new reason, and not for each attempt.
                if text != lost.last_fault {
                    tracing::warn!("cannot log in to {way} again, the agent retries: {text}");
                    lost.last_fault = text;
                }
                lost.next = Instant::now() + lost.backoff.pause();
            }
            Err(error) => {
                let remedy = error.remedy();
                tracing::error!(
                    "cannot log in to {way} again, and the agent does not retry: {error} -- {remedy}, then start the host again"
                );
                lost.next = now + Duration::from_secs(u64::from(u32::MAX));
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
            Some((4, "the target closed the connection".to_owned()))
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
