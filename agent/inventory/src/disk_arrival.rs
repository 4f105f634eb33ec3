//! Waits for the disks. The inventory, the choice of a root disk and the steps that erase
//! disks all use this wait.
//!
//! Controllers search for their disks in the background, for seconds up to minutes. The
//! kernel sends an event for every disk that a controller finds. So this module does not
//! poll: it lists the disks once at the beginning and again after events.
//! `disk_arrival/outlook.rs` decides whether more disks may appear on a bus.

mod outlook;

use std::io;
use std::time::{Duration, Instant};

use landfall_devices::devices_settled::{self, DevicesSettled};
use landfall_sys::uevent::{Received, Uevent, UeventSocket};

use self::outlook::Outlook;
use super::disks;
use super::report_types::Disk;
use super::system_path::SystemPath;

/// The settings of a wait for disks.
#[derive(Debug, Clone, Copy)]
pub struct DiskArrival {
    /// The time at which the devices had their drivers.
    settled: Instant,
    /// The longest time to wait.
    limit: Duration,
    /// How long to wait for the next event when the wanted disk is there but a controller
    /// is still searching. Without an event in this time the list counts as complete.
    quiet: Duration,
    /// Whether the caller needs the whole list.
    all: bool,
}

/// The value of [`DiskArrival::quiet`] outside of tests: the time for a controller to
/// find its next disk, which may be the smallest one. Longer than the delay of
/// usb-storage for a new disk (`delay_use`, 1 s).
const QUIET: Duration = Duration::from_millis(1500);

/// The time to wait for the next event after an event, if the caller needs the whole
/// list. The kernel does not show whether an NVMe controller has more namespaces, or a
/// SCSI target more LUNs, than those found so far; it finds the next one within
/// milliseconds.
const NEXT: Duration = Duration::from_millis(500);

/// The longest possible limit. A longer one can only be a typing error.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

impl DiskArrival {
    /// Waits until the devices have their drivers. The limit of this wait is the product
    /// of the two settings, a number of attempts and the delay between them. The wait for
    /// the disks that follows has the same limit.
    pub async fn begin(settled: DevicesSettled, attempts: u32, delay: Duration) -> Self {
        let limit = delay.saturating_mul(attempts).min(LONGEST);
        Self::after(devices_settled::wait(settled, limit).await, limit)
    }

    /// Creates a wait of at most `limit`, for a machine whose devices had their drivers
    /// at the time `settled`.
    pub fn after(settled: Instant, limit: Duration) -> Self {
        Self {
            settled,
            limit,
            quiet: QUIET,
            all: false,
        }
    }

    /// The same wait for callers that need the whole list: to choose the smallest disk or
    /// the first of several disks, to erase all disks, or to report a complete inventory.
    pub fn of_all_disks(self) -> Self {
        Self { all: true, ..self }
    }

    /// The longest time to wait for the disks.
    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// Lists the disks below `root` until `wanted` accepts the list and no further disk
    /// is expected, or the time is over. Returns the last list, accepted or not.
    ///
    /// # Errors
    /// If the kernel's events cannot be received.
    pub fn wait(
        self,
        root: &SystemPath,
        wanted: impl FnMut(&[Disk]) -> bool,
    ) -> io::Result<Vec<Disk>> {
        // Open the socket before the first look, so that no event is lost.
        let socket = UeventSocket::open()?;
        self.wait_by(
            || (disks::collect(root), Outlook::look(root)),
            wanted,
            |timeout| socket.recv(Some(timeout)),
        )
    }

