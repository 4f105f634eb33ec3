//! The program is killed at every 64 MiB of a write.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::firmware_view::Found;
use crate::image_server::ImageServer;
use crate::loop_device::loop_device;
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

/// The image packed in frames of 64 MiB, and where each of them ends: whoever
/// has all bytes of a frame can unpack it without the next.
fn in_steps(image: &[u8]) -> (Vec<u8>, Vec<usize>) {
    let mut packed = Vec::new();
    let mut ends = Vec::new();
    for step in image.chunks(STEP) {
        packed.extend(zstd::bulk::compress(step, 1).unwrap());
        ends.push(packed.len());
    }
    // RFC 8878, 3.1.2: a frame that unpacks to nothing, so that even after the
    // last step the file is not at its end.
    packed.extend([0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 0, 0, 0, 0]);
    (packed, ends)
}

/// Waits until all before `end` is on the disk: its last piece is data.
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
    // The first sectors tell of the disk's own size.
    for at in (MIB..IMAGE - MIB).step_by(MIB) {
        assert!(
            read(&disk, at as u64, MIB) == image[at..at + MIB],
            "after step {last}: the MiB at byte {at}"
        );
    }
}

#[test]
fn killed_at_every_64_mib() {
    // In memory, if possible: no disk of the developer's has to take all this.
    let file = tempfile::NamedTempFile::new_in("/dev/shm")
        .or_else(|_| tempfile::NamedTempFile::new())
        .unwrap();
    file.as_file().set_len(DISK as u64).unwrap();
    let Some(device) = loop_device(file.path(), 512) else {
        return;
    };
    let images = [1, 2].map(|seed| system_image(IMAGE, seed << 4));
    let packed = images.each_ref().map(|image| in_steps(image));
    let servers = packed
        .each_ref()
        .map(|(packed, _)| ImageServer::start(packed.clone()));
    let write = |system: usize| {
        servers[system].stop_before(usize::MAX);
        let (well, text) = program::write(&servers[system].url, device.path(), &[]);
        assert!(well, "{text}");
    };
    // What was on the disk before: a system that boots.
    write(0);
    for step in 0..packed[0].1.len() {
        // Each interrupts the writing over the other.
        let system = (step + 1) % 2;
        let written = (step + 1) * STEP;
        servers[system].stop_before(packed[system].1[step]);
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
