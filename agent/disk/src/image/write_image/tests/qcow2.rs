//! qcow2 images made by qemu-img, over HTTP.

use super::*;
use crate::fixtures::run;

/// The image as a qcow2 file made by qemu-img. `None` if qemu-img is missing.
pub(super) fn packed(image: &[u8], options: &[&str]) -> Option<Vec<u8>> {
    let directory = tempfile::tempdir().unwrap();
    let (raw, file) = (directory.path().join("raw"), directory.path().join("qcow2"));
    std::fs::write(&raw, image).unwrap();
    let convert = ["convert", "-f", "raw", "-O", "qcow2"];
    let files = [raw.to_str().unwrap(), file.to_str().unwrap()];
    run("qemu-img", &[&convert, options, &files].concat())?;
    Some(std::fs::read(file).unwrap())
}

/// Reverses the order of the clusters: the tables come after the data, and the data
/// runs from its end to its start. Only for files without compression.
fn reversed(file: &[u8]) -> Vec<u8> {
    const CLUSTER: usize = 65536;
    let long = |at: usize| u64::from_be_bytes(file[at..at + 8].try_into().unwrap());
    let clusters = file.len() / CLUSTER;
    let moved = |offset: u64| {
        let cluster = (offset & 0x00ff_ffff_ffff_fe00) as usize / CLUSTER;
        (((clusters - cluster) * CLUSTER) as u64) | (1 << 63)
    };
    let mut out = vec![0; (clusters) * CLUSTER];
    out[..CLUSTER].copy_from_slice(&file[..CLUSTER]);
    for cluster in 1..clusters {
        let to = (clusters - cluster) * CLUSTER;
        out[to..to + CLUSTER].copy_from_slice(&file[cluster * CLUSTER..][..CLUSTER]);
    }
    let l1 = long(40) as usize;
    let new_l1 = moved(l1 as u64) & !(1 << 63);
    out[40..48].copy_from_slice(&new_l1.to_be_bytes());
    for index in 0..u32::from_be_bytes(file[36..40].try_into().unwrap()) as usize {
        let l2 = long(l1 + 8 * index);
        if l2 == 0 {
            continue;
        }
        let at = new_l1 as usize + 8 * index;
        out[at..at + 8].copy_from_slice(&moved(l2).to_be_bytes());
        let (from, to) = (
            (l2 & 0x00ff_ffff_ffff_fe00) as usize,
            (moved(l2) & !(1 << 63)) as usize,
        );
        for entry in 0..CLUSTER / 8 {
            let value = long(from + 8 * entry);
            if value > 1 {
                let at = to + 8 * entry;
                out[at..at + 8].copy_from_slice(&moved(value).to_be_bytes());
            }
        }
    }
    out
}

/// 24 MiB. Half of it is data without runs of zeros.
fn large_image() -> Vec<u8> {
    let mut image = gpt_image(24 * MIB, 512);
    for (at, byte) in image[8 * MIB as usize..20 * MIB as usize]
        .iter_mut()
        .enumerate()
    {
        *byte = (at % 253) as u8 ^ (at >> 13) as u8;
    }
    image
}

#[test]
fn onto_a_loop_device_of_each_sector_size() {
    for sector in [512, 4096] {
        let image = gpt_image(24 * MIB, sector);
        let Some(body) = packed(&image, &["-c"]) else {
            return;
        };
        let file = disk(32 * MIB);
        let Some(device) = loop_device(file.path(), sector) else {
            return;
        };
        let permission = WritePermission::by_operator();
        let target = Target::open(device.path(), &permission).unwrap();
        let source = source(&Server::of(&body), Some(sha256(&body)));
        let proven = write_image(&source, target, &http_client()).unwrap();
        proven.commit().unwrap();
        drop(device);
        let content = content(&file);
        let end = 23 * MIB as usize;
        assert!(content[MIB as usize..end] == image[MIB as usize..end]);
        let table = Table::parse(&content[..MIB as usize], sector).unwrap();
        assert_eq!(table.image_size(), 32 * MIB);
    }
}