    fn wait_by(
        self,
        mut list: impl FnMut() -> (Vec<Disk>, Outlook),
        mut wanted: impl FnMut(&[Disk]) -> bool,
        mut receive: impl FnMut(Duration) -> io::Result<Received>,
    ) -> io::Result<Vec<Disk>> {
        let end = Instant::now() + self.limit;
        let mut after_event = Duration::ZERO;
        loop {
            let (found, outlook) = list();
            let left = end.saturating_duration_since(Instant::now());
            let pause = match wanted(&found) {
                true => self.pause(outlook).max(after_event).min(left),
                false => left,
            };
            if pause.is_zero() || !buses_changed(pause, &mut receive)? {
                if let Some(bus) = outlook.at_work.filter(|_| self.all && left.is_zero()) {
                    let seconds = self.limit.as_secs();
                    tracing::warn!(
                        "{bus} is still searching for disks after {seconds} s, continuing with those that are there"
                    );
                }
                return Ok(found);
            }
            if self.all {
                after_event = NEXT;
            }
        }
    }

    /// How long to wait for a further event although the wanted disk is there.
    fn pause(self, outlook: Outlook) -> Duration {
        let hidden_scan = match self.all {
            true => (self.settled + outlook.hidden_scan).saturating_duration_since(Instant::now()),
            false => Duration::ZERO,
        };
        match outlook.at_work {
            Some(_) => hidden_scan.max(self.quiet),
            None => hidden_scan,
        }
    }
}

/// Waits for an event that may change the list of disks or the [`Outlook`], and returns
/// whether there was one. Receives all queued events at once, so a thousand LUNs cause
/// only a few listings.
fn buses_changed(
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
            Received::Event(event) => changed |= concerns_disks(&event),
        }
        // Even if the events never end, the limit of the caller must hold.
        if Instant::now() >= end {
            return Ok(changed);
        }
    }
}

