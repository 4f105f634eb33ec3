//! Ctrl-C, and the end of the terminal's system, for sub-commands that write a disk.

use std::io;
use std::thread;

use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use crate::critical_section;

/// From here on SIGINT and SIGTERM end the program as before, but a commit that has
/// begun is carried out first.
pub fn after_the_commit() {
    let watch = || {
        if let Err(error) = end_by_signal() {
            tracing::warn!("watching for SIGINT and SIGTERM: {error}; they end a commit, too");
        }
    };
    if let Err(error) = thread::Builder::new()
        .name("signals".to_owned())
        .spawn(watch)
    {
        tracing::warn!("starting thread signals: {error}; a signal ends a commit, too");
    }
}

fn end_by_signal() -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_io().build()?;
    let kind = runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let kind = tokio::select! {
            _ = interrupt.recv() => SignalKind::interrupt(),
            _ = terminate.recv() => SignalKind::terminate(),
        };
        io::Result::Ok(kind)
    })?;
    critical_section::close(|| tracing::warn!("ending after the commit"));
    // As a shell tells of a program that a signal has ended.
    std::process::exit(128 + kind.as_raw_value());
}
