//! Interrupts the program in the middle of a commit: the operator presses
//! Ctrl-C, the terminal closes, or the system shuts down.

use std::io::{BufRead as _, BufReader};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use landfall_disk::fixtures::{Answer, DiskRequest as Request, FaultyDisk};
use landfall_http_client::fixtures::Server;
use landfall_sys::loop_device::loop_device;
use landfall_sys::skip::skip;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::firmware_view::Found;
use crate::program;
use crate::system_image::system_image;

const MIB: usize = 1 << 20;
const SECTOR: u64 = 512;
/// What the program says after a signal.
const ANSWER: &str = "ending after the commit";
/// The longest wait for this text.
const TIMEOUT: Duration = Duration::from_secs(60);

#[test]
fn a_commit_that_has_begun_is_carried_out() {
    for (signal, code) in [
        (Signal::SIGHUP, 129),
        (Signal::SIGINT, 130),
        (Signal::SIGTERM, 143),
    ] {
        let agent = Arc::new(AtomicI32::new(0));
        let asked = Arc::new(AtomicBool::new(false));
        let (process, once) = (Arc::clone(&agent), Arc::clone(&asked));
        let (sender, answers) = channel();
        let script = move |request: &Request| {
            // The commit starts with the second sector, and writes the first sector last.
            let begins = matches!(request, Request::Write(range) if range.start == SECTOR);
            if begins && !once.swap(true, Ordering::Relaxed) {
                kill(Pid::from_raw(process.load(Ordering::Relaxed)), signal).unwrap();
                // If no answer comes, the assertions below fail and show the program's
                // output.
                let _ = answers.recv_timeout(TIMEOUT);
            }
            Answer::Do
        };
        let disk = match FaultyDisk::start(vec![0; 6 * MIB], script) {
            Ok(disk) => disk,
            Err(why) => return skip(format_args!("FUSE: {why}")),
        };
        let Some(device) = loop_device(disk.path(), SECTOR as u32) else {
            return;
        };
        let server = Server::of(&system_image(4 * MIB, 0x20));
        let mut started = program::start_writing(&server.url, device.path(), &[]);
        agent.store(started.id().cast_signed(), Ordering::Relaxed);
        let mut text = String::new();
        let lines = BufReader::new(started.stderr.take().unwrap()).lines();
        for line in lines.map(Result::unwrap) {
            if line.contains(ANSWER) {
                sender.send(()).unwrap();
            }
            text += &(line + "\n");
        }
        let ended = started.wait().unwrap().code().unwrap();
        assert!(asked.load(Ordering::Relaxed), "no commit was seen: {text}");
        // Nothing is left to do after the commit, so the program may exit with code 0
        // before the signal takes effect.
        assert!(ended == code || ended == 0, "{ended}: {text}");
        assert!(text.contains(ANSWER), "{text}");
        assert_eq!(Found::in_memory(&disk.content()), Found::ALL, "{text}");
    }
}