/// Moves some L2 tables to the end of the file.
fn with_late_tables(file: &[u8], cluster: usize, tables: &[usize]) -> Vec<u8> {
    let mut out = file.to_vec();
    out.resize(file.len().next_multiple_of(cluster), 0);
    let l1 = u64::from_be_bytes(file[40..48].try_into().unwrap()) as usize;
    for table in tables {
        let at = l1 + 8 * table;
        let entry = u64::from_be_bytes(file[at..at + 8].try_into().unwrap());
        let from = (entry & 0x00ff_ffff_ffff_fe00) as usize;
        let moved = out.len() as u64 | 1 << 63;
        out[at..at + 8].copy_from_slice(&moved.to_be_bytes());
        out.extend_from_slice(&file[from..from + cluster]);
        out[from..from + cluster].fill(0xee);
    }
    out
}

#[test]
fn early_clusters_are_fetched_again_by_range() {
    let image = large_image();
    let Some(body) = packed(&image, &["-o", "cluster_size=4k"]) else {
        return;
    };
    // Each of these L2 tables maps 2 MiB, at 8 and 16 MiB of the disk.
    let body = with_late_tables(&body, 4096, &[4, 8]);
    let server = Server::of(&body);
    let disk = disk(30 * MIB);
    write(&server, &body, &disk).unwrap();
    assert_holds(&disk, &image);
    let asked = server.asked();
    let starts: Vec<u64> = asked.iter().filter_map(|asked| asked.from).collect();
    assert_eq!((asked.len(), starts.len()), (3, 2), "{asked:?}");
    assert!(starts.iter().all(|start| start % MIB == 0));
    assert!(asked[1..].iter().all(|asked| asked.if_range.is_some()));
}

#[test]
fn early_clusters_are_skipped_and_read_again_without_ranges() {
    let image = large_image();
    let Some(body) = packed(&image, &[]) else {
        return;
    };
    let body = reversed(&body);
    let whole = body.clone();
    let server = Server::start(move |_| Reply::whole(&whole, "\"1\""));
    let plain = disk(30 * MIB);
    write(&server, &body, &plain).unwrap();
    assert_holds(&plain, &image);
    let asked = server.asked().len();
    assert!(asked <= 4, "{asked} readings");
    // The qcow2 file itself is compressed, so the agent cannot request ranges.
    let body = gzip(&body);
    let server = Server::of(&body);
    let disk = disk(30 * MIB);
    write(&server, &body, &disk).unwrap();
    assert_holds(&disk, &image);
    assert!(server.asked().iter().all(|asked| asked.from.is_none()));
}

/// The first MiB of the disk inside becomes known only in a second pass: its tables are
/// at the end of the file, and its data is no longer in memory when the agent reads
/// them.
#[test]
fn a_check_without_writing_finds_the_first_mib_at_any_place() {
    let good = large_image();
    let no_table: Vec<u8> = (0..24 * MIB).map(|at| (at >> 9) as u8 | 1).collect();
    let Some(bodies) = [&good, &no_table]
        .map(|image| packed(image, &["-o", "cluster_size=4k"]))
        .into_iter()
        .collect::<Option<Vec<_>>>()
    else {
        return;
    };
    for (body, expected) in bodies.iter().zip([None, Some("no GPT and no MBR")]) {
        // The table of the first 2 MiB, behind all data.
        let body = with_late_tables(body, 4096, &[0]);
        for body in [body.clone(), gzip(&body)] {
            let disk = disk(30 * MIB);
            let server = Server::of(&body);
            let source = source(&server, Some(sha256(&body)));
            let options = WriteOptions::default();
            let target = open(disk.path(), 512);
            let found = check_image(&source, &options, target, &http_client());
            match expected {
                None => found.unwrap(),
                Some(word) => {
                    let failure = found.unwrap_err();
                    assert!(failure.details.contains(word), "{failure}");
                }
            }
            assert!(server.asked().len() > 1, "read in one pass");
            assert_untouched(&disk);
        }
    }
}

