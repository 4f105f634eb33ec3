//! Waits until the disk that the caller needs has appeared.
//!
//! Controllers search for their disks in the background, for seconds up to minutes.
//! The kernel sends an event for every disk that they find, so this does not poll:
//! it lists the disks once at the beginning and again after events.

use std::io;
use std::time::{Duration, Instant};

use landfall_sys::uevent::{Received, Uevent, UeventSocket};

use super::report_types::Disk;
use super::system_path::SystemPath;
use super::{disks, sysfs};

#[derive(Debug, Clone, Copy)]
pub struct DiskWait {
    /// The longest time to wait for the wanted disk.
    pub timeout: Duration,
    /// Once the wanted disk is there, how long to wait for more disks while a
    /// controller is still searching. Without an event in this time the list counts
    /// as complete.
    pub quiet: Duration,
    /// Before this moment the list never counts as complete.
    pub not_before: Option<Instant>,
}

/// A controller that finds one disk after the other gets this much time for the
/// next one, because the smallest disk may be the last. The time is longer than
/// the one for which usb-storage lets a new disk settle (`delay_use`, 1 s).
const QUIET: Duration = Duration::from_millis(1500);

/// How long disks may still appear after all drivers are loaded. A RAID controller
/// starts its volumes one after the other, and a USB hub scans its ports in turn.
pub const ALL_DISKS: Duration = Duration::from_secs(3);

/// The longest possible timeout. A longer one can only be a typing error.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

impl DiskWait {
    /// Converts the settings, a number of attempts and the delay between them, to
    /// one wait of the same total length.
    pub fn of_attempts(attempts: u32, delay: Duration) -> Self {
        Self {
            timeout: delay.saturating_mul(attempts).min(LONGEST),
            quiet: QUIET,
            not_before: None,
        }
    }

    /// The same wait for callers that need the whole list: to choose the smallest
    /// disk or the first of several, or for a complete inventory. `settled` is the
    /// moment when all devices had their drivers.
    pub fn for_all_disks(self, settled: Instant) -> Self {
        Self {
            not_before: Some(settled + ALL_DISKS),
            ..self
        }
    }
}

/// Lists the disks below `root` until `wanted` accepts the list. Returns the last
/// list, which `wanted` may not have accepted.
///
/// # Errors
/// If the kernel's events cannot be received.
pub fn wait_for_disk(
    root: &SystemPath,
    disk_wait: DiskWait,
    wanted: impl FnMut(&[Disk]) -> bool,
) -> io::Result<Vec<Disk>> {
    // Open the socket before the first look, so that no event is lost.
    let socket = UeventSocket::open()?;
    wait(
        disk_wait,
        || {
            let at_work = nvme_at_work(root) || scsi_at_work(root) || usb_at_work(root);
            (disks::collect(root), at_work)
        },
        wanted,
        |timeout| socket.recv(Some(timeout)),
    )
}

/// Whether a SCSI disk has no block device yet. The kernel probes disks
/// asynchronously.
fn scsi_at_work(root: &SystemPath) -> bool {
    let devices = root.join("sys/class/scsi_device");
    sysfs::names(&devices).iter().any(|name| {
        let device = devices.join(name).join("device");
        // TYPE_DISK of <scsi/scsi_proto.h>.
        sysfs::text(&device.join("type")).as_deref() == Some("0")
            && sysfs::names(&device.join("block")).is_empty()
    })
}

/// Whether a USB disk has its driver, but the kernel has not scanned it yet.
fn usb_at_work(root: &SystemPath) -> bool {
    let hosts = root.join("sys/class/scsi_host");
    sysfs::names(&hosts).iter().any(|name| {
        let host = hosts.join(name);
        let driver = sysfs::text(&host.join("proc_name"));
        matches!(driver.as_deref(), Some("usb-storage" | "uas"))
            && !sysfs::names(&host.join("device"))
                .iter()
                .any(|child| child.starts_with("target"))
    })
}

/// Whether an NVMe controller has no namespaces yet. It scans for them after its
/// driver has finished loading.
fn nvme_at_work(root: &SystemPath) -> bool {
    let controllers = root.join("sys/class/nvme");
    sysfs::names(&controllers).iter().any(|name| {
        let controller = controllers.join(name);
        match sysfs::text(&controller.join("state")).as_deref() {
            Some("new" | "resetting" | "connecting") => true,
            Some("live") => !sysfs::names(&controller)
                .iter()
                // The namespace nvme0n1, or nvme0c0n1 for one of several paths.
                .any(|child| child.starts_with(name)),
            _ => false,
        }
    })
}

