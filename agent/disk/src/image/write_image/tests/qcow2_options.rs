//! Writes qcow2 images made with the different options of qemu-img over HTTP and compares
//! the disk with what qemu-img reads from them.

use std::path::Path;

use super::transfer_faults::chunked;
use super::*;
use crate::fixtures::run;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A disk with a partition table, and with noise, text and holes at random. The disk
/// does not end at the end of a cluster.
fn random_image(seed: u64, len: u64) -> Vec<u8> {
    let mut image = gpt_image(len + 7 * 512, 512);
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut random = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % below
    };
    // Leaves the tables at both ends unchanged.
    let room = image.len() as u64 - (96 << 10);
    for _ in 0..40 {
        let start = (64 << 10) + random(room - (64 << 10));
        let len = 1 + random(90_000).min((64 << 10) + room - start - 1);
        let kind = random(3);
        for byte in &mut image[start as usize..(start + len) as usize] {
            *byte = match kind {
                0 => 0,
                1 => random(4) as u8,
                _ => random(256) as u8,
            };
        }
    }
    image
}

/// How the server sends the file.
#[derive(Debug, Clone, Copy)]
enum Way {
    Range,
    NoRange,
    Chunked,
    Packed(Packing),
}

const WAYS: [Way; 7] = [
    Way::Range,
    Way::NoRange,
    Way::Chunked,
    Way::Packed(Packing::Gzip),
    Way::Packed(Packing::Xz),
    Way::Packed(Packing::Zstd),
    Way::Packed(Packing::Lz4),
];

/// The server, and the bytes that it sends.
fn serve(way: Way, file: Vec<u8>) -> (Server, Vec<u8>) {
    let body = match way {
        Way::Packed(packing) => pack(packing, &file),
        _ => file,
    };
    let whole = body.clone();
    let server = match way {
        Way::Range | Way::Packed(_) => Server::of(&body),
        Way::NoRange => Server::start(move |_| Reply::whole(&whole, "\"1\"")),
        Way::Chunked => Server::start(move |_| chunked(Reply::whole(&whole, "\"1\""), &[30_011])),
    };
    (server, body)
}

/// Asserts that the disk holds what qemu-img reads from the file.
fn assert_written(directory: &Path, file: &Path, way: Way, what: &str) {
    let raw = directory.join("read.raw");
    run(
        "qemu-img",
        &["convert", "-O", "raw", text(file), text(&raw)],
    );
    let raw = std::fs::read(&raw).unwrap();
    let (server, body) = serve(way, std::fs::read(file).unwrap());
    let disk = disk(8 * MIB);
    match write(&server, &body, &disk) {
        Ok(done) => assert_eq!(
            (done.format, done.image_bytes),
            (Format::Qcow2, raw.len() as u64)
        ),
        Err(failure) => panic!("{what}: {failure}"),
    }
    // qemu-img writes with several threads, so some clusters may come before their
    // table. A few further requests must be enough to fetch these clusters again.
    let asked = server.asked().len();
    assert!(asked <= 4, "{what}, {way:?}: {asked} requests");
    assert_holds(&disk, &raw);
}

/// Tests every combination of cluster size, compression, preallocation and subclusters.
/// Each combination uses the next refcount width and the next serving method in turn.
fn every_combination(compat: &str) {
    let directory = tempfile::tempdir().unwrap();
    let (raw, file) = (directory.path().join("raw"), directory.path().join("qcow2"));
    let new = compat == "1.1";
    let mut count = 0;
    for bits in 9..=21 {
        // The disk has several clusters of each size. It is smaller for small clusters,
        // because many of them take long and test nothing new.
        let len = if bits < 18 { 2 * MIB } else { 5 * MIB };
        for (compress, compression) in [(false, "zlib"), (true, "zlib"), (true, "zstd")] {
            for preallocation in ["off", "metadata", "falloc", "full"] {
                for subclusters in [false, true] {
                    // qemu-img rejects these combinations.
                    if (!new && (subclusters || compression == "zstd"))
                        || (subclusters && bits < 14)
                        || (compress && preallocation != "off")
                    {
                        continue;
                    }
                    let mut options = format!(
                        "compat={compat},cluster_size={},preallocation={preallocation}",
                        1 << bits
                    );
                    if new {
                        options += &format!(
                            ",compression_type={compression},extended_l2={},lazy_refcounts={},refcount_bits={}",
                            if subclusters { "on" } else { "off" },
                            if count % 2 == 0 { "on" } else { "off" },
                            1 << (count % 7)
                        );
                    }
                    std::fs::write(&raw, random_image(count, len)).unwrap();
                    let mut arguments = vec!["convert", "-f", "raw", "-O", "qcow2", "-o", &options];
                    arguments.extend(compress.then_some("-c"));
                    arguments.extend([text(&raw), text(&file)]);
                    if run("qemu-img", &arguments).is_none() {
                        return;
                    }
                    let way = WAYS[count as usize % WAYS.len()];
                    assert_written(directory.path(), &file, way, &options);
                    count += 1;
                }
            }
        }
    }
    assert_eq!(count, if new { 126 } else { 65 }, "combinations");
}