/// A file with snapshots has clusters that the disk inside does not use.
#[test]
fn a_file_may_be_longer_than_the_disk() {
    const SIZE: u64 = 4 * MIB;
    let image = gpt_image(SIZE, 512);
    let Some(file) = packed(&image, &[]) else {
        return;
    };
    for (mib, knows_length, expected) in [
        (75, true, None),
        (75, false, None),
        (130, false, Some("expected at most 134217728 bytes")),
    ] {
        let mut body = file.clone();
        body.resize(mib << 20, 7);
        let server = Server::start(move |_| {
            let mut reply = Reply::whole(&body, "\"1\"");
            if !knows_length {
                reply.headers.remove(0);
            }
            reply
        });
        let disk = disk(SIZE);
        let mut source = source(&server, None);
        // With `quick_retries` the download of 130 MiB could time out.
        source.request.retry_policy = RetryPolicy::default();
        let written = write_image(&source, open(disk.path(), 512), &http_client());
        match expected {
            None => {
                written.unwrap().commit().unwrap();
                assert_holds(&disk, &image);
            }
            Some(text) => {
                let failure = written.unwrap_err();
                assert_eq!(failure.class, Class::InvalidImage, "{failure}");
                assert!(failure.details.contains(text), "{failure}");
                assert_unbootable(&disk);
            }
        }
    }
}

#[test]
fn another_file_the_second_time_is_never_mixed_in() {
    let image = large_image();
    let Some(body) = packed(&image, &[]) else {
        return;
    };
    let body = reversed(&body);
    let good = body.clone();
    let server = Server::start(move |asked| {
        let mut body = good.clone();
        if asked.earlier > 0 {
            // Changes one byte of the data but sends the same entity tag.
            body[100 * 65536 + 9] ^= 1;
        }
        Reply::correct(&body, "\"1\"", asked)
    });
    let disk = disk(30 * MIB);
    let failure = write(&server, &body, &disk).unwrap_err();
    assert_eq!(failure.class, Class::ImageDownloadError, "{failure}");
    assert!(
        failure.details.contains("changed on the server"),
        "{failure}"
    );
    assert_unbootable_or_untouched(&disk);
}

fn assert_unbootable_or_untouched(disk: &NamedTempFile) {
    if content(disk)[0] == OLD {
        assert_untouched(disk);
    } else {
        assert_unbootable(disk);
    }
}

#[test]
fn an_unsuitable_qcow2_image_is_rejected_before_any_write() {
    let image = large_image();
    let Some(good) = packed(&image, &[]) else {
        return;
    };
    let Some(small_clusters) = packed(&image, &["-o", "cluster_size=1k"]) else {
        return;
    };
    let no_table = packed(&vec![7; 8 * MIB as usize], &[]).unwrap();
    for (body, sector, size, class, word) in [
        (
            good.clone(),
            512,
            20,
            Class::ImageWriteError,
            "larger than the disk",
        ),
        (good.clone(), 4096, 30, Class::InvalidImage, "sector size"),
        (
            small_clusters,
            4096,
            30,
            Class::InvalidImage,
            "units of 1024",
        ),
        (no_table, 512, 30, Class::InvalidImage, "no GPT and no MBR"),
    ] {
        let disk = disk(size * MIB);
        let server = Server::of(&body);
        let source = source(&server, Some(sha256(&body)));
        let failure = write_image(&source, open(disk.path(), sector), &http_client()).unwrap_err();
        assert_eq!(failure.class, class, "{failure}");
        assert!(failure.details.contains(word), "{word}: {failure}");
        assert_untouched(&disk);
    }
}
