//! Reads the kernel's ring buffer, which also contains the lines of init and of an agent
//! before its restart.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt as _;
use std::thread;

use nix::libc::O_NONBLOCK;

use crate::LogLine;

const PATH: &str = "/dev/kmsg";
/// The maximum size of a record in bytes: `CONSOLE_EXT_LOG_MAX` before Linux 6.3. Since
/// then it is 2048 (`PRINTK_MESSAGE_MAX`).
const RECORD_LIMIT: usize = 8192;
/// The maximum number of records to read, more than a usual ring buffer holds. The limit
/// protects against a log that grows as fast as it is read.
const RECORDS: usize = 100_000;

/// The maximum length, in bytes, of the part of a line in one record. A longer line is
/// split into several records.
pub const PART: usize = 900;
/// How our own records begin (`Sinks::put`).
const OURS: &str = "landfall ";

/// All records, oldest first. Empty if the log cannot be read.
pub fn records() -> Vec<LogLine> {
    all().into_iter().map(|record| record.line).collect()
}

/// The texts of [`records`], without their times.
pub fn texts() -> Vec<String> {
    all().into_iter().map(|record| record.line.text).collect()
}

/// The records of the kernel itself, of init and of agents, without audit records and
/// those of other programs.
pub fn own_records() -> Vec<LogLine> {
    let records = all().into_iter().filter(Record::is_own);
    records.map(|record| record.line).collect()
}

fn all() -> Vec<Record> {
    let log = OpenOptions::new()
        .read(true)
        .custom_flags(O_NONBLOCK)
        .open(PATH);
    log.map(read_all).unwrap_or_default()
}

/// A line of init or of an agent in the kernel's log.
#[derive(Debug, Clone, PartialEq)]
pub struct OurRecord {
    /// The kernel's number of the record in this boot.
    pub number: u64,
    /// The time in seconds since boot, by the kernel's clock for its log. This clock
    /// differs by some hundredths of a second from the clock of [`crate::Event`].
    pub time: f64,
    pub stage: String,
    /// The text with its level: `warning: ...`.
    pub text: String,
}

/// The lines of init and of agents so far, oldest first. Empty if the log cannot be read.
pub fn our_records() -> Vec<OurRecord> {
    all().into_iter().filter_map(Record::into_ours).collect()
}

/// Starts a thread that calls `each` for every line of init and of agents after the
/// record with the number `after`, also for later lines. With `None`, begins with the
/// oldest line in the log. Stops when `each` returns false. Does nothing if the log
/// cannot be read.
pub fn follow(after: Option<u64>, mut each: impl FnMut(OurRecord) -> bool + Send + 'static) {
    // Without O_NONBLOCK a read waits for the next record.
    let Ok(mut log) = File::open(PATH) else {
        return;
    };
    let follow = move || {
        while let Some(read) = next(&mut log) {
            let ours = read.and_then(Record::into_ours);
            let new = ours.filter(|record| after.is_none_or(|after| record.number > after));
            if new.is_some_and(|record| !each(record)) {
                return;
            }
        }
    };
    // If the thread cannot be started, only the lines are missing.
    let _ = thread::Builder::new()
        .name("kernel-log".into())
        .spawn(follow);
}

struct Record {
    number: u64,
    /// Zero for the kernel's own records. The kernel gives another facility to the
    /// records of programs (Documentation/ABI/testing/dev-kmsg).
    facility: u32,
    line: LogLine,
}

impl Record {
    /// False for audit records: they look like the kernel's own, but they quote the
    /// command lines of programs (kernel/audit.c, `kauditd_printk_skb`).
    fn is_own(&self) -> bool {
        let text = &self.line.text;
        self.facility == 0 && !text.starts_with("audit:") || text.starts_with(OURS)
    }

    fn into_ours(self) -> Option<OurRecord> {
        let line = self.line.text.strip_prefix(OURS)?;
        let (stage, text) = line.split_once(": ")?;
        Some(OurRecord {
            number: self.number,
            time: self.line.time,
            stage: stage.to_owned(),
            text: text.to_owned(),
        })
    }
}

