//! Records who fetched which parts of which file, and when. This shows the operator
//! whether the BMC has read the image.

mod of_hosts;
mod versions;

use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use prometheus_client::metrics::counter::Counter;
use serde::Serialize;

use crate::request_path::FileKind;
pub(crate) use of_hosts::{FileRead, LastRead};
use versions::{Versions, version_of};

/// The number of bytes of an answer after which the table is updated. A slow BMC may need
/// an hour for one answer.
const RECORD_EVERY: u64 = 1 << 20;
/// The largest number of separate ranges that are kept for one file. A BMC reads parts
/// from all over the file, so the ranges that are closest together are joined.
const MAX_RANGES: usize = 16;
/// The largest number of files whose reads are kept. The file that was read least
/// recently is dropped first.
const MAX_FILES: usize = 50_000;

/// What has been read of all files. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Reads(Arc<Mutex<HashMap<(String, FileKind), Versions>>>);

/// What has been read of one version of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FileReads {
    etag: String,
    size: u64,
    requests: u64,
    bytes: u64,
    first: SystemTime,
    last: SystemTime,
    client: IpAddr,
    agent: String,
    /// Sorted. No two of them overlap or touch.
    ranges: Vec<Range<u64>>,
    /// True if ranges were joined across bytes that were not read.
    is_rough: bool,
}

/// One element of `reads` in `/status.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ReadReport {
    pub(crate) host: String,
    pub(crate) file: &'static str,
    pub(crate) etag: String,
    pub(crate) bytes: u64,
    pub(crate) requests: u64,
    pub(crate) bytes_sent: u64,
    /// Whether every byte of this version was sent at least once.
    pub(crate) complete: bool,
    /// First and last byte of each range that was sent.
    pub(crate) ranges: Vec<[u64; 2]>,
    /// Whether a range may contain bytes that were not sent.
    pub(crate) ranges_are_rough: bool,
    pub(crate) first_read: String,
    pub(crate) last_read: String,
    pub(crate) last_client: IpAddr,
    pub(crate) last_user_agent: String,
}

/// What a request asks for.
#[derive(Debug, Clone)]
pub(crate) struct Transfer {
    pub(crate) host: String,
    pub(crate) kind: FileKind,
    pub(crate) etag: String,
    /// The size of the whole file in bytes.
    pub(crate) size: u64,
    pub(crate) client: IpAddr,
    pub(crate) agent: String,
    /// The parts of the file in the answer.
    pub(crate) ranges: Vec<Range<u64>>,
}

/// Counts the bytes that one answer passes on. Adds them to the table while the answer
/// is sent, and at its end.
#[derive(Debug)]
pub(crate) struct Meter {
    reads: Reads,
    transfer: Transfer,
    /// In bytes. The heads between several parts count too, so the last part may be
    /// reported a little too long if a transfer breaks off.
    passed_on: u64,
    /// The number of these bytes that the table already has.
    recorded: u64,
    bytes: Counter,
}

impl Meter {
    pub(crate) fn new(reads: &Reads, transfer: Transfer, bytes: Counter) -> Self {
        Self {
            reads: reads.clone(),
            transfer,
            passed_on: 0,
            recorded: 0,
            bytes,
        }
    }

    pub(crate) fn passed_on(&mut self, bytes: u64) {
        self.passed_on += bytes;
        self.bytes.inc_by(bytes);
        if self.passed_on - self.recorded >= RECORD_EVERY {
            self.record();
        }
    }

    fn record(&mut self) {
        let new = self.recorded..self.passed_on;
        self.reads.add(&self.transfer, new, SystemTime::now());
        self.recorded = self.passed_on;
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        // An answer without bytes counts as a request, too.
        if self.recorded == 0 || self.passed_on > self.recorded {
            self.record();
        }
    }
}

