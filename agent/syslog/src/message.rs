//! Syslog messages (RFC 5424). No I/O.

use std::fmt;
use std::time::{Duration, SystemTime};

use landfall_report::Event;
use landfall_sys::boot_clock::seconds_since_boot;
use landfall_sys::calendar;

/// "user-level messages" (RFC 5424, section 6.2.1).
const FACILITY: u8 = 1;
/// The size in bytes that every receiver of datagrams should accept (RFC 5426, section
/// 3.2).
const DATAGRAM_LIMIT: usize = 2048;
/// The longest host name and message ID in characters (RFC 5424, section 6).
const HOST_NAME_LIMIT: usize = 255;
const MESSAGE_ID_LIMIT: usize = 32;

/// The fields that are the same in all messages that are sent together.
pub(super) struct Header {
    pub(super) host: String,
    pub(super) process: u32,
    /// The time of the boot according to the current clock. So lines that were written
    /// before the clock was set also get the correct time.
    pub(super) booted: SystemTime,
}

impl Header {
    pub(super) fn of_this_process(host: Option<String>) -> Self {
        let up = Duration::from_secs_f64(seconds_since_boot().max(0.0));
        Self {
            host: host.unwrap_or_default(),
            process: std::process::id(),
            booted: SystemTime::now()
                .checked_sub(up)
                .unwrap_or(SystemTime::UNIX_EPOCH),
        }
    }

    /// The message of an event: `<14>1 2026-11-24T11:22:33.456Z node7 landfall 123 disk - ...`.
    pub(super) fn message(&self, event: &Event) -> String {
        let time = self.booted + Duration::from_secs_f64(event.time.max(0.0));
        format!(
            "<{}>1 {} {} landfall {} {} - {}",
            FACILITY * 8 + event.severity(),
            timestamp(time),
            name(&self.host, HOST_NAME_LIMIT),
            self.process,
            name(&event.stage, MESSAGE_ID_LIMIT),
            event.text,
        )
    }
}

/// The value of a header field: the printable ASCII characters of `text`, without spaces,
/// at most `limit` characters. `-` if no character is left.
fn name(text: &str, limit: usize) -> String {
    let printable = text.chars().filter(char::is_ascii_graphic).take(limit);
    let name: String = printable.collect();
    match name.is_empty() {
        true => "-".to_owned(),
        false => name,
    }
}

fn timestamp(time: SystemTime) -> String {
    let since = time
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    match calendar::civil(time) {
        Some(date) => format!(
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
            date.year,
            date.month,
            date.day,
            date.hour,
            date.minute,
            date.second,
            since.subsec_millis()
        ),
        None => "-".to_owned(),
    }
}

/// A message in a stream: its length in bytes, a space, the message (RFC 6587, section
/// 3.4.1).
pub(super) struct Counted<'a>(pub(super) &'a str);

impl fmt::Display for Counted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0.len(), self.0)
    }
}

/// The message, cut to [`DATAGRAM_LIMIT`]. It is ASCII, so it can be cut at any byte.
pub(super) fn for_datagram(message: &str) -> &[u8] {
    &message.as_bytes()[..message.len().min(DATAGRAM_LIMIT)]
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    fn event(level: Level, stage: &str) -> Event {
        Event {
            sequence: 1,
            time: 1.25,
            stage: stage.into(),
            level,
            text: "root disk is /dev/sda".into(),
            progress: None,
        }
    }

    #[test]
    fn a_message_has_every_field_of_the_rfc() {
        let header = |host: &str| Header {
            host: host.into(),
            process: 123,
            booted: SystemTime::UNIX_EPOCH + Duration::from_millis(1_795_519_353_200),
        };
        for (host, level, expected) in [
            (
                "node7",
                Level::INFO,
                "<14>1 2026-11-24T11:22:34.450Z node7 landfall 123 disk - root disk is /dev/sda",
            ),
            (
                "",
                Level::WARN,
                "<12>1 2026-11-24T11:22:34.450Z - landfall 123 disk - root disk is /dev/sda",
            ),
            (
                "a b",
                Level::ERROR,
                "<11>1 2026-11-24T11:22:34.450Z ab landfall 123 disk - root disk is /dev/sda",
            ),
        ] {
            assert_eq!(header(host).message(&event(level, "disk")), expected);
        }
        let long = header("x").message(&event(Level::INFO, &"s".repeat(40)));
        assert!(long.contains(&format!(" {} - ", "s".repeat(32))), "{long}");
    }

    #[test]
    fn a_stream_counts_bytes_and_a_datagram_has_a_limit() {
        assert_eq!(Counted("abc").to_string(), "3 abc");
        assert_eq!(for_datagram("abc"), b"abc");
        assert_eq!(for_datagram(&"x".repeat(5000)).len(), 2048);
    }
}
