mod made_by_hand;

use std::path::Path;

use super::*;
use crate::fixtures::run;
use crate::image::pipeline::UNIT;

const MIB: u64 = 1 << 20;

/// The disk inside, in memory. Fails if a sector is written twice.
struct Memory {
    disk: Vec<u8>,
    written: Vec<bool>,
}

impl Sink for Memory {
    fn put(&mut self, guest: u64, bytes: &[u8]) -> Result<()> {
        assert!(guest >= HEAD_END, "the head is not written");
        let range = guest as usize..guest as usize + bytes.len();
        // Counts sectors, the smallest unit of the model.
        for sector in range.start / 512..range.end.div_ceil(512) {
            assert!(!self.written[sector], "sector {sector} is written twice");
            self.written[sector] = true;
        }
        self.disk[range].copy_from_slice(bytes);
        Ok(())
    }
}

/// How much was read to assemble a disk.
#[derive(Debug, Default, PartialEq, Eq)]
struct Reads {
    /// Pieces that were fetched again.
    again: usize,
    /// Passes over the whole file.
    whole: usize,
    passes: u32,
}

/// Assembles the disk inside the file like `write_image` does.
fn assemble(file: &[u8], length_known: bool) -> Result<(Vec<u8>, Reads)> {
    // The tests with an unknown length use three threads, the others unpack without
    // threads, so that both code paths are covered.
    assemble_in(
        file,
        length_known,
        MOST_EXTENTS,
        if length_known { 1 } else { 3 },
    )
}

fn assemble_in(
    file: &[u8],
    length_known: bool,
    room: usize,
    threads: usize,
) -> Result<(Vec<u8>, Reads)> {
    let header = Header::parse(file).map_err(invalid)?;
    assert!(header.size <= 1 << 30, "a test wants to be small");
    let size = header.size as usize;
    let mut reads = Reads::default();
    let mut sink = Memory {
        disk: vec![0; size],
        written: vec![false; size.div_ceil(512)],
    };
    let mut assembly = Assembly::new(header, length_known.then_some(file.len() as u64), threads)?;
    assembly.room = room;
    let mut begun = false;
    let mut whole = |assembly: &mut Assembly, sink: &mut Memory, begun: &mut bool| {
        reads.whole += 1;
        for offset in (0..file.len()).step_by(UNIT) {
            assembly.take(piece(file, offset))?;
            step(assembly, sink, begun)?;
        }
        assembly.file_ends()?;
        step(assembly, sink, begun)
    };
    whole(&mut assembly, &mut sink, &mut begun)?;
    let mut again = 0;
    while assembly.begin_pass()? {
        loop {
            match assembly.next(begun) {
                Next::Nothing => break,
                Next::WholeFile => {
                    whole(&mut assembly, &mut sink, &mut begun)?;
                    break;
                }
                Next::Piece(offset, expected) => {
                    let piece = piece(file, offset as usize);
                    assert_eq!(fingerprint(piece.bytes()), expected);
                    again += 1;
                    assembly.take(piece)?;
                    step(&mut assembly, &mut sink, &mut begun)?;
                }
            }
        }
    }
    assert!(begun, "the head was never complete");
    reads.again = again;
    reads.passes = assembly.passes;
    assert!(assembly.noted() == 0);
    Ok((sink.disk, reads))
}

fn step(assembly: &mut Assembly, sink: &mut Memory, begun: &mut bool) -> Result<()> {
    if !*begun && let Some((head, len)) = assembly.head() {
        sink.disk[..len].copy_from_slice(&head[..len]);
        *begun = true;
    }
    if *begun {
        assembly.write(sink)?;
    }
    Ok(())
}

fn piece(file: &[u8], offset: usize) -> Piece {
    let bytes = &file[offset..file.len().min(offset + UNIT)];
    let mut buffer = AlignedBuffer::zeroed(UNIT);
    buffer[..bytes.len()].copy_from_slice(bytes);
    Piece::new(offset as u64, buffer, bytes.len())
}

/// A raw disk of 40 MiB with text, noise and holes. Its size is not a multiple of
/// the cluster size.
fn sample() -> Vec<u8> {
    let mut disk = vec![0; 40 * MIB as usize + 512 * 7];
    let mut state = 1u32;
    let mut noise = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    for (start, len) in [
        (0, 3000),
        (512 << 10, 700 << 10),
        (3 << 20, 9 << 20),
        (13 << 20, 4096),
        ((40 << 20) + 1000, 2000),
    ] {
        for (at, byte) in disk[start..start + len].iter_mut().enumerate() {
            *byte = noise();
            // Half of the data is compressible.
            if (at >> 14) % 2 == 0 {
                *byte &= 3;
            }
        }
    }
    disk
}

/// A file as a virtual machine writes it: from its end to its start, in random places,
/// repeatedly, with snapshots and with a longer L1 table that was added later. The
/// function also returns the disk inside, as qemu-img reads it.
fn rewritten(directory: &Path, options: &str) -> Option<(Vec<u8>, Vec<u8>)> {
    let file = directory.join("rewritten.qcow2");
    let raw = directory.join("rewritten.raw");
    let (file, raw) = (file.to_str().unwrap(), raw.to_str().unwrap());
    run(
        "qemu-img",
        &["create", "-f", "qcow2", "-o", options, file, "20M"],
    )?;
    let mut place = 1u64;
    for round in 0..3 {
        // Skips flushes, because the file need not survive a crash.
        let mut arguments = vec!["-t".to_owned(), "unsafe".to_owned()];
        for step in 0..150 {
            place = place * 48_271 % 0x7fff_ffff;
            let (at, len) = match round {
                0 => ((149 - step) * 128, 64 + step % 9),
                _ => (place % 19_000, place % 170 + 1),
            };
            let verb = match place % 7 {
                0 => "write -z",
                1 => "discard",
                _ => "write -P 0x5a",
            };
            arguments.push("-c".to_owned());
            arguments.push(format!("{verb} {at}k {len}k"));
        }
        arguments.push(file.to_owned());
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        run("qemu-io", &arguments)?;
        if round == 0 {
            run("qemu-img", &["snapshot", "-c", "one", file])?;
        }
        if round == 1 {
            run("qemu-img", &["snapshot", "-d", "one", file])?;
            run("qemu-img", &["resize", file, "+200M"])?;
            run("qemu-io", &["-c", "write -P 7 210M 3M", file])?;
        }
    }
    run("qemu-img", &["convert", "-O", "raw", file, raw])?;
    Some((std::fs::read(file).unwrap(), std::fs::read(raw).unwrap()))
}

#[test]
fn a_file_in_any_order_equals_what_qemu_img_reads() {
    let directory = tempfile::tempdir().unwrap();
    for options in [
        "cluster_size=64k",
        "cluster_size=2M",
        "cluster_size=4k",
        "cluster_size=512",
        "cluster_size=64k,extended_l2=on",
        "cluster_size=64k,compat=0.10",
    ] {
        let Some((file, raw)) = rewritten(directory.path(), options) else {
            return;
        };
        for length_known in [true, false] {
            let (disk, reads) = assemble(&file, length_known).unwrap();
            assert!(disk == raw, "{options}");
            assert_eq!(reads.whole, 1, "{options}: {reads:?}");
        }
    }
}