impl Reads {
    /// Adds a part of an answer. `sent` is the range of these bytes within the
    /// answer; the part that begins at 0 also counts the request.
    fn add(&self, transfer: &Transfer, sent: Range<u64>, now: SystemTime) {
        let mut files = self.lock();
        let key = (transfer.host.clone(), transfer.kind);
        if !files.contains_key(&key) && files.len() >= MAX_FILES {
            let last = |versions: &Versions| versions.iter().map(|file| file.last).max();
            let oldest = files.iter().min_by_key(|(_, versions)| last(versions));
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                files.remove(&oldest);
            }
        }
        let file = version_of(files.entry(key).or_default(), transfer, now);
        if sent.start == 0 || file.requests == 0 {
            file.requests += 1;
        }
        file.bytes += sent.end - sent.start;
        file.last = now;
        file.client = transfer.client;
        file.agent.clone_from(&transfer.agent);
        // Where the range begins in the answer.
        let mut at = 0;
        for range in &transfer.ranges {
            let end = at + (range.end - range.start);
            let (first, last) = (sent.start.clamp(at, end), sent.end.clamp(at, end));
            file.cover(range.start + (first - at)..range.start + (last - at));
            at = end;
        }
    }

    /// The reads of all files, sorted by host and file. If several versions of a file
    /// were read, the newest one comes first.
    pub(crate) fn reports(&self) -> Vec<ReadReport> {
        // Copy the table, because every answer that ends waits for this lock.
        let files = self.lock().clone();
        let mut reports: Vec<ReadReport> = files
            .iter()
            .flat_map(|(key, versions)| versions.iter().map(move |file| (key, file)))
            .map(|((host, kind), file)| ReadReport {
                host: host.clone(),
                file: kind.name(),
                etag: file.etag.clone(),
                bytes: file.size,
                requests: file.requests,
                bytes_sent: file.bytes,
                complete: file.is_complete(),
                ranges: file
                    .ranges
                    .iter()
                    .map(|range| [range.start, range.end - 1])
                    .collect(),
                ranges_are_rough: file.is_rough,
                first_read: httpdate::fmt_http_date(file.first),
                last_read: httpdate::fmt_http_date(file.last),
                last_client: file.client,
                last_user_agent: file.agent.clone(),
            })
            .collect();
        reports.sort_by(|a, b| (&a.host, a.file).cmp(&(&b.host, b.file)));
        reports
    }

    /// Forgets the hosts that are not served any more.
    pub fn retain(&self, is_served: impl Fn(&str) -> bool) {
        self.lock()
            .retain(|(host, kind), _| *kind == FileKind::Kernel || is_served(host));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(String, FileKind), Versions>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FileReads {
    fn new(transfer: &Transfer, now: SystemTime) -> Self {
        Self {
            etag: transfer.etag.clone(),
            size: transfer.size,
            requests: 0,
            bytes: 0,
            first: now,
            last: now,
            client: transfer.client,
            agent: String::new(),
            ranges: Vec::new(),
            is_rough: false,
        }
    }

    fn is_complete(&self) -> bool {
        let all = 0..self.size;
        !self.is_rough && matches!(self.ranges.as_slice(), [range] if *range == all)
    }

    /// Adds a range to those that were sent.
    fn cover(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let first = self.ranges.partition_point(|known| known.end < range.start);
        let last = self
            .ranges
            .partition_point(|known| known.start <= range.end);
        let mut joined = range;
        for known in &self.ranges[first..last] {
            joined.start = joined.start.min(known.start);
            joined.end = joined.end.max(known.end);
        }
        self.ranges.splice(first..last, [joined]);
        if self.ranges.len() > MAX_RANGES {
            let gap = |at: &usize| self.ranges[at + 1].start - self.ranges[*at].end;
            if let Some(at) = (0..self.ranges.len() - 1).min_by_key(gap) {
                self.ranges[at].end = self.ranges[at + 1].end;
                self.ranges.remove(at + 1);
                self.is_rough = true;
            }
        }
    }
}

#[cfg(test)]
#[allow(
    clippy::single_range_in_vec_init,
    reason = "one range is also a list of ranges"
)]
mod tests {
    use std::time::Duration;

    use super::versions::{EARLIER_SHOWN, MAX_VERSIONS};
    use super::*;
    use crate::request_path::Kind;
    use proptest::prelude::*;

    fn transfer(etag: &str, ranges: &[Range<u64>]) -> Transfer {
        Transfer {
            host: "node1".to_owned(),
            kind: FileKind::OfHost(Kind::Iso),
            etag: etag.to_owned(),
            size: 100,
            client: IpAddr::from([192, 0, 2, 1]),
            agent: "test".to_owned(),
            ranges: ranges.to_vec(),
        }
    }

