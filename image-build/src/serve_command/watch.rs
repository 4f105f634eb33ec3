//! Notices changes in directories.
//!
//! The watch is on directories, not on files: editors replace files, and Kubernetes
//! replaces a link (`..data`) when a ConfigMap changes.

use std::collections::{BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::{Instant, sleep_until};

use crate::report;

/// How long the files must stay unchanged before they are read, so that a change of
/// many files causes one reload.
const QUIET: Duration = Duration::from_millis(250);
/// How long a reload waits for a program that has begun to write a file and writes
/// nothing more.
const UNFINISHED: Duration = Duration::from_secs(10);
/// The longest wait from the first change to the reload, if changes never end.
const LONGEST: Duration = Duration::from_secs(30);
/// How often the paths are compared with what is watched: if a directory is renamed,
/// or a link to it is changed, the kernel goes on watching the old directory.
const CHECK: Duration = Duration::from_secs(2);

/// A directory, and its files that matter; `None`: all of them.
pub(super) type Place = (PathBuf, Option<BTreeSet<OsString>>);

pub(super) struct Watch {
    inotify: Arc<Inotify>,
    events: Receiver<Result<Vec<InotifyEvent>, Errno>>,
    places: Vec<Watched>,
    /// The times of the first and the last change that have not been reported yet.
    changes: Option<(Instant, Instant)>,
    /// Files that are being written, and when they changed last.
    unfinished: HashMap<PathBuf, Instant>,
    next_check: Instant,
    is_broken: bool,
}

struct Watched {
    directory: PathBuf,
    files: Option<BTreeSet<OsString>>,
    /// The watch, and device and inode of what it watches. `None` if there is nothing
    /// to watch now.
    on: Option<(WatchDescriptor, [u64; 2])>,
    /// Whether the user has been warned that there is nothing to watch.
    is_reported: bool,
}

impl Watched {
    /// Whether a change of this file matters.
    fn concerns(&self, name: &OsStr) -> bool {
        // A change of Kubernetes' link `..data` matters. All other hidden files are
        // temporary files of editors.
        if name.as_bytes().starts_with(b".") {
            return name.as_bytes().starts_with(b"..");
        }
        self.files.as_ref().is_none_or(|files| files.contains(name))
    }
}

impl Watch {
    /// Watches directories; `None` if there are none.
    pub(super) fn of(places: Vec<Place>) -> Result<Option<Self>> {
        if places.is_empty() {
            return Ok(None);
        }
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC).context("cannot watch directories")?;
        let inotify = Arc::new(inotify);
        let unwatched = |(directory, files)| Watched {
            directory,
            files,
            on: None,
            is_reported: false,
        };
        let mut watch = Self {
            events: events(Arc::clone(&inotify))?,
            inotify,
            places: places.into_iter().map(unwatched).collect(),
            changes: None,
            unfinished: HashMap::new(),
            next_check: Instant::now() + CHECK,
            is_broken: false,
        };
        for at in 0..watch.places.len() {
            let directory = watch.places[at].directory.clone();
            let on = watch.add(&directory);
            let on = on.with_context(|| format!("cannot watch {}", directory.display()))?;
            watch.places[at].on = Some(on);
        }
        Ok(Some(watch))
    }

    fn add(&self, directory: &Path) -> io::Result<(WatchDescriptor, [u64; 2])> {
        let events = AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_MODIFY
            | AddWatchFlags::IN_CLOSE_WRITE
            | AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_MOVED_FROM
            | AddWatchFlags::IN_MOVED_TO
            | AddWatchFlags::IN_MOVE_SELF
            | AddWatchFlags::IN_DELETE_SELF
            | AddWatchFlags::IN_ONLYDIR;
        // Get the identity before adding the watch: if the directory is replaced in
        // between, the next check finds another inode.
        let identity = identity(directory)?;
        let descriptor = self.inotify.add_watch(directory, events)?;
        Ok((descriptor, identity))
    }

    /// Returns after a change, as soon as no more changes follow and no file is half
    /// written, but at the latest [`LONGEST`] after the first change. May be cancelled at
    /// any time.
    pub(super) async fn changed(&mut self) {
        loop {
            if self.is_broken {
                return std::future::pending().await;
            }
            let now = Instant::now();
            if now >= self.next_check {
                self.check(now);
            }
            self.unfinished.retain(|_, last| now < *last + UNFINISHED);
            let mut until = self.next_check;
            if let Some((first, last)) = self.changes {
                let due = match self.unfinished.values().max() {
                    Some(written) => *written + UNFINISHED,
                    None => last + QUIET,
                };
                let due = due.min(first + LONGEST);
                if now >= due {
                    self.changes = None;
                    return;
                }
                until = until.min(due);
            }
            tokio::select! {
                events = self.events.recv() => match events {
                    Some(Ok(events)) => events.iter().for_each(|event| self.note(event)),
                    Some(Err(error)) => self.end(&error.into()),
                    None => self.end(&io::Error::other("its thread has ended")),
                },
                () = sleep_until(until) => {}
            }
        }
    }

    fn note(&mut self, event: &InotifyEvent) {
        let Some(name) = &event.name else {
            // The directory itself has moved or is gone, or events were lost. After that
            // a new directory can have the same inode, so an equal inode does not prove
            // that the watch is still right.
            for place in &mut self.places {
                if place.on.is_some_and(|(watch, _)| watch == event.wd) {
                    place.on = None;
                }
            }
            if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
                self.unfinished.clear();
                self.changed_now();
            }
            return;
        };
        let is_watched = |place: &&Watched| place.on.is_some_and(|(watch, _)| watch == event.wd);
        let mut places = self.places.iter().filter(is_watched);
        let Some(place) = places.find(|place| place.concerns(name)) else {
            return;
        };
        let path = place.directory.join(name);
        let begins = AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MODIFY;
        if event.mask.intersects(begins) && is_written_in_place(&path) {
            self.unfinished.insert(path, Instant::now());
        } else {
            self.unfinished.remove(&path);
            self.changed_now();
        }
    }

    fn changed_now(&mut self) {
        let now = Instant::now();
        let first = self.changes.map_or(now, |(first, _)| first);
        self.changes = Some((first, now));
    }

    /// Compares each path with the directory that is watched for it, and renews the watch
    /// if the path now leads to another directory.
    fn check(&mut self, now: Instant) {
        self.next_check = now + CHECK;
        for at in 0..self.places.len() {
            let place = &mut self.places[at];
            let there = identity(&place.directory).ok();
            if there.is_some() && place.on.map(|(_, known)| known) == there {
                continue;
            }
            let old = place.on.take();
            let directory = place.directory.clone();
            let result = self.add(&directory);
            let shown = directory.display();
            match result {
                Ok(on) => {
                    self.places[at].on = Some(on);
                    self.places[at].is_reported = false;
                    self.changed_now();
                }
                Err(error) if !self.places[at].is_reported => {
                    self.places[at].is_reported = true;
                    report::warn(&format!(
                        "cannot watch {shown}: {error}; all hosts keep their old content"
                    ));
                }
                Err(_) => {}
            }
            if let Some((watch, _)) = old {
                self.remove(watch);
            }
        }
    }

    /// Ends a watch that no other place has.
    fn remove(&self, watch: WatchDescriptor) {
        let mut all = self.places.iter().filter_map(|place| place.on);
        if !all.any(|(other, _)| other == watch) {
            // An error means that the kernel has already removed the watch.
            let _ = self.inotify.rm_watch(watch);
        }
    }

    fn end(&mut self, error: &io::Error) {
        self.is_broken = true;
        report::warn(&format!(
            "cannot watch directories any more: {error} -- send SIGHUP after changes"
        ));
    }
}

