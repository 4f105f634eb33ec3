//! Feeds the hardware watchdogs that the firmware or the previous system has
//! started. Otherwise they would reset the machine in the middle of an
//! installation.
//!
//! Init never starts a watchdog. The kernel feeds a running watchdog from the moment
//! its driver is loaded (`handle_boot_enabled`), as long as the kernel is alive. Init
//! takes over, so that the watchdog also resets a machine whose agent hangs or whose
//! boot does not end. If init dies, its descriptors close and nobody feeds the
//! watchdogs any more.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use landfall_sys::uevent::{Action, Received, UeventSocket};
use landfall_sys::watchdog_ioctl::set_timeout;

use super::progress::Progress;

/// The watchdog resets the machine if nobody feeds it for this many seconds. With a
/// shorter limit, it could reset a machine that is slow because it has no free memory.
const TIMEOUT_SECONDS: i32 = 60;
const FEED: Duration = Duration::from_secs(10);
/// The time in which a system that is started without firmware (kexec) must load the
/// driver and feed the watchdog. Init uses the longest of these times that the hardware
/// supports. An installed system may load the driver only after Ignition, which fetches
/// files.
const NEXT_SYSTEM_SECONDS: [i32; 3] = [600, 300, 120];
/// The time from the uevent of a new watchdog to the first look at its state. The driver
/// announces the watchdog before it has finished loading.
const SETTLE: Duration = Duration::from_secs(1);

/// Starts a thread that feeds running watchdogs while the boot makes progress.
pub(super) fn feed_in_background(progress: Arc<Progress>, for_the_end: Arc<FedWatchdogs>) {
    super::spawn("watchdog", "the kernel alone feeds a watchdog", move || {
        if let Err(error) = feed(&progress, &for_the_end) {
            tracing::warn!(
                "cannot watch for watchdogs: {error}; a watchdog that the firmware started may reset this machine"
            );
        }
    });
}

fn feed(progress: &Progress, for_the_end: &FedWatchdogs) -> std::io::Result<()> {
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
            // There is no watchdog to feed, so wait for the next event without a time
            // limit.
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
            // Look again at a driver that is still loading.
            let class = Path::new("/sys/class/watchdog");
            let loading = take_over_running(class, &mut fed, for_the_end);
            look_at = loading.then(|| now + SETTLE);
        }
        match progress.hangs_since(now) {
            None => {
                hangs = false;
                fed.values_mut().for_each(Watchdog::feed);
            }
            Some((what, silence)) if !hangs && !fed.is_empty() => {
                hangs = true;
                tracing::error!(
                    "{what} for {} s; the watchdog resets this machine",
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
        // Any byte feeds the watchdog, but `V` would also let the kernel stop the
        // watchdog when the file is closed. An error means that the device is gone.
        let _ = self.file.write(b"1");
    }
}

/// The watchdogs that init feeds. Their timeouts are extended before a kexec.
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
                "cannot keep the watchdog open: {error}; its timeout stays at {TIMEOUT_SECONDS} s, so a system that kexec starts must feed it within that time"
            ),
        }
    }

    /// Gives a system that is started by kexec the time to feed the watchdogs
    /// itself. kexec skips the firmware, which would stop them, and some drivers do
    /// not stop them either.
    pub(super) fn leave_time_for_next_system(&self) {
        for mut file in &*self.lock() {
            let set = |seconds: &i32| set_timeout(file, *seconds).ok();
            if let Some(seconds) = NEXT_SYSTEM_SECONDS.iter().find_map(set) {
                tracing::info!("the watchdog resets this machine if it is not fed in {seconds} s");
            }
            // Any byte except `V`, as in [`Watchdog::feed`].
            let _ = file.write(b"1");
        }
    }
}

/// Opens the running watchdogs of `class` that are not open yet, and adds them to `fed`
/// and `for_the_end`. True if a driver is still loading, so that the state of its
/// watchdog is unknown.
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

/// Whether the watchdog ran before its driver was loaded. sysfs does not report this: its
/// attribute `state` is about open files. But if a watchdog was running when it was
/// registered, the kernel holds a reference to its driver (`watchdog_cdev_register` in
/// drivers/watchdog/watchdog_dev.c). The kernel also holds such a reference while a
/// module is loading.
fn state(watchdog: &Path) -> State {
    let module = watchdog.join("device/driver/module");
    let text = |name: &str| fs::read_to_string(module.join(name)).unwrap_or_default();
    match (text("initstate").trim(), text("refcnt").trim()) {
        ("live", "0") => State::Stopped,
        ("live", _) => State::Running,
        ("coming", _) => State::Loading,
        // The driver is built into the kernel, so it has no reference count. Leave a
        // running watchdog to the kernel, which feeds it.
        _ => State::Stopped,
    }
}

fn take_over(watchdog: &Path, name: &str) -> Option<Watchdog> {
    let node = Path::new("/dev").join(name);
    let file = match OpenOptions::new().write(true).open(&node) {
        Ok(file) => file,
        Err(error) => {
            tracing::warn!(
                "cannot open the watchdog {}: {error}; the kernel feeds it",
                node.display()
            );
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
            Ok(seconds) => format!(", it resets this machine {seconds} s after the feeding stops"),
            // The driver does not accept the timeout, so the watchdog keeps its own.
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
