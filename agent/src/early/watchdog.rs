//! Hardware watchdogs that the firmware, or the system before this one, has
//! started. Nobody else feeds them: without this they reset the machine in the
//! middle of an installation.
//!
//! A watchdog that does not run is not started. From the moment its driver is
//! loaded the kernel feeds a running one (`handle_boot_enabled`), as long as the
//! kernel is alive; this takes over, so that a hanging agent is noticed, too, and an
//! end of the boot that does not come. If init dies, its descriptors close and
//! nobody feeds any more.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::supervise::Supervisor;
use crate::sys::uevent::{Action, Received, UeventSocket};
use crate::sys::watchdog_ioctl::set_timeout;

/// After this time without food the machine is reset. Shorter ones are hard to
/// keep on a machine without free memory.
const TIMEOUT_SECONDS: i32 = 60;
const FEED: Duration = Duration::from_secs(10);
/// What a system has that is started without firmware (kexec), until it has loaded
/// the driver and feeds: the longest of these that the hardware can. The driver of an
/// installed system may come after Ignition, which fetches files.
const NEXT_SYSTEM_SECONDS: [i32; 3] = [600, 300, 120];
/// The driver announces the device before it has finished loading.
const SETTLE: Duration = Duration::from_secs(1);

/// Feeds running watchdogs while the agent makes progress, on a thread of its own.
pub(super) fn feed_in_background(supervisor: &Arc<Supervisor>) {
    let supervisor = Arc::clone(supervisor);
    super::spawn("watchdog", "the kernel alone feeds a watchdog", move || {
        if let Err(error) = feed(&supervisor) {
            tracing::warn!("watchdogs: {error}; the kernel alone feeds them");
        }
    });
}

fn feed(supervisor: &Supervisor) -> std::io::Result<()> {
    let socket = UeventSocket::open()?;
    let mut fed = HashMap::new();
    let mut look_at = Some(Instant::now() + SETTLE);
    let mut hangs = false;
    loop {
        let now = Instant::now();
        let look_in = look_at.map(|at| at.saturating_duration_since(now));
        let timeout = match (look_in, fed.is_empty()) {
            (Some(look_in), _) => Some(look_in.min(FEED)),
            (None, false) => Some(FEED),
            // Nothing to feed: an event is all that can change this.
            (None, true) => None,
        };
        match socket.recv(timeout)? {
            Received::Event(event)
                if event.action == Action::Add && event.subsystem() == "watchdog" =>
            {
                look_at = Some(Instant::now() + SETTLE);
            }
            Received::Event(_) | Received::TimedOut => {}
            Received::Lost => look_at = Some(Instant::now() + SETTLE),
        }
        let now = Instant::now();
        if look_at.is_some_and(|at| at <= now) {
            // A driver that is still loading is looked at again.
            let class = Path::new("/sys/class/watchdog");
            let loading = take_over_running(class, &mut fed, &supervisor.fed_watchdogs);
            look_at = loading.then(|| now + SETTLE);
        }
        match supervisor.progress.hangs_since(now) {
            None => {
                hangs = false;
                fed.values_mut().for_each(Watchdog::feed);
            }
            Some((what, silence)) if !hangs && !fed.is_empty() => {
                hangs = true;
                tracing::error!(
                    "{what} for {} s -- the watchdog resets this machine",
                    silence.as_secs()
                );
            }
            Some(_) => {}
        }
    }
}

struct Watchdog {
    file: File,
    fed_at: Option<Instant>,
}

impl Watchdog {
    fn feed(&mut self) {
        let now = Instant::now();
        if self
            .fed_at
            .is_some_and(|at| now.duration_since(at) < FEED / 2)
        {
            return;
        }
        self.fed_at = Some(now);
        // Any byte but `V`, which announces an orderly close. An error is that of
        // a device that is gone.
        let _ = self.file.write(b"1");
    }
}

/// The watchdogs that are fed, for the end of the boot.
#[derive(Debug, Default)]
pub(super) struct FedWatchdogs(Mutex<Vec<File>>);

