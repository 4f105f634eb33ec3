use std::path::Path;
use std::process::Command;

use landfall_report::failure::Class;
use landfall_sys::skip::skip;
use proptest::prelude::*;

use super::*;
use crate::image::pipeline::UNIT;
use crate::image::qcow2::header::Compression;

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
    // Uses threads only if the length is unknown, so that the tests cover both
    // ways.
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

/// Returns `None`, with a printed reason, if the program is missing.
fn run(program: &str, arguments: &[&str]) -> Option<()> {
    match Command::new(program).args(arguments).output() {
        Ok(output) => {
            assert!(
                output.status.success(),
                "{program} {arguments:?}: {output:?}"
            );
            Some(())
        }
        Err(error) => {
            skip(format_args!("{program}: {error}"));
            None
        }
    }
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

/// The sample disk, converted by qemu-img with these options.
fn by_qemu_img(directory: &Path, options: &[&str]) -> Option<Vec<u8>> {
    let raw = directory.join("disk.raw");
    if !raw.exists() {
        std::fs::write(&raw, sample()).unwrap();
    }
    let packed = directory.join("disk.qcow2");
    let mut arguments = vec!["convert", "-f", "raw", "-O", "qcow2"];
    arguments.extend(options);
    arguments.extend([raw.to_str().unwrap(), packed.to_str().unwrap()]);
    run("qemu-img", &arguments)?;
    Some(std::fs::read(packed).unwrap())
}

#[test]
fn everything_that_qemu_img_makes_takes_one_pass() {
    let directory = tempfile::tempdir().unwrap();
    let sample = sample();
    for options in [
        &[][..],
        &["-c"],
        &["-c", "-o", "compression_type=zstd"],
        &["-o", "compat=0.10"],
        &["-c", "-o", "compat=0.10"],
        &["-o", "cluster_size=512"],
        &["-c", "-o", "cluster_size=512"],
        &["-o", "cluster_size=4k"],
        &["-o", "cluster_size=1M"],
        &["-o", "cluster_size=2M"],
        &["-c", "-o", "cluster_size=2M"],
        &["-c", "-o", "cluster_size=2M,compression_type=zstd"],
        &["-o", "extended_l2=on"],
        &["-o", "extended_l2=on,cluster_size=16k"],
        &["-c", "-o", "extended_l2=on,cluster_size=128k"],
        &["-S", "0"],
        &["-o", "preallocation=metadata"],
        &["-o", "preallocation=full"],
        &["-o", "lazy_refcounts=on,refcount_bits=1"],
    ] {
        let Some(file) = by_qemu_img(directory.path(), options) else {
            return;
        };
        for length_known in [true, false] {
            let (disk, reads) = assemble(&file, length_known).unwrap();
            assert!(disk == sample, "{options:?}");
            // qemu-img writes with several threads, so the order of the clusters
            // varies.
            assert!(reads.whole == 1, "{options:?}: {reads:?}");
            assert!(reads.again < 4, "{options:?}: {reads:?}");
        }
    }
}

/// A file that was written like by a virtual machine: from its end to its start, in
/// random places, repeatedly, with snapshots and with a longer L1 table that was
/// added later. Also returns the disk inside, as qemu-img reads it.
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

/// A file whose tables are made by hand. Its clusters have 64 KiB and may be in any
/// order.
struct HandMade {
    file: Vec<u8>,
}

const CLUSTER: usize = 65536;

impl HandMade {
    /// An empty file of this many clusters. The L1 table is cluster `l1`.
    fn new(clusters: usize, size: u64, l1: usize) -> Self {
        let mut file = vec![0; clusters * CLUSTER];
        file[..4].copy_from_slice(b"QFI\xfb");
        file[7] = 3;
        file[23] = 16;
        file[24..32].copy_from_slice(&size.to_be_bytes());
        file[36..40].copy_from_slice(&1u32.to_be_bytes());
        file[40..48].copy_from_slice(&((l1 * CLUSTER) as u64).to_be_bytes());
        file[103] = 112;
        Self { file }
    }

    fn entry(&mut self, table: usize, index: usize, value: u64) {
        let at = table * CLUSTER + index * 8;
        self.file[at..at + 8].copy_from_slice(&value.to_be_bytes());
    }

    fn fill(&mut self, cluster: usize, byte: u8) {
        self.file[cluster * CLUSTER..][..CLUSTER].fill(byte);
    }
}

fn place(cluster: usize) -> u64 {
    (cluster * CLUSTER) as u64
}

/// A file with its tables at the very end, behind data in reverse order, and the
/// disk inside.
fn backwards() -> (HandMade, Vec<u8>) {
    let mut made = HandMade::new(203, 20 * MIB, 202);
    let mut disk = vec![0; 20 * MIB as usize];
    made.entry(202, 0, place(201));
    for guest in 0..190 {
        let host = 200 - guest;
        made.fill(host, guest as u8 + 1);
        made.entry(201, guest, place(host));
        disk[guest * CLUSTER..][..CLUSTER].fill(guest as u8 + 1);
    }
    (made, disk)
}

#[test]
fn tables_at_the_end_cost_a_second_reading_and_no_more() {
    let (made, disk) = backwards();
    let (found, reads) = assemble(&made.file, true).unwrap();
    assert!(found == disk);
    // The head is the last MiB of the data, so it is still in the window when the
    // tables come.
    assert_eq!((reads.whole, reads.passes), (1, 2), "{reads:?}");
    assert!(reads.again <= 13, "{reads:?}");
}

#[test]
fn clusters_may_be_shared() {
    let mut made = HandMade::new(60, 8 * MIB, 1);
    made.entry(1, 0, place(2));
    for guest in 0..100 {
        made.entry(2, guest, place(3));
    }
    made.fill(3, 9);
    let (disk, reads) = assemble(&made.file, true).unwrap();
    assert!(disk[..100 * CLUSTER].iter().all(|&byte| byte == 9));
    assert!(disk[100 * CLUSTER..].iter().all(|&byte| byte == 0));
    assert_eq!((reads.whole, reads.again), (1, 0));
}

/// The agent keeps no fingerprint of a piece that it used completely. If a late
/// table needs that piece again, the agent reads the whole file and checks its
/// digest.
#[test]
fn shared_with_a_late_table() {
    let mut made = HandMade::new(100, 1 << 30, 1);
    made.file[36..40].copy_from_slice(&2u32.to_be_bytes());
    made.entry(1, 0, place(2));
    made.entry(1, 1, place(99));
    for guest in 0..90 {
        made.entry(2, guest, place(3 + guest));
        made.fill(3 + guest, guest as u8 + 1);
    }
    made.entry(99, 5, place(40));
    let (disk, reads) = assemble(&made.file, true).unwrap();
    assert_eq!(disk[(8192 + 5) * CLUSTER], 38);
    assert_eq!((reads.whole, reads.again), (2, 0));
}

#[test]
fn what_names_no_place_of_the_file_is_an_error() {
    type Change = fn(&mut HandMade);
    let changes: [(Change, &str); 7] = [
        (|made| made.entry(202, 0, place(203)), "ends at byte"),
        (|made| made.entry(201, 3, place(203)), "ends at byte"),
        (
            |made| made.entry(201, 3, 1 << 62 | place(203)),
            "ends at byte",
        ),
        (|made| made.entry(201, 3, 0x50200), "invalid offset"),
        (|made| made.entry(202, 0, 0x50200), "invalid offset"),
        (|made| made.entry(201, 3, 1 << 62 | place(10)), "unpacking"),
        (|made| made.file.truncate(201 * CLUSTER), "ends at byte"),
    ];
    for (change, word) in changes {
        let mut made = backwards().0;
        change(&mut made);
        for length_known in [true, false] {
            let failure = assemble(&made.file, length_known).unwrap_err();
            assert_eq!(failure.class, Class::InvalidImage);
            assert!(failure.details.contains(word), "{word}: {failure}");
        }
    }
}

/// QEMU reads zeros behind the end of a file, so the end of the last cluster may be
/// missing.
#[test]
fn the_last_cluster_may_be_cut_short() {
    let mut made = HandMade::new(5, 3 * MIB, 1);
    made.entry(1, 0, place(2));
    made.entry(2, 20, place(3));
    made.entry(2, 0, place(4));
    made.fill(3, 3);
    made.fill(4, 4);
    made.file.truncate(4 * CLUSTER + 1000);
    for length_known in [true, false] {
        let (disk, _) = assemble(&made.file, length_known).unwrap();
        assert!(disk[..1000].iter().all(|&byte| byte == 4));
        assert!(disk[1000..CLUSTER].iter().all(|&byte| byte == 0));
    }
    made.file.truncate(4 * CLUSTER);
    assert!(assemble(&made.file, true).is_err());
}

/// Tables with more extents than the limit are read in parts.
#[test]
fn more_extents_than_there_is_room_for() {
    let (made, disk) = backwards();
    for (room, passes) in [(1000, 2), (60, 6), (4, 100)] {
        match assemble_in(&made.file, true, room, 1) {
            Ok((found, reads)) => {
                assert!(found == disk);
                assert!(reads.passes <= passes, "{room}: {reads:?}");
            }
            Err(failure) => assert!(failure.details.contains("out of order"), "{failure}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Clusters in any order: plain, zero, unallocated and shared.
    #[test]
    fn any_order(
        order in proptest::collection::vec((0usize..160, 0u8..4), 160),
        (l1, l2) in (1usize..164, 1usize..164).prop_filter("two places", |(a, b)| a != b),
        length_known: bool,
    ) {
        let mut made = HandMade::new(164, 10 * MIB, l1);
        let mut disk = vec![0; 10 * MIB as usize];
        made.entry(l1, 0, place(l2));
        for (guest, (host, kind)) in order.into_iter().enumerate() {
            // The header and the tables are not data.
            let host = 1 + host;
            if host == l1 || host == l2 || kind == 0 {
                made.entry(l2, guest, 1);
            } else if kind > 1 {
                made.fill(host, host as u8);
                made.entry(l2, guest, place(host));
                disk[guest * CLUSTER..][..CLUSTER].fill(host as u8);
            }
        }
        let (found, _) = assemble(&made.file, length_known).unwrap();
        prop_assert!(found == disk);
    }

    /// A damaged file results in a disk or an error, never in a panic.
    #[test]
    fn damaged_files(
        kind in 0usize..3,
        places in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..6),
        in_tables: bool,
        keep in any::<proptest::sample::Index>(),
        cut: bool,
    ) {
        let mut file = match kind {
            0 => backwards().0.file,
            1 => small_compressed(Compression::Zlib),
            _ => small_compressed(Compression::Zstd),
        };
        let tables = if kind == 0 { 201 * CLUSTER } else { CLUSTER };
        for (place, byte) in places {
            let place = if in_tables {
                tables + place.index(2 * CLUSTER) / 64
            } else {
                place.index(file.len())
            };
            file[place] = byte;
        }
        if cut {
            file.truncate(keep.index(file.len()).max(112));
        }
        let small = Header::parse(&file).is_ok_and(|header| header.size <= 1 << 30);
        if small {
            let _ = assemble(&file, cut);
        }
    }
}

/// 2 MiB of data in compressed clusters without gaps.
fn small_compressed(compression: Compression) -> Vec<u8> {
    use std::io::Write as _;
    let mut made = HandMade::new(3, 2 * MIB, 1);
    made.entry(1, 0, place(2));
    if compression == Compression::Zstd {
        (made.file[79], made.file[104]) = (8, 1);
    }
    for (guest, cluster) in sample()[3 << 20..5 << 20].chunks(CLUSTER).enumerate() {
        let packed = match compression {
            Compression::Zlib => {
                let level = flate2::Compression::fast();
                let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), level);
                encoder.write_all(cluster).unwrap();
                encoder.finish().unwrap()
            }
            Compression::Zstd => zstd::bulk::compress(cluster, 1).unwrap(),
        };
        let host = made.file.len() as u64;
        let sectors = (host % 512 + packed.len() as u64).div_ceil(512) - 1;
        made.entry(2, guest, 1 << 62 | sectors << 54 | host);
        made.file.extend(packed);
    }
    made.file
}

#[test]
fn compressed_clusters_made_by_hand() {
    for compression in [Compression::Zlib, Compression::Zstd] {
        for length_known in [true, false] {
            let (disk, reads) = assemble(&small_compressed(compression), length_known).unwrap();
            assert!(disk == sample()[3 << 20..5 << 20]);
            assert_eq!((reads.whole, reads.again), (1, 0));
        }
    }
}

/// The error names the broken cluster, whichever thread unpacks it.
#[test]
fn a_broken_cluster_is_named() {
    let mut file = small_compressed(Compression::Zlib);
    let place = u64::from_be_bytes(file[2 * CLUSTER + 8 * 20..][..8].try_into().unwrap());
    let host = place & ((1 << 54) - 1);
    file[host as usize] = 7;
    for length_known in [true, false] {
        let failure = assemble(&file, length_known).unwrap_err();
        let named = format!("at byte {host} for byte {}", 20 * CLUSTER);
        assert!(failure.details.contains(&named), "{failure}");
    }
}
