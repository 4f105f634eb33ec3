//! Tests with disks that fail a request, or that report success without
//! carrying it out.

use std::ops::Range;
use std::process::Command;

use landfall_disk::fixtures::{Answer, DiskRequest as Request, FaultyDisk};
use landfall_http_client::fixtures::Server;
use landfall_sys::loop_device::{LoopDevice, loop_device};
use landfall_sys::skip::skip;
use nix::errno::Errno;

use crate::firmware_view::Found;
use crate::program;
use crate::system_image::{full_system_image, system_image};

const MIB: u64 = 1 << 20;
const IMAGE: usize = 6 << 20;
const DISK: usize = 8 << 20;

/// A disk with this content, without faults until the test sets a script.
fn disk(content: &[u8]) -> Option<(FaultyDisk, LoopDevice)> {
    let disk = match FaultyDisk::start(content.to_vec(), |_| Answer::Do) {
        Ok(disk) => disk,
        Err(why) => {
            skip(format_args!("FUSE: {why}"));
            return None;
        }
    };
    let device = loop_device(disk.path(), 512)?;
    Some((disk, device))
}

struct Case {
    name: &'static str,
    /// Number of matching requests (of this `kind`, touching `bytes`; an empty range
    /// matches any place) that succeed before the disk gives `answer`.
    from: usize,
    kind: fn(&Request) -> bool,
    bytes: Range<u64>,
    answer: Answer,
    /// Parts of the expected message, all of which it must contain.
    expected_texts: &'static [&'static str],
    leaves: Leaves,
}

impl Case {
    fn from(self, from: usize) -> Self {
        Self { from, ..self }
    }
}

/// What must be on the disk afterwards.
#[derive(Debug, PartialEq, Eq)]
enum Leaves {
    Nothing,
    /// The new system: the agent works around the fault.
    NewSystem,
    /// The old system: the disk is unchanged.
    OldSystem,
}

fn writes(request: &Request) -> bool {
    matches!(request, Request::Write(_))
}

fn changes(request: &Request) -> bool {
    matches!(request, Request::Write(_) | Request::Zero(_))
}

fn zeroes(request: &Request) -> bool {
    matches!(request, Request::Zero(_))
}

fn flushes(request: &Request) -> bool {
    matches!(request, Request::Flush)
}

fn reads(request: &Request) -> bool {
    matches!(request, Request::Read(_))
}

const ALL: Range<u64> = 0..DISK as u64;
/// A sector in the middle of the first MiB, behind everything that firmware reads.
const IN_HEAD: Range<u64> = 700_000..700_001;
const IN_DATA: Range<u64> = 3_400_000..3_400_001;
const AT_END: Range<u64> = DISK as u64 - 1..DISK as u64;
const EIO: Answer = Answer::Fail(Errno::EIO);

fn cases() -> Vec<Case> {
    let case = |name, kind, bytes, answer, expected_texts, leaves| Case {
        name,
        from: 0,
        kind,
        bytes,
        answer,
        expected_texts,
        leaves,
    };
    let broken_flush = |name, from| {
        let expected_texts = &["cannot flush", "Input/output error"];
        case(name, flushes, 0..0, EIO, expected_texts, Leaves::Nothing).from(from)
    };
    vec![
        case(
            "a sector of the data",
            writes,
            IN_DATA,
            EIO,
            &["65536 bytes at offset 3342336", "Input/output error"],
            Leaves::Nothing,
        ),
        case(
            "half the commit forgotten",
            writes,
            0..MIB,
            Answer::Part(4096),
            &["read back differently"],
            Leaves::Nothing,
        )
        .from(1),
        case(
            "a sector of the data, zeroing too",
            changes,
            IN_DATA,
            EIO,
            &["bytes at offset", "Input/output error"],
            Leaves::Nothing,
        ),
        case(
            "zeroing refused",
            zeroes,
            ALL,
            Answer::Fail(Errno::EOPNOTSUPP),
            &[],
            Leaves::NewSystem,
        ),
        case(
            "zeroing done in words only",
            zeroes,
            ALL,
            Answer::Pretend,
            &[],
            Leaves::NewSystem,
        ),
        case(
            "zeroing broken",
            zeroes,
            ALL,
            EIO,
            &["cannot zero", "Input/output error"],
            Leaves::Nothing,
        ),
        case(
            "a sector of the head, from the start",
            writes,
            IN_HEAD,
            EIO,
            &["offset 0", "Input/output error"],
            Leaves::Nothing,
        ),
        case(
            "a sector of the head, at the commit",
            writes,
            IN_HEAD,
            EIO,
            &["Input/output error"],
            Leaves::Nothing,
        )
        .from(1),
        case(
            "the first sector, at the commit",
            writes,
            0..1,
            EIO,
            &["offset 0", "Input/output error"],
            Leaves::Nothing,
        )
        .from(1),
        case(
            "the last sector, from the start",
            writes,
            AT_END,
            EIO,
            &["offset 7340032", "Input/output error"],
            Leaves::Nothing,
        ),
        case(
            "the last sector, at the commit",
            writes,
            AT_END,
            EIO,
            &["Input/output error"],
            Leaves::Nothing,
        )
        .from(1),
        broken_flush("the first flush", 0),
        broken_flush("the flush of the data", 1),
        broken_flush("a flush of the commit", 2),
        broken_flush("a later flush of the commit", 3),
        case(
            "the commit forgotten",
            writes,
            0..4096,
            Answer::Pretend,
            &["read back differently"],
            Leaves::Nothing,
        )
        .from(1),
        case(
            "the backup table forgotten",
            writes,
            AT_END,
            Answer::Pretend,
            &["read back differently"],
            Leaves::Nothing,
        )
        .from(1),
        case(
            "reading",
            reads,
            ALL,
            EIO,
            &["cannot read", "Input/output error"],
            Leaves::Nothing,
        ),
        case(
            "everything, from the start",
            changes,
            ALL,
            EIO,
            &["offset 0", "Input/output error"],
            Leaves::OldSystem,
        ),
    ]
}