/// Reads events until an error. Nobody joins the thread: it blocks in a system call until
/// the program exits.
fn events(inotify: Arc<Inotify>) -> Result<Receiver<Result<Vec<InotifyEvent>, Errno>>> {
    let (sender, receiver) = channel(16);
    let read = move || {
        loop {
            let events = inotify.read_events();
            if matches!(events, Err(Errno::EINTR)) {
                continue;
            }
            let is_last = events.is_err();
            if sender.blocking_send(events).is_err() || is_last {
                return;
            }
        }
    };
    thread::Builder::new()
        .name("watch".to_owned())
        .spawn(read)
        .context("cannot start the thread that watches directories")?;
    Ok(receiver)
}

fn identity(directory: &Path) -> io::Result<[u64; 2]> {
    let found = fs::metadata(directory)?;
    Ok([found.dev(), found.ino()])
}

/// Whether a change of this file is complete only when the program that writes it closes
/// it. Symbolic and hard links are complete at once.
fn is_written_in_place(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_file() && found.nlink() == 1)
}

/// Returns after a change; waits forever if `watch` is `None`.
pub(super) async fn changed(watch: Option<&mut Watch>) {
    match watch {
        Some(watch) => watch.changed().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Write as _;
    use tokio::time::timeout;

    const TIMEOUT: Duration = Duration::from_secs(20);

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(test);
    }

    async fn is_reported(watch: &mut Watch) {
        timeout(TIMEOUT, watch.changed()).await.unwrap();
    }

    async fn is_not_reported(watch: &mut Watch) {
        is_not_reported_within(watch, QUIET * 3).await;
    }

    async fn is_not_reported_within(watch: &mut Watch, time: Duration) {
        assert!(timeout(time, watch.changed()).await.is_err());
    }

    #[test]
    fn a_half_written_file_delays_the_report() {
        run(async {
            let directory = tempfile::tempdir().unwrap();
            let path = |name: &str| directory.path().join(name);
            fs::write(path("node7.yaml"), "interfaces: []").unwrap();
            let mut watch = Watch::of(vec![(directory.path().to_owned(), None)])
                .unwrap()
                .unwrap();
            // As a shell does with `>`: the file is empty, and the program still works.
            let mut slow = File::create(path("node7.yaml")).unwrap();
            fs::write(path("node1.yaml"), "x").unwrap();
            is_not_reported(&mut watch).await;
            slow.write_all(b"y").unwrap();
            is_not_reported(&mut watch).await;
            drop(slow);
            is_reported(&mut watch).await;
            // A new file is not reported before it is closed, either.
            let slow = File::create(path("node8.yaml")).unwrap();
            fs::write(path("node1.yaml"), "x").unwrap();
            is_not_reported(&mut watch).await;
            drop(slow);
            is_reported(&mut watch).await;
            // Editors' files and directories do not count.
            fs::write(path(".node1.yaml.swp"), "x").unwrap();
            is_not_reported(&mut watch).await;
            std::os::unix::fs::symlink("x", path("link.yaml")).unwrap();
            is_reported(&mut watch).await;
        });
    }

    #[test]
    fn a_replaced_directory_is_watched_again() {
        run(async {
            let top = tempfile::tempdir().unwrap();
            let path = |name: &str| top.path().join(name);
            for name in ["a", "b", "c"] {
                fs::create_dir(path(name)).unwrap();
            }
            std::os::unix::fs::symlink("b", path("link")).unwrap();
            let places = vec![(path("a"), None), (path("link"), None)];
            let mut watch = Watch::of(places).unwrap().unwrap();
            fs::rename(path("a"), path("old")).unwrap();
            fs::create_dir(path("a")).unwrap();
            is_reported(&mut watch).await;
            fs::write(path("a/node1.yaml"), "x").unwrap();
            is_reported(&mut watch).await;
            fs::write(path("old/node1.yaml"), "x").unwrap();
            is_not_reported(&mut watch).await;
            // As git-sync does.
            std::os::unix::fs::symlink("c", path("new")).unwrap();
            fs::rename(path("new"), path("link")).unwrap();
            is_reported(&mut watch).await;
            fs::write(path("c/node1.yaml"), "x").unwrap();
            is_reported(&mut watch).await;
            // Removed, and made again later.
            fs::remove_dir_all(path("a")).unwrap();
            is_reported(&mut watch).await;
            tokio::time::sleep(CHECK).await;
            is_not_reported(&mut watch).await;
            fs::create_dir(path("a")).unwrap();
            is_reported(&mut watch).await;
        });
    }

    #[test]
    fn changes_without_end_are_reported() {
        run(async {
            let directory = tempfile::tempdir().unwrap();
            let names = BTreeSet::from(["site.conf".into()]);
            let place = (directory.path().to_owned(), Some(names));
            let mut watch = Watch::of(vec![place]).unwrap().unwrap();
            let path = directory.path().join("site.conf");
            fs::write(directory.path().join("other.log"), "x").unwrap();
            is_not_reported(&mut watch).await;
            // As if the first of many changes had been long ago.
            fs::write(path, "x").unwrap();
            is_not_reported_within(&mut watch, QUIET / 4).await;
            let (first, last) = watch.changes.unwrap();
            watch.changes = first
                .checked_sub(LONGEST)
                .map(|long_ago| (long_ago, last + QUIET * 100));
            timeout(Duration::from_millis(200), watch.changed())
                .await
                .unwrap();
        });
    }
}
