//! Merges the lines of the kernel, init and the agent (including those before a
//! restart) by time.

use std::fmt::Write as _;

use landfall_report::LogLine;

/// The prefix of the agent's and init's records in the kernel's log (`report`).
const OURS: &str = "landfall ";
const OF_INIT: &str = "landfall init:";

/// Whether init or an agent wrote this record of the kernel's log.
pub(super) fn is_ours(record: &str) -> bool {
    record.starts_with(OURS)
}

/// Merges the kernel's records with the lines of this agent; the result has at most
/// `most` lines, the latest ones. The kernel's log has copies of this agent's lines,
/// possibly split; the copies are left out. The lines of an agent before a restart exist
/// only in the kernel's log, so they are kept.
pub(super) fn merge(kernel: &[LogLine], agent: &[LogLine], most: Option<usize>) -> String {
    let first = agent.first().map_or(f64::INFINITY, |line| line.time);
    let only_there = |record: &&LogLine| {
        !is_ours(&record.text) || record.text.starts_with(OF_INIT) || record.time < first
    };
    let kernel = kernel.iter().filter(only_there).map(|record| {
        let text = match record.text.strip_prefix(OURS) {
            Some(ours) => format!("landfall: {ours}"),
            None => format!("kernel: {}", record.text),
        };
        (record.time, text)
    });
    let agent = agent
        .iter()
        .map(|line| (line.time, format!("landfall: {}", line.text)));
    let mut all: Vec<(f64, String)> = kernel.chain(agent).collect();
    all.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let skipped = most.map_or(0, |most| all.len().saturating_sub(most));
    lines(
        all[skipped..]
            .iter()
            .map(|(time, text)| (*time, text.as_str())),
    )
}

/// Formats lines: `[   12.345678] text`
pub(super) fn lines<'a>(lines: impl IntoIterator<Item = (f64, &'a str)>) -> String {
    let mut out = String::new();
    for (time, text) in lines {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "[{time:12.6}] {text}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log_line(time: f64, text: &str) -> LogLine {
        let text = text.to_owned();
        LogLine { time, text }
    }

    #[test]
    fn nothing_is_lost_and_nothing_twice() {
        let kernel = [
            log_line(0.0, "Linux version"),
            log_line(1.0, "landfall init: loading"),
            log_line(2.0, "landfall agent: of an earlier life"),
            log_line(5.0, "landfall agent: copy"),
            log_line(6.0, "eth0: link up"),
        ];
        let agent = [log_line(5.0, "agent: copy"), log_line(7.0, "disk: done")];
        assert_eq!(
            merge(&kernel, &agent, None),
            "[    0.000000] kernel: Linux version\n\
             [    1.000000] landfall: init: loading\n\
             [    2.000000] landfall: agent: of an earlier life\n\
             [    5.000000] landfall: agent: copy\n\
             [    6.000000] kernel: eth0: link up\n\
             [    7.000000] landfall: disk: done\n"
        );
        assert_eq!(
            merge(&kernel, &agent, Some(1)),
            "[    7.000000] landfall: disk: done\n"
        );
    }
}
