//! Damaged and broken transfers: the reported error and what the disk holds
//! afterwards.

use super::*;

/// The image as raw, gzip, xz and zstd file and, if qemu-img is installed, as qcow2 file.
/// Each has a name for messages.
fn packed_in_each_way(image: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let mut bodies = vec![
        ("raw", image.to_vec()),
        ("gzip", gzip(image)),
        ("xz", pack(Packing::Xz, image)),
        ("zstd", zstd::bulk::compress(image, 1).unwrap()),
    ];
    bodies.extend(qcow2::packed(image, &[]).map(|body| ("qcow2", body)));
    bodies.extend(qcow2::packed(image, &["-c"]).map(|body| ("qcow2 of zlib", body)));
    bodies
}

/// The first twenty connections break. The agent never requests a byte twice.
#[test]
fn broken_twenty_times() {
    const BREAKS: usize = 20;
    let image = gpt_image(8 * MIB, 512);
    for (name, body) in packed_in_each_way(&image) {
        let piece = body.len() / (BREAKS + 1) + 1;
        let served = body.clone();
        let server = Server::start(move |asked| Reply::correct(&served, "\"1\"", asked).cut(piece));
        let disk = disk(DISK);
        write(&server, &body, &disk).unwrap_or_else(|failure| panic!("{name}: {failure}"));
        assert_holds(&disk, &image);
        let asked = server.asked();
        let begins: Vec<u64> = asked.iter().map(|asked| asked.from.unwrap_or(0)).collect();
        let expected: Vec<u64> = (0..=BREAKS).map(|count| (count * piece) as u64).collect();
        assert_eq!(begins, expected, "{name}");
        let validated = asked[1..]
            .iter()
            .all(|asked| asked.if_range.as_deref() == Some("\"1\""));
        assert!(
            validated,
            "{name}: a Range without If-Range mixes two files"
        );
    }
}

/// A wrong response of the server and the expected failure.
struct Lie {
    name: &'static str,
    answer: fn(&[u8], &Asked) -> Reply,
    class: Class,
    expected_texts: &'static [&'static str],
}

/// Sends the first 3000000 bytes, then answers the Range request with `more`.
fn then(body: &[u8], asked: &Asked, more: impl Fn(Reply) -> Reply) -> Reply {
    if asked.from.is_none() {
        return Reply::whole(body, "\"1\"").cut(3_000_000);
    }
    more(Reply::correct(body, "\"1\"", asked))
}

fn content_range(mut reply: Reply, text: &str) -> Reply {
    reply.headers[1] = format!("Content-Range: bytes {text}");
    reply
}

/// RFC 9112, 7.1: sends the body in chunks of these sizes, in rotation.
pub(super) fn chunked(mut reply: Reply, sizes: &[usize]) -> Reply {
    let mut body = Vec::new();
    let (mut rest, mut sizes) = (&reply.body[..], sizes.iter().cycle());
    while let Some(size) = sizes.next().filter(|_| !rest.is_empty()) {
        let (chunk, more) = rest.split_at((*size).clamp(1, rest.len()));
        body.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
        body.extend(chunk);
        body.extend(b"\r\n");
        rest = more;
    }
    body.extend(b"0\r\n\r\n");
    reply.body = body;
    reply.headers[0] = "Transfer-Encoding: chunked".to_owned();
    reply
}

const LIES: &[Lie] = &[
    Lie {
        name: "a length too long",
        answer: |body, asked| {
            let mut reply = Reply::correct(body, "\"1\"", asked);
            if asked.from.is_none() {
                reply.headers[0] = "Content-Length: 8393608".to_owned();
            }
            reply
        },
        class: Class::ImageDownloadError,
        expected_texts: &["8388608"],
    },
    Lie {
        name: "a length too short",
        answer: |body, asked| {
            let mut reply = Reply::correct(body, "\"1\"", asked);
            reply.headers[0] = "Content-Length: 8000000".to_owned();
            reply
        },
        class: Class::ImageChecksumError,
        expected_texts: &["over 8000000 bytes"],
    },
    Lie {
        name: "chunks that end early",
        answer: |body, _| chunked(Reply::whole(&body[..5_000_000], "\"1\""), &[70_000]),
        class: Class::ImageChecksumError,
        expected_texts: &["over 5000000 bytes"],
    },
    Lie {
        name: "a range of another file",
        answer: |body, asked| {
            then(body, asked, |reply| {
                content_range(reply, "3000000-8388607/9000000")
            })
        },
        class: Class::ImageDownloadError,
        expected_texts: &[
            "changed on the server at byte 3000000",
            "8388608",
            "9000000",
        ],
    },
    Lie {
        name: "the bytes of another range",
        answer: |body, asked| {
            then(body, asked, |mut reply| {
                reply.body.rotate_left(1_000_000);
                reply
            })
        },
        class: Class::ImageChecksumError,
        expected_texts: &["checksum mismatch", "over 8388608 bytes"],
    },
    Lie {
        name: "no answer any more",
        answer: |body, asked| then(body, asked, |_| Reply::status(503)),
        class: Class::ImageDownloadError,
        expected_texts: &["503", "byte 3000000 of 8388608"],
    },
];

