//! Temporary files that are removed when the program ends, even by a signal.
//!
//! Destructors do not run if a signal ends the program, and a ramdisk of 100 MB would
//! stay on disk. So every temporary path is in one list, and [`remove_on_signals`]
//! removes the paths in the list. The list is locked while a path is made and while
//! finished files are moved to their final paths. So a signal takes effect before or
//! after such a step, never in between.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal, killpg, raise};
use nix::unistd::Pid;

static LIST: Mutex<List> = Mutex::new(List {
    paths: Vec::new(),
    directories: Vec::new(),
    programs: Vec::new(),
});

pub(crate) struct List {
    /// The files, and the directories with all their content.
    paths: Vec<PathBuf>,
    /// The directories of an unfinished output. They are removed if they are empty.
    directories: Vec<PathBuf>,
    /// The process groups of programs that write to temporary files.
    programs: Vec<Pid>,
}

/// Locks the list. No signal ends the program while the lock is held.
pub(crate) fn locked() -> MutexGuard<'static, List> {
    LIST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file or directory that is removed when this value is dropped.
#[derive(Debug)]
pub struct TemporaryPath(PathBuf);

impl TemporaryPath {
    /// Makes a directory in the directory that TMPDIR names.
    pub fn directory(prefix: &str) -> io::Result<Self> {
        let parent = std::env::temp_dir();
        let mut list = locked();
        let directory = tempfile::Builder::new().prefix(prefix).tempdir_in(parent)?;
        let path = std::path::absolute(directory.keep())?;
        list.paths.push(path.clone());
        Ok(Self(path))
    }

    /// Makes a file in this directory.
    pub fn file(directory: &Path, prefix: &str) -> io::Result<(File, Self)> {
        let mut list = locked();
        let file = tempfile::Builder::new()
            .prefix(prefix)
            .tempfile_in(directory)?;
        let (file, path) = file.keep().map_err(|error| error.error)?;
        list.paths.push(path.clone());
        Ok((file, Self(path)))
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryPath {
    fn drop(&mut self) {
        let mut list = locked();
        // Ignore an error: a destructor cannot report it.
        let _ = remove(&self.0);
        list.paths.retain(|path| *path != self.0);
    }
}

/// Directories that were made for an output. When this value is dropped, those that are
/// empty are removed, unless [`NewDirectories::keep`] was called.
#[derive(Debug, Default)]
pub(crate) struct NewDirectories(Vec<PathBuf>);

impl NewDirectories {
    /// Makes a directory and its missing parents.
    pub(crate) fn make(&mut self, path: &Path) -> io::Result<()> {
        let mut list = locked();
        let missing: Vec<&Path> = path
            .ancestors()
            .filter(|path| !path.as_os_str().is_empty())
            .take_while(|path| !path.is_dir())
            .collect();
        for directory in missing.into_iter().rev() {
            fs::create_dir(directory)?;
            list.directories.push(directory.to_owned());
            self.0.push(directory.to_owned());
        }
        Ok(())
    }

    /// Keeps the directories: from now on neither a signal nor the destructor
    /// removes them.
    pub(crate) fn keep(mut self, list: &mut List) {
        list.directories.retain(|path| !self.0.contains(path));
        self.0.clear();
    }
}

impl Drop for NewDirectories {
    fn drop(&mut self) {
        if self.0.is_empty() {
            return;
        }
        let mut list = locked();
        for directory in self.0.iter().rev() {
            // Removing a directory fails if it is not empty: then it contains files of
            // somebody else.
            let _ = fs::remove_dir(directory);
        }
        list.directories.retain(|path| !self.0.contains(path));
    }
}

/// Runs a program that writes to temporary files. A signal that ends the builder also
/// kills this program.
pub fn run(command: &mut Command) -> io::Result<Output> {
    use std::os::unix::process::CommandExt as _;
    let mut list = locked();
    let child = command
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let group = Pid::from_raw(i32::try_from(child.id()).map_err(io::Error::other)?);
    list.programs.push(group);
    drop(list);
    let output = child.wait_with_output();
    locked().programs.retain(|program| *program != group);
    output
}

/// Makes SIGINT, SIGTERM and SIGHUP remove all temporary files before they end the
/// program. `farewell` gets the name of the signal. Call this before any other
/// thread starts: a thread inherits the signal mask of the thread that starts it.
pub fn remove_on_signals(farewell: fn(&str)) -> io::Result<()> {
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        // nohup(1) starts a program with SIGHUP ignored. Keep it ignored.
        if !is_ignored(signal) {
            signals.add(signal);
        }
    }
    signals.thread_block()?;
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            let Ok(signal) = signals.wait() else {
                return;
            };
            // Never unlock the list. So a thread that wants to make a temporary file
            // waits until the program ends.
            let list = locked();
            for program in &list.programs {
                let _ = killpg(*program, Signal::SIGKILL);
            }
            for path in &list.paths {
                let _ = remove(path);
            }
            for directory in list.directories.iter().rev() {
                let _ = fs::remove_dir(directory);
            }
            farewell(signal.as_str());
            // End by the signal itself, so that the parent process can detect it: `make`
            // and shells check for that.
            let _ = signals.thread_unblock();
            let _ = raise(signal);
            // In a container the program may be PID 1. The kernel does not end PID 1 by
            // its own signal (pid_namespaces(7)), so exit with 128 plus the number of
            // the signal, as a shell does.
            std::process::exit(128 + signal as i32);
        })?;
    Ok(())
}