#[test]
fn a_fault_at_any_place() {
    let before = full_system_image(DISK, 0x10);
    let image = system_image(IMAGE, 0x20);
    let server = Server::of(&image);
    let mut wrong = Vec::new();
    for case in cases() {
        let Some((disk, device)) = disk(&before) else {
            return;
        };
        let Case {
            name,
            from,
            kind,
            ref bytes,
            answer,
            expected_texts,
            ..
        } = case;
        let (bytes, mut left) = (bytes.clone(), from);
        disk.set_script(move |request| {
            if !kind(request) || !(request.touches(&bytes) || bytes.is_empty()) {
                return Answer::Do;
            }
            if left > 0 {
                left -= 1;
                return Answer::Do;
            }
            answer
        });
        let (well, text) = program::write(&server.url, device.path(), &[]);
        disk.set_script(|_| Answer::Do);
        drop(device);
        let after = disk.content();
        let found = Found::in_memory(&after);
        let body = MIB as usize..IMAGE - MIB as usize;
        let as_it_should = match case.leaves {
            Leaves::Nothing => !well && found == Found::NOTHING,
            Leaves::NewSystem => well && found == Found::ALL && after[body.clone()] == image[body],
            Leaves::OldSystem => !well && after == before,
        };
        if !as_it_should {
            wrong.push(format!("{name}: {found:?}, well: {well}\n{text}"));
        }
        // A failure must always name the disk.
        let name_of_disk = if well { "" } else { "/dev/loop" };
        for word in expected_texts.iter().chain([&name_of_disk]) {
            if !text.contains(word) {
                wrong.push(format!("{name}: expected '{word}' in\n{text}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// A loop device set to read-only. The flag would stay for the next user of the
/// device, so `drop` clears it.
struct ReadOnly(LoopDevice);

impl ReadOnly {
    fn set(device: LoopDevice) -> Self {
        let read_only = Self(device);
        assert!(read_only.blockdev("--setro"));
        read_only
    }

    fn blockdev(&self, option: &str) -> bool {
        let mut command = Command::new("/sbin/blockdev");
        let status = command.arg(option).arg(self.0.path()).status();
        status.is_ok_and(|status| status.success())
    }
}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        self.blockdev("--setrw");
    }
}

#[test]
fn a_read_only_disk() {
    let before = full_system_image(DISK, 0x10);
    let Some((disk, device)) = disk(&before) else {
        return;
    };
    let read_only = ReadOnly::set(device);
    let device = &read_only.0;
    let server = Server::of(&system_image(IMAGE, 0x20));
    let (well, text) = program::write(&server.url, device.path(), &[]);
    assert!(!well && text.contains("read-only"), "{text}");
    let path = device.path().display().to_string();
    assert!(text.contains(&path), "expected {path} in {text}");
    assert!(disk.content() == before, "the disk was written to");
}
