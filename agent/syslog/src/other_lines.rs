//! The log lines that other processes have written in this boot: init, which also writes
//! while this agent runs, and an agent before a restart. They come from the kernel's log.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use landfall_report::Event;
use landfall_report::kernel_log::{OurRecord, PART, follow, our_records};
use landfall_sys::state_file::StateFile;
use tokio::sync::Notify;
use tokio::sync::mpsc::{Receiver, channel};
use tracing::Level;

/// The name of the state file. It contains the number of the last record of the kernel's
/// log whose line was sent. After a restart, the agent sends the lines after that record.
const NAME: &str = "syslog-sent";

/// The stage of init's lines.
const INIT: &str = "init";
/// The maximum number of init's lines that wait for the server. Further lines are
/// dropped.
const MOST: usize = 1000;

/// The lines of other processes that are not sent yet.
pub(super) struct OtherLines {
    /// The lines that init writes after `of_this_boot` has read the kernel's log.
    new: Receiver<OurRecord>,
    waiting: VecDeque<Event>,
    /// The number of the last landfall record in the kernel's log, including records of
    /// this process. Zero if there are no such records.
    newest: Arc<AtomicU64>,
    /// Notified after every new landfall record, including records of this process.
    grown: Arc<Notify>,
    /// `read` is the number of the last record that was read, zero if there is none.
    /// `stored` is the number in the state file, `None` if there is no valid file.
    read: u64,
    stored: Option<u64>,
    state: StateFile,
}

impl OtherLines {
    /// Reads the lines that are in the kernel's log, and starts to follow the log.
    /// `directory` contains the state of this boot; `first` is the first event of this
    /// process.
    pub(super) fn of_this_boot(directory: &Path, first: Option<&Event>) -> Self {
        let state = StateFile::new(directory, NAME);
        let stored = state.load().ok().flatten();
        let stored = stored.and_then(|bytes| String::from_utf8(bytes).ok()?.parse().ok());
        let records = our_records();
        let last = records.last().map(|record| record.number);
        let newest = Arc::new(AtomicU64::new(last.unwrap_or(0)));
        let (written, new) = channel(MOST);
        let grown = Arc::new(Notify::new());
        let (newest_read, notified) = (Arc::clone(&newest), Arc::clone(&grown));
        follow(last, move |record| {
            let number = record.number;
            if record.stage == INIT {
                // If the channel is full, the line is dropped.
                let _ = written.try_send(record);
            }
            // Store the number after the line is in the channel: a reader that sees the
            // number also gets the line.
            newest_read.store(number, Ordering::Release);
            notified.notify_one();
            !written.is_closed()
        });
        let mut lines = Self {
            new,
            waiting: VecDeque::new(),
            newest,
            grown,
            read: 0,
            stored,
            state,
        };
        lines.take(&records, first);
        lines
    }

    fn take(&mut self, records: &[OurRecord], first: Option<&Event>) {
        let own = records.len() - own_part(records, first).len();
        let is_new = |record: &OurRecord| self.stored.is_none_or(|sent| record.number > sent);
        let lines = { records.iter().enumerate() }
            .filter(|(at, record)| is_new(record) && (*at < own || record.stage == INIT))
            .map(|(_, record)| event(record));
        self.waiting.extend(lines);
        self.read = records.last().map_or(0, |record| record.number);
    }

    /// The next line that is not sent yet.
    pub(super) fn first(&self) -> Option<&Event> {
        self.waiting.front()
    }

    pub(super) fn remove_first(&mut self) {
        self.waiting.pop_front();
    }

    /// Takes the lines that init has written since the last call.
    pub(super) fn take_new(&mut self) {
        self.read = self.newest.load(Ordering::Acquire);
        while let Ok(record) = self.new.try_recv() {
            self.waiting.push_back(event(&record));
        }
    }

    /// Records that all lines read so far have been sent, including the lines of this
    /// process.
    pub(super) fn all_sent(&mut self) {
        if self.stored != Some(self.read) {
            // Ignore an error: a warning about it would be a further line, after which
            // the file is written again. Without the file, an agent sends some lines a
            // second time after a restart.
            let _ = self.state.store(self.read.to_string().as_bytes());
            self.stored = Some(self.read);
        }
    }

    /// Waits until init or this process has written a line. A line of this process also
    /// counts: when its record is in the kernel's log, its number can be stored as sent.
    pub(super) async fn changed(&self) {
        self.grown.notified().await;
    }
}

/// The records from the first line of this process on. `first` is that line. If `first`
/// is `None`, this process has written no line, and the result is empty. If no record
/// contains `first`, all records are returned.
fn own_part<'a>(records: &'a [OurRecord], first: Option<&Event>) -> &'a [OurRecord] {
    let Some(first) = first else { return &[] };
    let text: String = first.graded().chars().take(PART).collect();
    let is_first = |record: &OurRecord| record.stage == first.stage && record.text == text;
    // An agent before a restart may have begun with the same line, so take the last
    // record with this text.
    let at = records.iter().rposition(is_first);
    &records[at.unwrap_or(0)..]
}

