//! Reads the kernel's ring buffer, which also has the lines of init and of an agent
//! before a restart.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt as _;

use nix::libc::O_NONBLOCK;

use crate::Said;

/// The maximum size of a record in bytes (`PRINTK_MESSAGE_MAX`).
const RECORD_LIMIT: usize = 8192;
/// The maximum number of records, far more than the largest ring buffer holds. It
/// protects against a log that grows as fast as it is read.
const RECORDS: usize = 100_000;

/// How our own records begin (`Sinks::put`).
const OURS: &str = "landfall ";

/// All records, oldest first. Empty if the log cannot be read.
pub fn records() -> Vec<Said> {
    all().into_iter().map(|record| record.said).collect()
}

/// The records of the kernel itself, of init and of agents, without those of other
/// programs.
pub fn own_records() -> Vec<Said> {
    let records = all().into_iter().filter(Record::is_own);
    records.map(|record| record.said).collect()
}

fn all() -> Vec<Record> {
    let log = OpenOptions::new()
        .read(true)
        .custom_flags(O_NONBLOCK)
        .open("/dev/kmsg");
    log.map(read_all).unwrap_or_default()
}

struct Record {
    /// Zero for the kernel's own records. The kernel gives another facility to the
    /// records of programs (Documentation/ABI/testing/dev-kmsg).
    facility: u32,
    said: Said,
}

impl Record {
    /// False for audit records: the kernel prints them as its own, but they quote the
    /// command lines of programs (kernel/audit.c, `kauditd_printk_skb`).
    fn is_own(&self) -> bool {
        let text = &self.said.text;
        self.facility == 0 && !text.starts_with("audit:") || text.starts_with(OURS)
    }
}

/// Each read returns one record. `EPIPE` means that some records were overwritten
/// meanwhile, `EAGAIN` that there are no more.
fn read_all(mut log: impl Read) -> Vec<Record> {
    let mut record = vec![0; RECORD_LIMIT];
    let mut records = Vec::new();
    for _ in 0..RECORDS {
        match log.read(&mut record) {
            Ok(0) => break,
            Ok(length) => records.extend(parse(&String::from_utf8_lossy(&record[..length]))),
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
            Err(_) => break,
        }
    }
    records
}

/// Parses `6,339,5140900,-;text`, which may be followed by lines of `KEY=value`
/// that are ignored (Documentation/ABI/testing/dev-kmsg).
fn parse(record: &str) -> Option<Record> {
    let (head, text) = record.split_once(';')?;
    let mut numbers = head.split(',');
    let prefix: u32 = numbers.next()?.parse().ok()?;
    let microseconds: u64 = numbers.nth(1)?.parse().ok()?;
    Some(Record {
        // The lowest three bits are the level.
        facility: prefix >> 3,
        said: Said {
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
            let Said { time, text } = &record.said;
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

    proptest::proptest! {
        #[test]
        fn never_panics(record: String) {
            let _ = parse(&record);
        }
    }
}
