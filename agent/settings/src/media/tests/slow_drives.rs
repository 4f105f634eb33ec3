//! Drives that do not answer: opening a FIFO blocks until somebody writes to it, as opening a
//! drive blocks in the kernel.

use std::fs::OpenOptions;
use std::sync::mpsc::{Receiver, channel};

use super::*;
use crate::media::side_by_side::{Progress, SideBySide};

const SILENCE: Duration = Duration::from_millis(500);
const A_MOMENT: Duration = Duration::from_millis(100);

/// A medium that does not answer until this value is dropped.
struct Blocked(PathBuf);

impl Blocked {
    fn at(node: PathBuf) -> Self {
        run(Command::new("mkfifo").arg(&node));
        Self(node)
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // Opening the FIFO for writing ends the thread that waits to open it for reading.
        let _ = OpenOptions::new().read(true).write(true).open(&self.0);
    }
}

fn places(host: &Host) -> Places {
    Places {
        silence: SILENCE,
        ..host.places()
    }
}

#[test]
fn a_drive_that_does_not_answer_hides_no_other() {
    let host = Host::new();
    let blocked = Blocked::at(host.cd_drive("sr0"));
    boot_iso(&host.cd_drive("sr1"), "config-2", ID);
    let text = "ipa-debug=1\n";
    floppy(&host.usb_disk("sdb", 2880), "ir-vfd-dev", Some(text));

    let media = read(&wanted(), &places(&host), || false);
    let network = media.network_data.clone().unwrap();
    assert!(network.device.ends_with("dev/sr1"));
    assert_eq!(media.parameters.clone().unwrap().text, text);
    assert!(host.copied("ironic-python-agent/ironic.crt").is_some());
    let fault = format!(
        "{}: the drive does not answer; its medium is ignored -- eject the medium, or insert it again, and reset this machine",
        blocked.0.display()
    );
    assert_eq!(media.warnings, [fault]);

    // The next search starts no second thread for the blocked drive, so it does not wait
    // for that drive.
    fs::remove_file(host.path("run/media.json")).unwrap();
    let start = Instant::now();
    assert_eq!(read(&wanted(), &places(&host), || false), media);
    assert!(start.elapsed() < SILENCE);
}

/// A fast drive must not take precedence because it is fast.
#[test]
fn the_results_come_in_the_order_of_the_drives() {
    let media_wait = MediaWait::new(true);
    let mut drives = SideBySide::new(&media_wait, Duration::from_secs(20), "a test");
    for (name, pause) in [("/test/sr0", 4), ("/test/sr1", 0), ("/test/sr2", 2)] {
        let progress = Progress::new(&media_wait);
        let work = move || std::thread::sleep(A_MOMENT * pause);
        assert!(drives.start(name.into(), progress, work));
    }
    let names: Vec<PathBuf> = drives.wait().into_keys().collect();
    let in_order = ["/test/sr0", "/test/sr1", "/test/sr2"];
    assert_eq!(names, in_order.map(PathBuf::from));
    assert_eq!(drives.pending().count(), 0);
}

#[test]
fn a_drive_that_makes_progress_is_waited_for() {
    let media_wait = MediaWait::new(true);
    let mut drives = SideBySide::new(&media_wait, SILENCE, "a test");
    let progress = Progress::new(&media_wait);
    let of_drive = progress.clone();
    let work = move || {
        for _ in 0..10 {
            std::thread::sleep(SILENCE / 5);
            of_drive.made();
        }
    };
    assert!(drives.start("/test/slow".into(), progress, work));
    assert_eq!(drives.wait().len(), 1);
}

/// If such media were stored, the agent would have settings after a restart that it did
/// not have before the restart.
#[test]
fn media_read_after_the_timeout_are_not_stored() {
    let host = Host::new();
    boot_iso(&host.cd_drive("sr0"), "config-2", ID);
    let media_wait = MediaWait::new(true);
    let gives_up = || media_wait.give_up();
    let media = read_now(&wanted(), &host.places(), &media_wait, gives_up);
    assert_eq!(media, None);
    assert_eq!(host.copied("ironic-python-agent/ironic.crt"), None);
    assert!(!host.path("run/media.json").exists());

    // An agent that has not given up stores the same media.
    read(&wanted(), &host.places(), || false);
    assert!(host.copied("ironic-python-agent/ironic.crt").is_some());
    assert!(host.path("run/media.json").exists());
}

#[tokio::test]
async fn the_agent_gives_up_a_reader_that_does_not_end() {
    let media_wait = MediaWait::with(true, Instant::now(), SILENCE);
    let (_hold, held): (_, Receiver<()>) = channel();
    let reader = move || {
        let _ = held.recv();
        None
    };
    assert_eq!(read_within(media_wait.clone(), reader).await, None);
    assert_eq!(media_wait.store(|| ()), None);
}

#[tokio::test]
async fn progress_makes_the_agent_wait_longer() {
    for makes_progress in [true, false] {
        let media_wait = MediaWait::almost_over(SILENCE);
        let of_reader = media_wait.clone();
        let reader = move || {
            for _ in 0..10 {
                std::thread::sleep(SILENCE / 5);
                if makes_progress {
                    of_reader.progress();
                }
            }
            of_reader.store(Media::default)
        };
        let media = read_within(media_wait, reader).await;
        assert_eq!(media.is_some(), makes_progress);
    }
}