#[test]
fn a_server_that_lies() {
    let image = gpt_image(8 * MIB, 512);
    for lie in LIES {
        let (body, answer) = (image.clone(), lie.answer);
        let server = Server::start(move |asked| answer(&body, asked));
        let disk = disk(DISK);
        let failure = write(&server, &image, &disk)
            .map(|_| panic!("{}: it was believed", lie.name))
            .unwrap_err();
        assert_eq!(failure.class, lie.class, "{}: {failure}", lie.name);
        for text in lie.expected_texts.iter().chain([&server.url.as_str()]) {
            assert!(
                failure.details.contains(text),
                "{}: expected '{text}' in {failure}",
                lie.name
            );
        }
        assert_unbootable(&disk);
    }
}

/// Asserts that the disk is either untouched or does not boot.
fn assert_nothing_boots(disk: &NamedTempFile) {
    if content(disk).iter().any(|&byte| byte != OLD) {
        assert_unbootable(disk);
    }
}

/// Flips one bit anywhere: in the header, in tables, in data, in checksums.
#[test]
fn a_bit_flipped_in_flight() {
    let image = gpt_image(6 * MIB, 512);
    for (name, body) in packed_in_each_way(&image) {
        let places = (0..24).map(|part| (body.len() - 1) * part / 23);
        for (place, bit) in places.zip((0..8).cycle()) {
            let mut damaged = body.clone();
            damaged[place] ^= 1 << bit;
            let server = Server::of(&damaged);
            let disk = disk(DISK);
            let failure = write(&server, &body, &disk)
                .map(|_| panic!("{name}: bit {bit} of byte {place} was not missed"))
                .unwrap_err();
            assert!(
                matches!(
                    failure.class,
                    Class::ImageChecksumError | Class::InvalidImage | Class::ImageWriteError
                ),
                "{name}: bit {bit} of byte {place}: {failure}"
            );
            assert_nothing_boots(&disk);
            // gzip and xz contain their own checksum, so the agent detects the
            // damage without a digest. Some bits have no effect, for example the
            // padding in the last byte of a block.
            if ["gzip", "xz"].contains(&name) && place > 10 {
                let target = open(disk.path(), 512);
                let unproven = write_image(&source(&server, None), target, &http_client());
                match unproven.and_then(ProvenImage::commit) {
                    Ok(_) => assert_holds(&disk, &image),
                    Err(failure) => {
                        assert!(failure.details.contains(name), "{failure}");
                        assert_nothing_boots(&disk);
                    }
                }
            }
        }
    }
}

/// Object stores send `Content-Encoding` if the file was uploaded with this header.
#[test]
fn an_encoding_that_is_the_packing_is_taken_as_sent() {
    let image = gpt_image(8 * MIB, 512);
    let body = gzip(&image);
    for (encoding, digest, written) in [
        ("gzip", None, true),
        ("gzip", Some(sha256(&body)), true),
        ("br", Some(sha256(&body)), true),
        ("br", None, false),
        // The given digest is that of the uncompressed image, but the agent hashes the
        // compressed body.
        ("gzip", Some(sha256(&image)), false),
    ] {
        let served = body.clone();
        let server = Server::start(move |asked| {
            // A range response also carries the bytes of the compressed file.
            Reply::correct(&served, "\"1\"", asked)
                .cut(served.len() / 2 + 1)
                .header(&format!("Content-Encoding: {encoding}"))
        });
        let disk = disk(DISK);
        let has_digest = digest.is_some();
        let (source, target) = (source(&server, digest), open(disk.path(), 512));
        let outcome = write_image(&source, target, &http_client()).and_then(ProvenImage::commit);
        assert_eq!(
            outcome.is_ok(),
            written,
            "{encoding} {has_digest}: {outcome:?}"
        );
        match outcome {
            Ok(_) => assert_holds(&disk, &image),
            Err(failure) if has_digest => {
                assert_eq!(failure.class, Class::ImageChecksumError, "{failure}");
                assert_unbootable(&disk);
            }
            Err(_) => assert_untouched(&disk),
        }
    }
}