#[test]
fn every_option_of_version_3() {
    every_combination("1.1");
}

#[test]
fn every_option_of_version_2() {
    every_combination("0.10");
}

/// The agent ignores whatever the file holds in addition to the disk: bitmaps,
/// snapshots and their clusters, and marks of an unclean shutdown.
#[test]
fn additional_content_of_a_file_is_ignored() {
    let directory = tempfile::tempdir().unwrap();
    let (raw, file) = (directory.path().join("raw"), directory.path().join("qcow2"));
    std::fs::write(&raw, random_image(1, 5 * MIB)).unwrap();
    let convert = [
        "convert",
        "-f",
        "raw",
        "-O",
        "qcow2",
        text(&raw),
        text(&file),
    ];
    if run("qemu-img", &convert).is_none() {
        return;
    }
    run(
        "qemu-img",
        &["bitmap", "--add", "--enable", text(&file), "b0"],
    );
    run("qemu-io", &["-c", "write -P 5 2M 200k", text(&file)]);
    assert_written(directory.path(), &file, Way::Range, "a bitmap");
    run("qemu-img", &["snapshot", "-c", "before", text(&file)]);
    run(
        "qemu-io",
        &[
            "-c",
            "write -P 6 2M 300k",
            "-c",
            "write -z 3M 64k",
            text(&file),
        ],
    );
    assert_written(directory.path(), &file, Way::Range, "a snapshot");
    // qemu-img cannot revert to a snapshot while the file has a bitmap.
    run("qemu-img", &["bitmap", "--remove", text(&file), "b0"]);
    run("qemu-img", &["snapshot", "-a", "before", text(&file)]);
    assert_written(
        directory.path(),
        &file,
        Way::NoRange,
        "a snapshot that was gone back to",
    );
    let mut dirty = std::fs::read(&file).unwrap();
    // incompatible_features: the dirty bit, as lazy refcounts leave it.
    dirty[79] |= 1;
    std::fs::write(&file, dirty).unwrap();
    assert_written(directory.path(), &file, Way::Chunked, "not closed");
}

/// The agent rejects an image whose data is not all in the file, and writes
/// nothing.
#[test]
fn an_image_with_external_data_is_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let (raw, data) = (path("raw"), path("data"));
    std::fs::write(&raw, random_image(1, 5 * MIB)).unwrap();
    let data_file = format!("data_file={}", text(&data));
    let secret = ["--object", "secret,id=s,data=abc"];
    for (arguments, word) in [
        (vec!["-F", "raw", "-b", text(&raw)], "backing file"),
        (vec!["-o", data_file.as_str()], "another file"),
        (
            [
                &secret[..],
                &["-o", "encrypt.format=aes,encrypt.key-secret=s"],
            ]
            .concat(),
            "encrypted",
        ),
    ] {
        let file = path("qcow2");
        let mut create = vec!["create", "-q", "-f", "qcow2"];
        create.extend(arguments);
        create.extend([text(&file), "5M"]);
        if run("qemu-img", &create).is_none() {
            return;
        }
        let body = std::fs::read(&file).unwrap();
        let disk = disk(8 * MIB);
        let failure = write(&Server::of(&body), &body, &disk).unwrap_err();
        assert_eq!(failure.class, Class::InvalidImage, "{failure}");
        assert!(failure.details.contains(word), "{word}: {failure}");
        assert!(failure.details.contains("not touched"), "{failure}");
        assert_untouched(&disk);
    }
}