impl FedWatchdogs {
    fn lock(&self) -> MutexGuard<'_, Vec<File>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, file: &File) {
        match file.try_clone() {
            Ok(file) => self.lock().push(file),
            Err(error) => tracing::warn!(
                "watchdog: {error}; a system started by kexec has {TIMEOUT_SECONDS} s to feed it"
            ),
        }
    }

    /// Gives a system that is started without firmware the time to feed them itself:
    /// no firmware stops them in between, and some drivers do not either.
    pub(super) fn leave_time_for_next_system(&self) {
        for mut file in &*self.lock() {
            let set = |seconds: &i32| set_timeout(file, *seconds).ok();
            if let Some(seconds) = NEXT_SYSTEM_SECONDS.iter().find_map(set) {
                tracing::info!("the watchdog resets this machine if it is not fed in {seconds} s");
            }
            // As in `Watchdog::feed`.
            let _ = file.write(b"1");
        }
    }
}

/// Opens the running watchdogs of `class` that are not open yet. True if a driver
/// is still loading, whose watchdog cannot be judged yet.
fn take_over_running(
    class: &Path,
    fed: &mut HashMap<String, Watchdog>,
    for_the_end: &FedWatchdogs,
) -> bool {
    let mut loading = false;
    for entry in fs::read_dir(class).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if fed.contains_key(&name) {
            continue;
        }
        match state(&entry.path()) {
            State::Loading => loading = true,
            State::Stopped => {}
            State::Running => {
                if let Some(watchdog) = take_over(&entry.path(), &name) {
                    for_the_end.add(&watchdog.file);
                    fed.insert(name, watchdog);
                }
            }
        }
    }
    loading
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Loading,
    Stopped,
    Running,
}

/// sysfs does not say whether the hardware runs (its `state` is about open files),
/// but the kernel holds a reference to the driver of a watchdog that did when it
/// was registered (`watchdog_cdev_register` in drivers/watchdog/watchdog_dev.c).
/// While a module loads it holds one, too.
fn state(watchdog: &Path) -> State {
    let module = watchdog.join("device/driver/module");
    let text = |name: &str| fs::read_to_string(module.join(name)).unwrap_or_default();
    match (text("initstate").trim(), text("refcnt").trim()) {
        ("live", "0") => State::Stopped,
        ("live", _) => State::Running,
        ("coming", _) => State::Loading,
        // Part of the kernel, which feeds it.
        _ => State::Stopped,
    }
}

fn take_over(watchdog: &Path, name: &str) -> Option<Watchdog> {
    let node = Path::new("/dev").join(name);
    let file = match OpenOptions::new().write(true).open(&node) {
        Ok(file) => file,
        Err(error) => {
            tracing::warn!("watchdog {}: {error}; the kernel feeds it", node.display());
            return None;
        }
    };
    let identity = fs::read_to_string(watchdog.join("identity")).unwrap_or_default();
    let timeout = set_timeout(&file, TIMEOUT_SECONDS);
    tracing::info!(
        "watchdog {} ({}) was running: feeding it{}",
        node.display(),
        identity.trim(),
        match timeout {
            Ok(seconds) => format!(", it resets this machine {seconds} s after that ends"),
            // Its own time stays.
            Err(_) => String::new(),
        }
    );
    Some(Watchdog { file, fed_at: None })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_a_watchdog_that_ran_before_is_taken_over() {
        for (initstate, refcnt, expected) in [
            ("coming", "1", State::Loading),
            ("live", "0", State::Stopped),
            ("live", "1", State::Running),
            ("", "", State::Stopped),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let module = dir.path().join("module/iTCO_wdt");
            let driver = dir.path().join("driver");
            let watchdog = dir.path().join("watchdog0/device");
            for directory in [&module, &driver, &watchdog] {
                fs::create_dir_all(directory).unwrap();
            }
            symlink(&module, driver.join("module")).unwrap();
            symlink(&driver, watchdog.join("driver")).unwrap();
            if !initstate.is_empty() {
                fs::write(module.join("initstate"), format!("{initstate}\n")).unwrap();
                fs::write(module.join("refcnt"), format!("{refcnt}\n")).unwrap();
            }
            assert_eq!(state(&dir.path().join("watchdog0")), expected);
        }
    }
}
