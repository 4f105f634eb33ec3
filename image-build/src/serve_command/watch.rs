//! Notices changes in directories.
//!
//! The watch is on directories, not on files: editors replace files, and Kubernetes
//! replaces a link (`..data`) when a ConfigMap changes.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::timeout;

/// How long it must be quiet before the files are read: a change of many files then
/// causes one reload.
const QUIET: Duration = Duration::from_millis(250);

/// Watches directories; `None` if there are none.
pub(super) fn of(directories: &[PathBuf]) -> Result<Option<Receiver<()>>> {
    if directories.is_empty() {
        return Ok(None);
    }
    let events = AddWatchFlags::IN_CLOSE_WRITE
        | AddWatchFlags::IN_DELETE
        | AddWatchFlags::IN_MOVED_FROM
        | AddWatchFlags::IN_MOVED_TO
        | AddWatchFlags::IN_ONLYDIR;
    let inotify = Inotify::init(InitFlags::IN_CLOEXEC).context("cannot watch directories")?;
    for directory in directories {
        inotify
            .add_watch(directory, events)
            .with_context(|| format!("cannot watch {}", directory.display()))?;
    }
    let (sender, receiver) = channel(1);
    // The thread ends with the program: it waits in a system call.
    thread::Builder::new()
        .name("watch".to_owned())
        .spawn(move || {
            while inotify.read_events().is_ok() {
                // A full queue already holds a change.
                if let Err(tokio::sync::mpsc::error::TrySendError::Closed(())) = sender.try_send(())
                {
                    return;
                }
            }
        })
        .context("cannot start the thread that watches directories")?;
    Ok(Some(receiver))
}

/// Returns after a change, as soon as no more changes follow.
pub(super) async fn changed(changes: Option<&mut Receiver<()>>) {
    let Some(changes) = changes else {
        return std::future::pending().await;
    };
    if changes.recv().await.is_none() {
        return std::future::pending().await;
    }
    while let Ok(Some(())) = timeout(QUIET, changes.recv()).await {}
}
