//! `ps`: the running processes. In our ramdisk these are init, the agent and kernel
//! threads.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use nix::unistd::{SysconfVar, sysconf};

/// A process according to /proc/PID/stat (proc(5)).
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    name: String,
    state: String,
    ticks: u64,
    virtual_bytes: u64,
    resident_pages: u64,
}

/// The maximum number of processes to list. A live system may have many.
const MOST: usize = 4096;

/// One line per process, sorted by PID.
pub(super) fn ps(proc: &Path) -> String {
    let mut out = format!(
        "{:>5} {:>7} {:>10} {:>10} {:<4} {:>8} COMMAND\n",
        "UID", "PID", "VSZ", "RSS", "STAT", "TIME"
    );
    let entries = fs::read_dir(proc).map(|entries| entries.flatten().collect::<Vec<_>>());
    let mut numbers: Vec<u32> = entries
        .unwrap_or_default()
        .iter()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    numbers.sort_unstable();
    // Kernels for aarch64 servers may have pages of 64 KiB.
    let page_size = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
    let page_kib = page_size
        .and_then(|size| u64::try_from(size).ok())
        .unwrap_or(4096)
        >> 10;
    for number in numbers.into_iter().take(MOST) {
        let directory = proc.join(number.to_string());
        // The process may have ended meanwhile.
        let Some(stat) = fs::read_to_string(directory.join("stat"))
            .ok()
            .as_deref()
            .and_then(parse)
        else {
            continue;
        };
        let uid = fs::metadata(&directory).map_or(0, |metadata| metadata.uid());
        // USER_HZ, the unit that Linux shows to programs, is always 100.
        let seconds = stat.ticks / 100;
        let _ = writeln!(
            out,
            "{uid:>5} {number:>7} {:>10} {:>10} {:<4} {:>5}:{:02} {}",
            stat.virtual_bytes >> 10,
            stat.resident_pages * page_kib,
            stat.state,
            seconds / 60,
            seconds % 60,
            command(&directory).unwrap_or(format!("[{}]", stat.name)),
        );
    }
    out
}

/// The command line of a process; `None` for a kernel thread, which has no command line.
fn command(directory: &Path) -> Option<String> {
    let bytes = fs::read(directory.join("cmdline")).ok()?;
    let words = String::from_utf8_lossy(&bytes).replace('\0', " ");
    let words = words.trim_end();
    (!words.is_empty()).then(|| words.to_owned())
}

/// Parses `PID (name) S ...`. The name may contain any character, even parentheses.
fn parse(stat: &str) -> Option<Stat> {
    let (head, tail) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
    // The manual counts fields from 1, and the state is field 3.
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(Stat {
        name: head.split_once('(')?.1.to_owned(),
        state: (*fields.first()?).to_owned(),
        ticks: number(14)? + number(15)?,
        virtual_bytes: number(23)?,
        resident_pages: number(24)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_read_with_any_process_name() {
        let stat =
            parse("12 (a) b) S 1 12 12 0 -1 4194560 1 0 0 0 150 50 0 0 20 0 1 0 5 8192000 300 184");
        assert_eq!(
            stat,
            Some(Stat {
                name: "a) b".into(),
                state: "S".into(),
                ticks: 200,
                virtual_bytes: 8_192_000,
                resident_pages: 300,
            })
        );
        assert_eq!(parse("12 (a"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn this_process_is_listed() {
        let out = ps(Path::new("/proc"));
        let own = std::process::id().to_string();
        assert!(
            out.lines()
                .any(|line| line.split_whitespace().nth(1) == Some(&own)),
            "{out}"
        );
    }
}
