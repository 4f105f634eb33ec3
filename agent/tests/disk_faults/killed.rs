//! Kills the program during a write: after 64 MiB in the first run, and 64 MiB later in
//! each further run.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use landfall_http_client::fixtures::{Reply, Server};
use landfall_sys::loop_device::loop_device;

use crate::firmware_view::Found;
use crate::program;
use crate::system_image::system_image;

const MIB: usize = 1 << 20;
const STEP: usize = 64 * MIB;
const IMAGE: usize = 512 * MIB;
const DISK: usize = 600 * MIB;

fn read(disk: &File, at: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    disk.read_exact_at(&mut bytes, at).unwrap();
    bytes
}

fn found_on(disk: &File) -> Found {
    Found::on(DISK as u64, |at, len| read(disk, at, len))
}

/// The image compressed in frames of 64 MiB, and the offset where each frame ends.
/// A client that has all bytes of a frame can decompress it without the next one.
fn in_steps(image: &[u8]) -> (Vec<u8>, Vec<usize>) {
    let mut packed = Vec::new();
    let mut ends = Vec::new();
    for step in image.chunks(STEP) {
        packed.extend(zstd::bulk::compress(step, 1).unwrap());
        ends.push(packed.len());
    }
    // A skippable frame (RFC 8878, 3.1.2), which decompresses to nothing. Without it, the
    // file would end with the last step, and the server could not stall after that step.
    packed.extend([0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 0, 0, 0, 0]);
    (packed, ends)
}

/// Waits until everything before `end` is on the disk. The last 4096 bytes before
/// `end` are data, so comparing them is enough.
fn wait_until_written(disk: &File, image: &[u8], end: usize) {
    let last = end - 4096..end;
    let deadline = Instant::now() + Duration::from_secs(60);
    while read(disk, last.start as u64, last.len()) != image[last.clone()] {
        assert!(Instant::now() < deadline, "byte {end} was never written");
        sleep(Duration::from_millis(5));
    }
}

fn assert_holds(path: &Path, image: &[u8], last: usize) {
    let disk = File::open(path).unwrap();
    assert_eq!(found_on(&disk), Found::ALL, "the table after step {last}");
    // Both ends are skipped: the agent adapts the partition tables there to the
    // size of the disk.
    for at in (MIB..IMAGE - MIB).step_by(MIB) {
        assert!(
            read(&disk, at as u64, MIB) == image[at..at + MIB],
            "after step {last}: the MiB at byte {at}"
        );
    }
}

#[test]
fn killed_at_every_64_mib() {
    // Use memory (/dev/shm) if possible, to spare the developer's disk.
    let file = tempfile::NamedTempFile::new_in("/dev/shm")
        .or_else(|_| tempfile::NamedTempFile::new())
        .unwrap();
    file.as_file().set_len(DISK as u64).unwrap();
    let Some(device) = loop_device(file.path(), 512) else {
        return;
    };
    let images = [1, 2].map(|seed| system_image(IMAGE, seed << 4));
    let packed = images.each_ref().map(|image| in_steps(image));
    let stops = [(); 2].map(|()| Arc::new(AtomicUsize::new(usize::MAX)));
    let servers = [0, 1].map(|system| {
        let (packed, stop) = (packed[system].0.clone(), Arc::clone(&stops[system]));
        Server::start(move |_| match stop.load(Ordering::Relaxed) {
            usize::MAX => Reply::whole(&packed, "\"1\""),
            stop => Reply::whole(&packed, "\"1\"").stalled(stop),
        })
    });
    let write = |system: usize| {
        stops[system].store(usize::MAX, Ordering::Relaxed);
        let (well, text) = program::write(&servers[system].url, device.path(), &[]);
        assert!(well, "{text}");
    };
    // The disk first gets a system that boots.
    write(0);
    for step in 0..packed[0].1.len() {
        // The two systems alternate, so each interrupted write overwrites the system of
        // the write before it.
        let system = (step + 1) % 2;
        let written = (step + 1) * STEP;
        stops[system].store(packed[system].1[step], Ordering::Relaxed);
        let mut agent = program::start_writing(&servers[system].url, device.path(), &[]);
        let disk = File::open(file.path()).unwrap();
        wait_until_written(&disk, &images[system], written);
        agent.kill().unwrap();
        agent.wait().unwrap();
        assert_eq!(found_on(&disk), Found::NOTHING, "killed at byte {written}");
        write(system);
        assert_holds(file.path(), &images[system], step);
    }
}
