use std::io::Write as _;
use std::process::{Command, Stdio};

use landfall_sys::skip::skip;
use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
use proptest::prelude::*;

use super::*;

fn unpack(packed: &[u8]) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    Lz4Reader::new(packed).read_to_end(&mut out)?;
    Ok(out)
}

fn pack(info: FrameInfo, bytes: &[u8]) -> Vec<u8> {
    let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Text, incompressible noise and zeros; longer than the largest block.
fn sample() -> Vec<u8> {
    let mut state = 1u32;
    let mut bytes: Vec<u8> = (0..5 << 20)
        .map(|at: u32| match (at >> 16) % 3 {
            0 => (at % 200) as u8,
            1 => {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            }
            _ => 0,
        })
        .collect();
    bytes.truncate((5 << 20) - 77);
    bytes
}

/// A frame of one stored block.
fn stored(bytes: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82];
    frame.extend((bytes.len() as u32 | STORED).to_le_bytes());
    frame.extend(bytes);
    frame.extend([0; 4]);
    frame
}

#[test]
fn every_option_of_a_frame() {
    let sample = sample();
    for block_size in [BlockSize::Max64KB, BlockSize::Max256KB, BlockSize::Max4MB] {
        for mode in [BlockMode::Independent, BlockMode::Linked] {
            for (block_checksums, content_checksum, size) in [
                (false, false, None),
                (true, false, Some(sample.len() as u64)),
                (true, true, None),
            ] {
                let info = FrameInfo::new()
                    .block_size(block_size)
                    .block_mode(mode)
                    .block_checksums(block_checksums)
                    .content_checksum(content_checksum)
                    .content_size(size);
                assert!(unpack(&pack(info, &sample)).unwrap() == sample);
            }
        }
    }
}

#[test]
fn frames_of_the_real_lz4() {
    let sample = sample();
    for options in [
        &["-1"][..],
        &["-9"],
        &["-B4", "-BD"],
        &["-B5", "-BX"],
        &["--content-size", "-BD"],
        &["--no-frame-crc"],
    ] {
        let child = Command::new("lz4")
            .args(options)
            .args(["-z", "-c"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut child = match child {
            Ok(child) => child,
            Err(error) => return skip(format_args!("lz4: {error}")),
        };
        let mut input = child.stdin.take().unwrap();
        let bytes = sample.clone();
        let writer = std::thread::spawn(move || input.write_all(&bytes).unwrap());
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        assert!(output.status.success());
        assert!(unpack(&output.stdout).unwrap() == sample, "{options:?}");
    }
}

#[test]
fn skippable_frames_are_skipped() {
    let mut file = stored(b"first ");
    file.extend([0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3]);
    file.extend(stored(b"second"));
    assert_eq!(unpack(&file).unwrap(), b"first second");
    file.extend([0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2]);
    assert!(unpack(&file).is_err());
}

#[test]
fn a_faulty_frame_is_reported_with_the_reason() {
    let with = |at: usize, byte: u8| {
        let mut frame = stored(b"bytes");
        frame[at] = byte;
        frame
    };
    let legacy = [&[0x02, 0x21, 0x4c, 0x18][..], &[0; 30]].concat();
    let size = pack(
        FrameInfo::new()
            .content_size(Some(9))
            .content_checksum(false),
        b"only nine",
    );
    let mut wrong_size = size.clone();
    // Changes the size in the header and corrects the header checksum.
    wrong_size[6] = 8;
    wrong_size[14] = XxHash32::oneshot(0, &wrong_size[4..14]).to_le_bytes()[1];
    for (file, word) in [
        (legacy, "legacy"),
        (with(4, 0x61), "dictionary"),
        (with(4, 0xa0), "unknown kind"),
        (with(5, 0x41), "unknown kind"),
        (with(5, 0x30), "blocks of size"),
        (with(6, 0), "checksum"),
        (with(9, 2), "at most"),
        (wrong_size, "expected 8 bytes"),
    ] {
        let error = unpack(&file).unwrap_err().to_string();
        assert!(error.contains(word), "{word}: {error}");
    }
    assert_eq!(unpack(&size).unwrap(), b"only nine");
}

/// The reader of lz4_flex does not notice that the end mark is missing.
#[test]
fn cut_off_between_two_blocks() {
    let frame = stored(b"bytes");
    for keep in 1..frame.len() {
        assert!(unpack(&frame[..keep]).is_err(), "{keep}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Linked blocks of any length, so that the dictionary has any length too.
    #[test]
    fn any_lengths(lengths in proptest::collection::vec(1usize..100_000, 1..8)) {
        let info = FrameInfo::new().block_mode(BlockMode::Linked).content_checksum(true);
        let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
        let mut all = Vec::new();
        for length in lengths {
            let bytes: Vec<u8> = (0..length).map(|at| (at % 200) as u8 ^ (at >> 13) as u8).collect();
            encoder.write_all(&bytes).unwrap();
            // Ends the block.
            encoder.flush().unwrap();
            all.extend(bytes);
        }
        let packed = encoder.finish().unwrap();
        prop_assert!(unpack(&packed).unwrap() == all);
    }
}