fn event(record: &OurRecord) -> Event {
    let (level, text) = match record.text.split_once(' ') {
        Some(("FAILED", text)) => (Level::ERROR, text),
        Some(("warning:", text)) => (Level::WARN, text),
        _ => (Level::INFO, record.text.as_str()),
    };
    Event {
        sequence: 0,
        time: record.time,
        stage: record.stage.clone(),
        level,
        text: text.to_owned(),
        progress: None,
    }
}

#[cfg(test)]
impl OtherLines {
    /// Creates a source of these lines only, without the kernel's log.
    pub(super) fn of(waiting: VecDeque<Event>) -> Self {
        Self {
            new: channel(1).1,
            waiting,
            newest: Arc::default(),
            grown: Arc::default(),
            read: 0,
            stored: None,
            state: StateFile::nowhere(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records() -> Vec<OurRecord> {
        let lines = [
            ("init", "landfall 0.1.0 on Linux 6.1"),
            ("init", "FAILED cannot mount /sys: x"),
            ("settings", "ipa-debug = 1"),
            ("network", "warning: eth0 has no carrier"),
            ("init", "FAILED the agent ended with code 1"),
            ("settings", "ipa-debug = 1"),
            ("init", "14 kernel modules loaded"),
            ("network", "eth0 found"),
        ];
        let numbered = lines.into_iter().zip(7..);
        let record = |((stage, text), number): ((&str, &str), u32)| OurRecord {
            number: number.into(),
            time: number.into(),
            stage: stage.to_owned(),
            text: text.to_owned(),
        };
        numbered.map(record).collect()
    }

    fn first_event() -> Event {
        Event {
            sequence: 1,
            time: 12.1,
            stage: "settings".to_owned(),
            level: Level::INFO,
            text: "ipa-debug = 1".to_owned(),
            progress: None,
        }
    }

    /// The lines that wait, as `LEVEL STAGE: TEXT`.
    fn waiting(sent: Option<u64>, first: Option<&Event>) -> Vec<String> {
        let mut lines = OtherLines::of(VecDeque::new());
        lines.stored = sent;
        lines.take(&records(), first);
        assert_eq!(lines.read, 14);
        let line = |event: &Event| format!("{} {}: {}", event.level, event.stage, event.text);
        lines.waiting.iter().map(line).collect()
    }

    #[test]
    fn lines_of_init_and_of_an_earlier_agent_are_sent_but_none_of_this_one() {
        assert_eq!(
            waiting(None, Some(&first_event())),
            [
                "INFO init: landfall 0.1.0 on Linux 6.1",
                "ERROR init: cannot mount /sys: x",
                "INFO settings: ipa-debug = 1",
                "WARN network: eth0 has no carrier",
                "ERROR init: the agent ended with code 1",
                "INFO init: 14 kernel modules loaded",
            ]
        );
    }

    #[test]
    fn lines_sent_by_an_earlier_agent_are_not_repeated() {
        let sent_before_the_end = waiting(Some(9), Some(&first_event()));
        assert_eq!(
            sent_before_the_end,
            [
                "WARN network: eth0 has no carrier",
                "ERROR init: the agent ended with code 1",
                "INFO init: 14 kernel modules loaded",
            ]
        );
        assert_eq!(waiting(Some(14), Some(&first_event())), [""; 0]);
    }

    #[test]
    fn a_line_that_the_log_does_not_have_hides_no_line_of_init() {
        let unknown = Event {
            text: "never written".to_owned(),
            ..first_event()
        };
        let lines = waiting(None, Some(&unknown));
        assert_eq!(lines.len(), 4, "{lines:?}");
        assert!(lines.iter().all(|line| line.contains(" init: ")));
        assert_eq!(waiting(None, None).len(), records().len());
    }

    #[tokio::test]
    async fn later_lines_of_init_are_read_and_sent_lines_are_remembered() {
        use std::io::Write as _;
        let Ok(mut kmsg) = std::fs::OpenOptions::new().write(true).open("/dev/kmsg") else {
            return landfall_sys::skip::skip("this test cannot write to /dev/kmsg");
        };
        let directory = tempfile::tempdir().unwrap();
        let mut lines = OtherLines::of_this_boot(directory.path(), Some(&first_event()));
        let text = format!("a line of the test {}", std::process::id());
        let is_mine = |event: &Event| event.text == text;
        assert!(!lines.waiting.iter().any(is_mine));
        // Priority 15 is debug: no console of this machine shows the line. Each write is
        // a record.
        let record = format!("<15>landfall init: {text}\n");
        kmsg.write_all(record.as_bytes()).unwrap();
        let limit = std::time::Duration::from_secs(30);
        let arrives = async {
            while !lines.waiting.iter().any(is_mine) {
                lines.changed().await;
                lines.take_new();
            }
        };
        tokio::time::timeout(limit, arrives).await.unwrap();
        lines.all_sent();
        let again = OtherLines::of_this_boot(directory.path(), Some(&first_event()));
        assert!(!again.waiting.iter().any(is_mine), "it is sent again");
    }
}
