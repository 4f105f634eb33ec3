//! Writes random images to random disks, with random compression and transfer. Every
//! byte of the disk must match a model. The model follows the GPT specification (UEFI
//! 2.10, 5.3) and shares no code with the agent.

use std::sync::atomic::{AtomicUsize, Ordering};

use nix::errno::Errno;

use super::transfer_faults::chunked;
use super::*;
use crate::fixtures::{Answer, DiskRequest, FaultyDisk};

#[derive(Debug, Clone)]
struct Case {
    sector: u32,
    has_gpt: bool,
    /// Size in sectors.
    image: usize,
    /// How many more sectors the disk has than the image.
    more: usize,
    /// Runs of data: start in 65536ths of the data area, length in units of 37
    /// bytes, first byte value.
    runs: Vec<(u16, u16, u8)>,
    old: u8,
    packing: Packing,
    /// Bytes after which each successive connection breaks.
    cuts: Vec<usize>,
    chunks: Option<Vec<usize>>,
    medium: Medium,
}

#[derive(Debug, Clone, Copy)]
enum Medium {
    Plain,
    /// Accepts at most this many bytes of each write.
    Short(usize),
    /// Does not support zeroing.
    NoZeroing,
    /// Executes this many zero requests, then reports success without zeroing.
    NoMoreZeroing(usize),
}

fn case() -> impl Strategy<Value = Case> {
    let runs = proptest::collection::vec((any::<u16>(), 1u16..9000, any::<u8>()), 0..8);
    let medium = prop_oneof![
        3 => Just(Medium::Plain),
        2 => (1usize..300_000).prop_map(Medium::Short),
        1 => Just(Medium::NoZeroing),
        1 => (0usize..2).prop_map(Medium::NoMoreZeroing),
    ];
    let packing = prop_oneof![
        Just(Packing::Raw),
        Just(Packing::Gzip),
        Just(Packing::Xz),
        Just(Packing::Zstd),
    ];
    let cuts = proptest::collection::vec(1usize..2_000_000, 0..4);
    let chunks = proptest::option::of(proptest::collection::vec(1usize..200_000, 1..5));
    let disk = (
        any::<bool>(),
        any::<bool>(),
        400usize..1000,
        prop_oneof![Just(0), 0usize..300],
    );
    (disk, runs, 1u8.., packing, cuts, chunks, medium).prop_map(
        |((large, has_gpt, image, more), runs, old, packing, cuts, chunks, medium)| {
            let sector = if large { 4096 } else { 512 };
            let scale = 4096 / sector as usize;
            // The smallest accepted disk has 4 MiB. Sizes are not round numbers, as
            // on real disks.
            let image = image * scale + usize::from(!large && has_gpt);
            let more = (more * scale).max((1024 * scale).saturating_sub(image));
            Case {
                sector,
                has_gpt,
                image,
                more,
                runs,
                old,
                packing,
                cuts,
                chunks,
                medium,
            }
        },
    )
}

impl Case {
    fn image(&self) -> Vec<u8> {
        let (sector, size) = (self.sector as usize, self.image * self.sector as usize);
        let mut image = if self.has_gpt {
            gpt_image(size as u64, self.sector)
        } else {
            let mut image = vec![0; size];
            image[..440].fill(0x90);
            put_mbr(&mut image, &[(0x83, 64, (size / 512 - 64) as u32)]);
            image
        };
        let data = 64 * sector..size - 40 * sector;
        for (at, len, byte) in &self.runs {
            let from = data.start + data.len() * usize::from(*at) / 65536;
            let to = (from + usize::from(*len) * 37).min(data.end);
            for (place, value) in image[from..to].iter_mut().enumerate() {
                *value = byte.wrapping_add((place / 7) as u8);
            }
        }
        image
    }

    fn body(&self, image: &[u8]) -> Vec<u8> {
        match self.packing {
            Packing::Gzip => {
                // A gzip file of several members, as pigz and cat produce it.
                let (first, second) = image.split_at(image.len() / 3);
                [gzip(first), gzip(second)].concat()
            }
            other => pack(other, image),
        }
    }

    /// The expected content of the whole disk after the installation.
    fn model(&self, image: &[u8]) -> Vec<u8> {
        let (sector, size) = (
            self.sector as usize,
            (self.image + self.more) * self.sector as usize,
        );
        let mut disk = vec![self.old; size];
        disk[..MIB as usize].fill(0);
        disk[size - MIB as usize..].fill(0);
        disk[..image.len()].copy_from_slice(image);
        if self.has_gpt {
            let last = (self.image + self.more - 1) as u64;
            move_gpt(&mut disk, image, sector, last);
        }
        disk
    }
}