    #[test]
    fn reads_are_joined_until_the_file_is_complete() {
        let reads = Reads::default();
        let now = SystemTime::UNIX_EPOCH;
        for (ranges, bytes, expected, complete) in [
            (&[0..10][..], 10, &[[0, 9]][..], false),
            (&[20..30], 10, &[[0, 9], [20, 29]], false),
            // The transfer broke off in the second part.
            (
                &[40..50, 60..70],
                13,
                &[[0, 9], [20, 29], [40, 49], [60, 62]],
                false,
            ),
            (&[10..20], 10, &[[0, 29], [40, 49], [60, 62]], false),
            (&[0..100], 0, &[[0, 29], [40, 49], [60, 62]], false),
            (&[0..100], 100, &[[0, 99]], true),
        ] {
            reads.add(&transfer("a", ranges), 0..bytes, now);
            let reports = &reads.reports()[0];
            assert_eq!(reports.ranges, expected);
            assert_eq!(reports.complete, complete);
        }
        let reports = &reads.reports()[0];
        assert_eq!((reports.requests, reports.bytes_sent), (6, 143));
        assert_eq!(reports.last_read, "Thu, 01 Jan 1970 00:00:00 GMT");
        reads.add(&transfer("b", &[0..1]), 0..1, now);
        assert_eq!(reads.reports()[0].ranges, [[0, 0]], "another version");
        reads.retain(|host| host != "node1");
        assert_eq!(reads.reports(), []);
    }

    /// A BMC may read an earlier version to its end while another client of the host
    /// reads the newest one.
    #[test]
    fn versions_that_are_read_at_the_same_time_do_not_disturb_each_other() {
        let reads = Reads::default();
        let start = SystemTime::UNIX_EPOCH;
        for (sent, at) in [(0..50, 0), (50..100, 100)] {
            let time = start + Duration::from_secs(at);
            for etag in ["a", "b"] {
                reads.add(&transfer(etag, &[0..100]), sent.clone(), time);
            }
        }
        let found = |reads: &Reads| -> Vec<(String, bool, u64)> {
            let reports = reads.reports().into_iter();
            let one = |report: ReadReport| (report.etag, report.complete, report.requests);
            reports.map(one).collect()
        };
        let (a, b) = (("a".to_owned(), true, 1), ("b".to_owned(), true, 1));
        assert_eq!(found(&reads), [b.clone(), a.clone()], "the newest first");
        assert_eq!(reads.of_host("node1").len(), 2);
        // Reading the earlier version does not remove the record of the newest version.
        let late = start + Duration::from_secs(3000);
        reads.add(&transfer("a", &[0..100]), 50..100, late);
        assert_eq!(found(&reads), [b.clone(), a]);
        assert_eq!(reads.last_reads()["node1"].time, late);
        // An earlier version disappears once nobody has read it for some time.
        let end = late + EARLIER_SHOWN;
        reads.add(&transfer("b", &[0..100]), 50..100, end);
        assert_eq!(found(&reads), [b]);
        for n in 0..100 {
            reads.add(&transfer(&n.to_string(), &[0..100]), 0..1, end);
        }
        assert_eq!(reads.reports().len(), MAX_VERSIONS);
    }

    #[test]
    fn a_long_answer_shows_while_it_is_sent() {
        let reads = Reads::default();
        let ranges = [0..1 << 20, 4 << 20..8 << 20];
        let transfer = Transfer {
            size: 10 << 20,
            ..transfer("a", &ranges)
        };
        let mut meter = Meter::new(&reads, transfer, Counter::default());
        meter.passed_on(1000);
        assert_eq!(reads.reports(), []);
        meter.passed_on((2 << 20) - 1000);
        let expected = [[0, (1 << 20) - 1], [4 << 20, (5 << 20) - 1]];
        assert_eq!(reads.reports()[0].ranges, expected);
        meter.passed_on(3 << 20);
        drop(meter);
        let reports = &reads.reports()[0];
        assert_eq!(
            reports.ranges,
            [[0, (1 << 20) - 1], [4 << 20, (8 << 20) - 1]]
        );
        assert_eq!((reports.requests, reports.bytes_sent), (1, 5 << 20));
    }

    proptest! {
        #[test]
        fn few_ranges_cover_everything_that_was_sent(
            sent in proptest::collection::vec((0u64..1000, 1u64..20), 1..200),
        ) {
            let reads = Reads::default();
            for (start, len) in &sent {
                let range = *start..start + len;
                reads.add(&Transfer { size: 2000, ..transfer("a", &[range]) }, 0..*len, SystemTime::now());
            }
            let reports = &reads.reports()[0];
            prop_assert!(reports.ranges.len() <= MAX_RANGES);
            for pair in reports.ranges.windows(2) {
                prop_assert!(pair[0][1] + 1 < pair[1][0]);
            }
            for (start, len) in sent {
                let covers = |range: &[u64; 2]| range[0] <= start && start + len - 1 <= range[1];
                prop_assert!(reports.ranges.iter().any(covers));
            }
        }
    }
}