fn wait(
    disk_wait: DiskWait,
    mut list: impl FnMut() -> (Vec<Disk>, bool),
    mut wanted: impl FnMut(&[Disk]) -> bool,
    mut receive: impl FnMut(Duration) -> io::Result<Received>,
) -> io::Result<Vec<Disk>> {
    let end = Instant::now() + disk_wait.timeout;
    loop {
        let (found, more_to_come) = list();
        let left = end.saturating_duration_since(Instant::now());
        let early = disk_wait.not_before.map_or(Duration::ZERO, |moment| {
            moment.saturating_duration_since(Instant::now())
        });
        let pause = match (wanted(&found), more_to_come) {
            (true, false) => early.min(left),
            (true, true) => disk_wait.quiet.max(early).min(left),
            (false, _) => left,
        };
        if pause.is_zero() || !disks_changed(pause, &mut receive)? {
            return Ok(found);
        }
    }
}

/// Waits for an event that may change the list, and drains all queued events. So a
/// thousand LUNs cause only a few listings.
fn disks_changed(
    pause: Duration,
    receive: &mut impl FnMut(Duration) -> io::Result<Received>,
) -> io::Result<bool> {
    let end = Instant::now() + pause;
    let mut changed = false;
    loop {
        let left = match changed {
            true => Duration::ZERO,
            false => end.saturating_duration_since(Instant::now()),
        };
        match receive(left)? {
            Received::TimedOut => return Ok(changed),
            Received::Lost => changed = true,
            Received::Event(event) => changed |= concerns_disk(&event),
        }
    }
}