fn read_all(mut log: impl Read) -> Vec<Record> {
    let mut records = Vec::new();
    for _ in 0..RECORDS {
        match next(&mut log) {
            Some(record) => records.extend(record),
            None => break,
        }
    }
    records
}

/// Reads one record. Returns `None` at the end of the log (`EAGAIN`) and on any other
/// read error. Returns `Some(None)` if the caller must read again: a record cannot be
/// parsed, or the kernel has overwritten records meanwhile (`EPIPE`), or a signal has
/// interrupted the read.
fn next(log: &mut impl Read) -> Option<Option<Record>> {
    let mut record = [0; RECORD_LIMIT];
    match log.read(&mut record) {
        Ok(0) => None,
        Ok(length) => Some(parse(&String::from_utf8_lossy(&record[..length]))),
        Err(error) => match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::Interrupted => Some(None),
            _ => None,
        },
    }
}

/// Parses `6,339,5140900,-;text`: facility and level, number, microseconds since boot,
/// flags, text. Lines of `KEY=value` may follow and are ignored
/// (Documentation/ABI/testing/dev-kmsg).
fn parse(record: &str) -> Option<Record> {
    let (head, text) = record.split_once(';')?;
    let mut numbers = head.split(',');
    let prefix: u32 = numbers.next()?.parse().ok()?;
    let number: u64 = numbers.next()?.parse().ok()?;
    let microseconds: u64 = numbers.next()?.parse().ok()?;
    Some(Record {
        number,
        // The lowest three bits are the level.
        facility: prefix >> 3,
        line: LogLine {
            time: microseconds as f64 / 1e6,
            text: text.lines().next()?.to_owned(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns one record per read, as the device does.
    struct Records(Vec<std::io::Result<&'static str>>);

    impl Read for Records {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            if self.0.is_empty() {
                return Err(std::io::ErrorKind::WouldBlock.into());
            }
            let record = self.0.remove(0)?;
            into[..record.len()].copy_from_slice(record.as_bytes());
            Ok(record.len())
        }
    }

    #[test]
    fn records_become_lines_with_their_time() {
        let log = Records(vec![
            Ok("6,339,5140900,-;NET: Registered PF_INET6\n"),
            Err(std::io::ErrorKind::BrokenPipe.into()),
            Ok("12,340,5690716,-,caller=T1;landfall init: x; y\n SUBSYSTEM=usb\n"),
            Ok("30,341,6000000,-;systemd[1]: the password is x\n"),
            Ok("5,342,7000000,-;audit: type=1123 msg=audit(1.2:3): cmd=7375646F\n"),
            Ok("broken\n"),
        ]);
        let found = read_all(log);
        let found = found.iter().map(|record| {
            let LogLine { time, text } = &record.line;
            (*time, text.as_str(), record.is_own())
        });
        assert_eq!(
            found.collect::<Vec<_>>(),
            [
                (5.1409, "NET: Registered PF_INET6", true),
                (5.690_716, "landfall init: x; y", true),
                (6.0, "systemd[1]: the password is x", false),
                (
                    7.0,
                    "audit: type=1123 msg=audit(1.2:3): cmd=7375646F",
                    false
                ),
            ]
        );
    }

    #[test]
    fn lines_of_init_and_agents_have_their_stage() {
        let log = Records(vec![
            Ok("6,339,5140900,-;NET: Registered PF_INET6\n"),
            Ok("15,340,5690716,-;landfall init: landfall 0.1.0 on Linux 6.1\n"),
            Ok("15,341,5790716,-;landfall disk: warning: http://h: late\n"),
            Ok("15,342,5790717,-;landfall\n"),
        ]);
        let found = read_all(log).into_iter().filter_map(Record::into_ours);
        let found: Vec<_> = { found }
            .map(|record| (record.number, record.stage, record.text))
            .collect();
        let line = |number, stage: &str, text: &str| (number, stage.to_owned(), text.to_owned());
        assert_eq!(
            found,
            [
                line(340, "init", "landfall 0.1.0 on Linux 6.1"),
                line(341, "disk", "warning: http://h: late"),
            ]
        );
    }

    proptest::proptest! {
        #[test]
        fn never_panics(record: String) {
            let _ = parse(&record);
        }
    }
}
