//! Files whose tables are made by hand.

use landfall_report::failure::Class;
use proptest::prelude::*;

use super::*;
use crate::image::qcow2::header::Compression;

/// A file whose tables the test makes by hand. Its clusters are 64 KiB long and may be
/// in any order.
struct HandMade {
    file: Vec<u8>,
}

const CLUSTER: usize = 65536;

impl HandMade {
    /// A file of `clusters` clusters without any data, for a disk of `size` bytes. The L1
    /// table is cluster `l1`.
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
    // The first MiB of the disk is the last MiB of the data in the file, so it is still
    // in the window when the agent reaches the tables.
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
fn an_entry_outside_the_file_is_an_error() {
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
        (
            |made| made.entry(201, 3, 1 << 62 | place(10)),
            "cannot unpack",
        ),
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

/// The file ends within an entry of a table. No later pass could read the rest of that
/// entry, so the agent must fail at once.
#[test]
fn a_file_that_ends_within_an_entry_of_a_table_is_truncated() {
    for (bit, entry_len) in [(0, 8), (0x10, 16)] {
        for (l1, l2, len) in [
            (1, 2, 2 * CLUSTER + 5 * entry_len + 4),
            (1, 2, 2 * CLUSTER + 4),
            (2, 1, 2 * CLUSTER + 4),
        ] {
            let mut made = HandMade::new(3, 3 * MIB, l1);
            made.file[79] = bit;
            made.entry(l1, 0, place(l2));
            made.file.truncate(len);
            for length_known in [true, false] {
                let failure = assemble(&made.file, length_known).unwrap_err();
                assert!(failure.details.contains("ends at byte"), "{failure}");
            }
        }
    }
}

/// The noted extents of the second half of the disk leave no room to note the table of
/// the first half. The agent cannot write anything before it has read that table, so
/// further passes would not help.
#[test]
fn a_pass_that_reads_no_entry_is_the_last_one() {
    let mut made = HandMade::new(200, 1 << 30, 1);
    made.file[36..40].copy_from_slice(&2u32.to_be_bytes());
    made.entry(1, 0, place(3));
    made.entry(1, 1, place(2));
    for guest in 0..190 {
        made.entry(2, guest, place(199 - guest));
    }
    made.entry(3, 0, place(4));
    let failure = assemble_in(&made.file, false, 60, 1).unwrap_err();
    let expected = "out of order: gave up after 2 passes";
    assert!(failure.details.contains(expected), "{failure}");
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