/// Whether the event can change the list of disks. Events of partitions cannot.
fn concerns_disk(event: &Uevent) -> bool {
    event.subsystem() == "block" && event.devtype() != Some("partition")
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::collections::VecDeque;
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::sys_tree::PlantedTree;

    const DISK_WAIT: DiskWait = DiskWait {
        timeout: Duration::from_secs(60),
        quiet: Duration::from_millis(300),
        not_before: None,
    };

    fn event(text: &str) -> Received {
        Received::Event(Uevent::parse(text.replace(' ', "\0").as_bytes()).unwrap())
    }

    fn disk_event() -> Received {
        event("add@/devices/x/block/vda SUBSYSTEM=block DEVTYPE=disk DEVNAME=vda")
    }

    /// Runs [`wait`] with scripted events, on a tree in which `appear` creates
    /// disks when an event is received. Returns the names and how often the disks
    /// were listed.
    fn run(
        events: Vec<Received>,
        wanted: usize,
        appear: impl Fn(&Path, usize),
    ) -> (Vec<String>, usize) {
        let root = PlantedTree::default();
        let lists = Cell::new(0);
        let events = RefCell::new(VecDeque::from(events));
        let received = Cell::new(0);
        let found = wait(
            DISK_WAIT,
            || {
                lists.set(lists.get() + 1);
                (disks::collect(root.path()), true)
            },
            |disks| disks.len() >= wanted,
            |_| {
                received.set(received.get() + 1);
                appear(root.directory(), received.get());
                Ok(events
                    .borrow_mut()
                    .pop_front()
                    .unwrap_or(Received::TimedOut))
            },
        )
        .unwrap();
        (
            found.into_iter().map(|disk| disk.name).collect(),
            lists.get(),
        )
    }

    fn make_disk(root: &Path, name: &str) {
        let directory = root.join("sys/block").join(name);
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("size"), "8388608\n").unwrap();
        fs::write(directory.join("dev"), format!("8:{}\n", name.len())).unwrap();
    }

    #[test]
    fn disk_that_appears_ends_the_wait() {
        let (names, lists) = run(vec![disk_event()], 1, |root, _| make_disk(root, "vda"));
        assert_eq!(names, ["/dev/vda"]);
        assert_eq!(lists, 2, "once before the event and once after it");
    }

    #[test]
    fn second_disk_within_the_quiet_time_is_seen() {
        let (names, _) = run(
            vec![disk_event(), Received::TimedOut, disk_event()],
            1,
            |root, received| make_disk(root, if received < 3 { "sda" } else { "sdab" }),
        );
        assert_eq!(names, ["/dev/sda", "/dev/sdab"]);
    }

    #[test]
    fn lost_events_mean_another_look() {
        let (names, _) = run(vec![Received::Lost], 1, |root, _| make_disk(root, "sda"));
        assert_eq!(names, ["/dev/sda"]);
    }

    #[test]
    fn burst_of_events_is_one_look() {
        let (_, lists) = run(vec![disk_event(); 500], 1, |root, _| make_disk(root, "sda"));
        assert_eq!(lists, 2);
    }

    #[test]
    fn other_events_are_no_reason_to_look() {
        let events = vec![
            event("add@/devices/x/net/eth0 SUBSYSTEM=net"),
            event("add@/devices/x/block/sda/sda1 SUBSYSTEM=block DEVTYPE=partition"),
        ];
        let (names, lists) = run(events, 1, |_, _| ());
        assert_eq!(names, [""; 0]);
        assert_eq!(lists, 1);
    }

    #[test]
    fn content_and_nothing_to_come_means_no_wait() {
        let root = PlantedTree::default();
        make_disk(root.directory(), "sda");
        let found = wait(
            DISK_WAIT,
            || (disks::collect(root.path()), false),
            |disks| !disks.is_empty(),
            |_| panic!("waited for an event"),
        )
        .unwrap();
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn before_its_moment_a_second_disk_is_waited_for() {
        let root = PlantedTree::default();
        make_disk(root.directory(), "sda");
        let received = Cell::new(0);
        let disk_wait = DiskWait {
            not_before: Some(Instant::now() + Duration::from_secs(60)),
            ..DISK_WAIT
        };
        let found = wait(
            disk_wait,
            || (disks::collect(root.path()), false),
            |disks| !disks.is_empty(),
            |_| {
                received.set(received.get() + 1);
                if received.get() == 1 {
                    make_disk(root.directory(), "sdab");
                    return Ok(disk_event());
                }
                Ok(Received::TimedOut)
            },
        )
        .unwrap();
        assert_eq!(found.len(), 2, "the smaller one came second");
    }

    #[test]
    fn scsi_disk_without_a_block_device_is_still_to_come() {
        let root = PlantedTree::default();
        let device = root
            .directory()
            .join("sys/class/scsi_device/1:0:0:0/device");
        fs::create_dir_all(&device).unwrap();
        fs::write(device.join("type"), "5\n").unwrap();
        assert!(!scsi_at_work(root.path()), "a CD drive");
        fs::write(device.join("type"), "0\n").unwrap();
        assert!(scsi_at_work(root.path()));
        fs::create_dir_all(device.join("block/sda")).unwrap();
        assert!(!scsi_at_work(root.path()));
    }

    #[test]
    fn usb_disk_that_was_not_asked_yet_is_still_to_come() {
        let root = PlantedTree::default();
        let host = root.directory().join("sys/class/scsi_host/host6");
        fs::create_dir_all(host.join("device")).unwrap();
        for (driver, at_work) in [("ahci", false), ("usb-storage", true), ("uas", true)] {
            fs::write(host.join("proc_name"), format!("{driver}\n")).unwrap();
            assert_eq!(usb_at_work(root.path()), at_work, "{driver}");
        }
        fs::create_dir_all(host.join("device/target6:0:0")).unwrap();
        assert!(!usb_at_work(root.path()));
    }

    #[test]
    fn nvme_controller_is_at_work_until_its_namespaces_are_there() {
        let root = PlantedTree::default();
        let controller = root.directory().join("sys/class/nvme/nvme0");
        assert!(!nvme_at_work(root.path()), "no controller");
        fs::create_dir_all(&controller).unwrap();
        for (state, at_work) in [("connecting", true), ("live", true), ("dead", false)] {
            fs::write(controller.join("state"), state).unwrap();
            assert_eq!(nvme_at_work(root.path()), at_work, "{state}");
        }
        fs::write(controller.join("state"), "live").unwrap();
        fs::create_dir(controller.join("nvme0n1")).unwrap();
        assert!(!nvme_at_work(root.path()));
    }

    #[test]
    fn without_patience_there_is_one_look() {
        let root = PlantedTree::default();
        make_disk(root.directory(), "sda");
        let none = DiskWait {
            timeout: Duration::ZERO,
            quiet: Duration::from_secs(9),
            not_before: None,
        };
        let found = wait_for_disk(root.path(), none, |_| false).unwrap();
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn real_socket_times_out() {
        let root = PlantedTree::default();
        let started = Instant::now();
        let brief = DiskWait {
            timeout: Duration::from_millis(50),
            quiet: Duration::ZERO,
            not_before: None,
        };
        let found = wait_for_disk(root.path(), brief, |disks| !disks.is_empty()).unwrap();
        assert_eq!(found, []);
        assert!(started.elapsed() >= Duration::from_millis(50));
    }
}