/// Adjusts the GPT of an image to a disk whose last sector is `last`.
fn move_gpt(disk: &mut [u8], image: &[u8], sector: usize, last: u64) {
    let table = 128 * 128;
    let entries = image[2 * sector..2 * sector + table].to_vec();
    let first_of_backup = last - (table / sector) as u64;
    // The new backup may overlap the old one, so clear both. The image has no other data
    // from the start of the new backup on.
    let begin = first_of_backup as usize * sector;
    disk[begin..].fill(0);
    let sealed = |own: u64, other: u64, entries_at: u64| {
        let mut header = image[sector..2 * sector].to_vec();
        for (at, value) in [
            (24, own),
            (32, other),
            (48, first_of_backup - 1),
            (72, entries_at),
        ] {
            header[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        header[16..20].fill(0);
        let sum = crc32(&header[..92]);
        header[16..20].copy_from_slice(&sum.to_le_bytes());
        header
    };
    disk[sector..2 * sector].copy_from_slice(&sealed(1, last, 2));
    disk[begin..begin + table].copy_from_slice(&entries);
    disk[last as usize * sector..].copy_from_slice(&sealed(last, 1, first_of_backup));
    // The protective MBR spans the disk.
    let size = (last as u32).to_le_bytes();
    if disk[458..462] != size {
        disk[458..462].copy_from_slice(&size);
        disk[451..454].fill(0xff);
    }
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, &byte| {
        (0..8).fold(sum ^ u32::from(byte), |sum, _| {
            (sum >> 1) ^ (0xedb8_8320 * (sum & 1))
        })
    })
}

enum Disk {
    File(NamedTempFile),
    Faulty(FaultyDisk),
}

impl Disk {
    /// Falls back to a plain file if FUSE is not available.
    fn new(content: Vec<u8>, medium: Medium) -> Self {
        let mut zeroed = 0;
        let script = move |request: &DiskRequest| match (medium, request) {
            (Medium::Short(len), DiskRequest::Write(_)) => Answer::Part(len),
            (Medium::NoZeroing, DiskRequest::Zero(_)) => Answer::Fail(Errno::EOPNOTSUPP),
            (Medium::NoMoreZeroing(after), DiskRequest::Zero(_)) => {
                zeroed += 1;
                if zeroed > after {
                    Answer::Pretend
                } else {
                    Answer::Do
                }
            }
            _ => Answer::Do,
        };
        if !matches!(medium, Medium::Plain) {
            match FaultyDisk::start(content.clone(), script) {
                Ok(disk) => return Self::Faulty(disk),
                Err(why) => skip(format_args!("FUSE: {why}; a plain file does it instead")),
            }
        }
        let file = NamedTempFile::new().unwrap();
        std::fs::write(file.path(), content).unwrap();
        Self::File(file)
    }

    fn path(&self) -> &Path {
        match self {
            Self::File(file) => file.path(),
            Self::Faulty(disk) => disk.path(),
        }
    }

    fn content(&self) -> Vec<u8> {
        match self {
            Self::File(file) => content(file),
            Self::Faulty(disk) => disk.content(),
        }
    }
}

fn serve(body: Vec<u8>, case: &Case) -> Server {
    let (cuts, chunks) = (case.cuts.clone(), case.chunks.clone());
    let answers = AtomicUsize::new(0);
    Server::start(move |asked| {
        let mut reply = Reply::correct(&body, "\"1\"", asked);
        if let Some(sizes) = &chunks {
            reply = chunked(reply, sizes);
        }
        match cuts.get(answers.fetch_add(1, Ordering::Relaxed)) {
            Some(&cut) => {
                let len = reply.body.len();
                reply.cut(cut % len)
            }
            None => reply,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn whole_disk_is_as_the_model_says(case in case()) {
        let image = case.image();
        let body = case.body(&image);
        let server = serve(body.clone(), &case);
        let expected = case.model(&image);
        let disk = Disk::new(vec![case.old; expected.len()], case.medium);
        let target = open(disk.path(), case.sector);
        let proven = write_image(&source(&server, Some(sha256(&body))), target, &http_client());
        proven.and_then(ProvenImage::commit).map_err(|failure| TestCaseError::fail(failure.to_string()))?;
        let differs = disk.content().iter().zip(&expected).position(|(a, b)| a != b);
        prop_assert_eq!(differs, None, "first differing byte of {}", expected.len());
    }
}