/// Runs a short piece of work that must not be interrupted: SIGINT, SIGTERM and SIGHUP
/// take effect only after it. The work must not make temporary files.
pub fn without_interruption<T>(work: impl FnOnce() -> T) -> T {
    // The thread that waits for signals needs this lock before it ends the program.
    let _list = locked();
    work()
}

/// Whether the process ignores the signal, according to the mask in
/// proc_pid_status(5).
fn is_ignored(signal: Signal) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal as u32 - 1) & 1 == 1)
}

fn remove(path: &Path) -> io::Result<()> {
    let remove_once = || match path.symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    };
    // A killed program may still create one more file in its directory before it ends, so
    // retry.
    for _ in 0..20 {
        if remove_once().is_ok() {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(50));
    }
    remove_once()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_paths_go_with_their_values() {
        let directory = TemporaryPath::directory("landfall-test-").unwrap();
        let path = directory.path().to_owned();
        let (_, file) = TemporaryPath::file(&path, ".a.").unwrap();
        fs::write(file.path(), "x").unwrap();
        assert!(locked().paths.contains(&path));
        drop(directory);
        drop(file);
        assert!(!path.exists());
        assert!(!locked().paths.contains(&path));
    }

    #[test]
    fn new_directories_go_unless_they_are_kept() {
        let base = tempfile::tempdir().unwrap();
        let deep = base.path().join("a/b/c");
        let mut directories = NewDirectories::default();
        directories.make(&deep).unwrap();
        directories.make(&deep).unwrap();
        assert!(deep.is_dir());
        drop(directories);
        assert!(!base.path().join("a").exists());

        let mut directories = NewDirectories::default();
        directories.make(&deep).unwrap();
        fs::write(base.path().join("a/foreign"), "x").unwrap();
        drop(directories);
        assert!(base.path().join("a/foreign").exists());
        assert!(!base.path().join("a/b").exists());

        let mut directories = NewDirectories::default();
        directories.make(&deep).unwrap();
        directories.keep(&mut locked());
        assert!(deep.is_dir());
    }

    #[test]
    fn a_program_gives_its_output() {
        let output = run(Command::new("sh").args(["-c", "echo a; echo b >&2; exit 3"])).unwrap();
        assert_eq!(output.status.code(), Some(3));
        assert_eq!(
            (&*output.stdout, &*output.stderr),
            (&b"a\n"[..], &b"b\n"[..])
        );
        assert!(locked().programs.is_empty());
    }
}
