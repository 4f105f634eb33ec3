//! Handles Ctrl-C, a closed terminal and a shutdown, for sub-commands that write a disk.

use std::{fs, io, thread};

use futures_util::future::select_all;
use landfall_disk::critical_section;
use nix::sys::signal::SigSet;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Makes SIGHUP, SIGINT and SIGTERM end the program. During a commit, the program ends
/// only after the commit. A signal that was ignored when the program started, for example
/// by `nohup` or in the background of a script, stays ignored.
pub fn after_the_commit() {
    let started = Watch::begin().and_then(|watch| {
        let thread = thread::Builder::new().name("signals".to_owned());
        thread.spawn(|| watch.end_by_signal())?;
        // Block all signals in this thread. The thread "signals" was started before, so
        // it still receives them. Otherwise the kernel could deliver a signal to this
        // thread while it waits for a disk that does not answer, and the signal would
        // have to wait, too.
        Ok(SigSet::all().thread_block()?)
    });
    if let Err(error) = started {
        tracing::warn!("cannot watch for signals: {error}; a signal can interrupt the commit");
    }
}

/// The signals that are watched from now on.
struct Watch {
    runtime: Runtime,
    signals: Vec<(SignalKind, Signal)>,
}

impl Watch {
    /// Begins to watch for the signals. Call this in the working thread, before the work
    /// begins: on a busy machine another thread might call it too late, and a signal
    /// would end the program in the middle of a commit.
    fn begin() -> io::Result<Self> {
        let ignored = ignored(&fs::read_to_string("/proc/self/status")?);
        let runtime = Builder::new_current_thread().enable_io().build()?;
        let mut signals = Vec::new();
        let guard = runtime.enter();
        for kind in [
            SignalKind::hangup(),
            SignalKind::interrupt(),
            SignalKind::terminate(),
        ] {
            if ignored >> (kind.as_raw_value() - 1) & 1 == 0 {
                signals.push((kind, signal(kind)?));
            }
        }
        drop(guard);
        Ok(Self { runtime, signals })
    }

    fn end_by_signal(self) {
        let Self { runtime, signals } = self;
        let kind = runtime.block_on(async {
            if signals.is_empty() {
                std::future::pending::<()>().await;
            }
            let arrivals = signals.into_iter().map(|(kind, mut signal)| {
                Box::pin(async move {
                    signal.recv().await;
                    kind
                })
            });
            select_all(arrivals).await.0
        });
        critical_section::close(|| tracing::warn!("ending after the commit"));
        // Exit with the code that a shell reports for a program that was ended by this
        // signal.
        std::process::exit(128 + kind.as_raw_value());
    }
}

/// The ignored signals as a bit mask; the lowest bit is signal 1 (proc(5), `SigIgn` of
/// /proc/PID/status).
fn ignored(status: &str) -> u64 {
    let mut lines = status.lines();
    let mask = lines.find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_as_the_kernel_writes_them() {
        let status = "SigBlk:\t0000000000000000\nSigIgn:\t0000000000001003\n";
        assert_eq!(ignored(status), 0x1003);
        assert_eq!(ignored("SigIgn:\n"), 0);
        assert_eq!(ignored(""), 0);
    }
}
