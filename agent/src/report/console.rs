//! The consoles of the kernel. Each is served by a thread of its own through a
//! bounded queue: a serial line with flow control held low would otherwise stop
//! the installation.

use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Lines a console may lag behind before lines are dropped on it.
const CONSOLE_QUEUE: usize = 512;

/// The device names in a /proc/consoles text: the first word of each line.
pub(super) fn consoles(path: &Path) -> Vec<PathBuf> {
    let Ok(text) = fs::read_to_string(path) else {
        return vec![PathBuf::from("console")];
    };
    text.lines()
        .filter_map(|line| line.split_whitespace().next())
        .map(PathBuf::from)
        .collect()
}

enum Job {
    Print(String),
    Flush(SyncSender<()>),
}

/// One console with the thread that serves it.
#[derive(Debug)]
pub(super) struct Console {
    queue: SyncSender<Job>,
    dropped: Mutex<u64>,
}

impl Console {
    pub(super) fn open(device: &Path) -> Option<Self> {
        // A console without a device node (netconsole) gets its copy by kmsg.
        let file = OpenOptions::new().write(true).open(device).ok()?;
        let (queue, jobs) = sync_channel(CONSOLE_QUEUE);
        thread::Builder::new()
            .name("console".into())
            .spawn(move || serve_console(file, &jobs))
            .ok()?;
        Some(Self {
            queue,
            dropped: Mutex::new(0),
        })
    }

    pub(super) fn print(&self, text: &str) {
        let mut dropped = self.dropped.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out = String::new();
        if *dropped > 0 {
            let _ = writeln!(out, "({} lines dropped, console too slow)", *dropped);
        }
        out.push_str(text);
        out.push('\n');
        match self.queue.try_send(Job::Print(out)) {
            Ok(()) => *dropped = 0,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => *dropped += 1,
        }
    }

    /// Until all that was said before is printed, at most `bound`.
    pub(super) fn wait_until_printed(&self, bound: Duration) {
        let (done, printed) = sync_channel(1);
        if self.queue.try_send(Job::Flush(done)).is_ok() {
            // Both outcomes mean: go on.
            let _ = printed.recv_timeout(bound);
        }
    }
}

fn serve_console(mut file: File, jobs: &Receiver<Job>) {
    for job in jobs {
        match job {
            Job::Print(text) => {
                // A console that went away has nobody to tell.
                let _ = file.write_all(text.as_bytes());
            }
            Job::Flush(done) => {
                let _ = done.try_send(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_consoles() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("consoles");
        fs::write(
            &path,
            "tty0                 -WU (EC  p  )    4:7\nttyS0                -W- (E   p a)    4:64\n",
        )
        .unwrap();
        assert_eq!(
            consoles(&path),
            [PathBuf::from("tty0"), PathBuf::from("ttyS0")]
        );
    }
}