/// Whether the event belongs to a disk or to a bus that has disks. False for events of
/// partitions.
fn concerns_disks(event: &Uevent) -> bool {
    let subsystem = event.subsystem();
    let is_of_bus = ["scsi", "sas_", "fc_", "nvme", "usb", "mmc"]
        .iter()
        .any(|bus| subsystem.starts_with(bus));
    is_of_bus || subsystem == "block" && event.devtype() != Some("partition")
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::collections::VecDeque;
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::sys_tree::PlantedTree;

    /// A wait for the first fitting disk.
    fn arrival() -> DiskArrival {
        DiskArrival {
            quiet: Duration::from_millis(300),
            ..DiskArrival::after(Instant::now(), Duration::from_secs(60))
        }
    }

    const QUIET_BUSES: Outlook = Outlook {
        at_work: None,
        hidden_scan: Duration::ZERO,
    };
    const AT_WORK: Outlook = Outlook {
        at_work: Some("SCSI"),
        hidden_scan: Duration::ZERO,
    };

    fn event(text: &str) -> Received {
        Received::Event(Uevent::parse(text.replace(' ', "\0").as_bytes()).unwrap())
    }

    fn disk_event() -> Received {
        event("add@/devices/x/block/vda SUBSYSTEM=block DEVTYPE=disk DEVNAME=vda")
    }

    /// Runs a wait with scripted events, on a tree in which `appear` creates
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
        let found = arrival()
            .wait_by(
                || {
                    lists.set(lists.get() + 1);
                    (disks::collect(root.path()), AT_WORK)
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

    /// After an event of a bus, the agent checks again whether the bus is still
    /// searching.
    #[test]
    fn a_bus_that_becomes_quiet_ends_the_wait() {
        let root = PlantedTree::default();
        make_disk(root.directory(), "sda");
        let events = RefCell::new(VecDeque::from([
            event("add@/devices/x/rport-0:0-1 SUBSYSTEM=fc_remote_ports"),
            Received::TimedOut,
            // Nothing follows the event.
            Received::TimedOut,
        ]));
        let outlooks = RefCell::new(VecDeque::from([AT_WORK, QUIET_BUSES]));
        let found = arrival()
            .of_all_disks()
            .wait_by(
                || {
                    let outlook = outlooks.borrow_mut().pop_front().unwrap();
                    (disks::collect(root.path()), outlook)
                },
                |disks| !disks.is_empty(),
                |_| Ok(events.borrow_mut().pop_front().unwrap()),
            )
            .unwrap();
        assert_eq!(found.len(), 1);
        assert!(outlooks.borrow().is_empty() && events.borrow().is_empty());
    }

    #[test]
    fn content_and_nothing_to_come_means_no_wait() {
        let root = PlantedTree::default();
        make_disk(root.directory(), "sda");
        for arrival in [arrival(), arrival().of_all_disks()] {
            let found = arrival
                .wait_by(
                    || (disks::collect(root.path()), QUIET_BUSES),
                    |disks| !disks.is_empty(),
                    |_| panic!("waited for an event"),
                )
                .unwrap();
            assert_eq!(found.len(), 1);
        }
    }

    /// The first LUN or namespace is there, and the kernel does not show that it is looking
    /// for a second one.
    #[test]
    fn a_second_disk_soon_after_the_first_is_waited_for() {
        let root = PlantedTree::default();
        let received = Cell::new(0);
        let found = arrival()
            .of_all_disks()
            .wait_by(
                || (disks::collect(root.path()), QUIET_BUSES),
                |disks| !disks.is_empty(),
                |_| {
                    received.set(received.get() + 1);
                    Ok(match received.get() {
                        1 | 3 => {
                            let name = if received.get() == 1 { "sda" } else { "sdab" };
                            make_disk(root.directory(), name);
                            disk_event()
                        }
                        _ => Received::TimedOut,
                    })
                },
            )
            .unwrap();
        assert_eq!(found.len(), 2);
    }

    /// If events of other devices never end, the limit still holds.
    #[test]
    fn events_of_other_devices_have_the_same_limit() {
        let end = Instant::now() + Duration::from_secs(5);
        let mut receive = |_| Ok(event("change@/devices/x/net/eth0 SUBSYSTEM=net"));
        assert!(!buses_changed(Duration::from_millis(50), &mut receive).unwrap());
        assert!(Instant::now() < end);
    }

    /// A bus may not show whether it is still searching. Only a caller that needs all
    /// disks then waits for a second disk.
    #[test]
    fn while_a_bus_is_silent_a_second_disk_is_waited_for() {
        let silent = Outlook {
            at_work: None,
            hidden_scan: Duration::from_secs(60),
        };
        for (arrival, expected) in [(arrival(), 1), (arrival().of_all_disks(), 2)] {
            let root = PlantedTree::default();
            make_disk(root.directory(), "sda");
            let received = Cell::new(0);
            let found = arrival
                .wait_by(
                    || (disks::collect(root.path()), silent),
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
            assert_eq!(found.len(), expected, "the smaller one came second");
        }
    }

    /// If a bus never stops searching, the limit ends the wait.
    #[test]
    fn there_is_a_limit() {
        let root = PlantedTree::default();
        make_disk(root.directory(), "sda");
        let began = Instant::now();
        let brief = DiskArrival {
            limit: Duration::from_millis(50),
            ..arrival().of_all_disks()
        };
        let found = brief
            .wait_by(
                || (disks::collect(root.path()), AT_WORK),
                |_| true,
                |_| Ok(disk_event()),
            )
            .map(|found| found.len());
        // The events never end, so draining them must end as well.
        assert!(began.elapsed() < Duration::from_secs(5));
        assert_eq!(found.unwrap(), 1);
    }

    #[test]
    fn without_a_waiting_time_disks_are_read_once() {
        let root = PlantedTree::default();
        make_disk(root.directory(), "sda");
        let none = DiskArrival::after(Instant::now(), Duration::ZERO);
        let found = none.wait(root.path(), |_| false).unwrap();
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn real_socket_times_out() {
        let root = PlantedTree::default();
        let started = Instant::now();
        let brief = DiskArrival::after(started, Duration::from_millis(50));
        let found = brief.wait(root.path(), |disks| !disks.is_empty()).unwrap();
        assert_eq!(found, []);
        assert!(started.elapsed() >= Duration::from_millis(50));
    }
}
