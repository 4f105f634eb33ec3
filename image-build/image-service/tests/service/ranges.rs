//! Tests the table of ranges in docs/image-service.md over a socket.

use proptest::prelude::*;

use crate::fixture::Fixture;

const ISO: &str = "/node1.iso";

#[test]
fn the_table_of_ranges() {
    let fixture = Fixture::new();
    let whole = fixture.expected_iso(1);
    let size = whole.len();
    let end = |text: &str| text.replace("SIZE", &size.to_string());
    let last = size - 1;
    for (range, status, content_range, body) in [
        ("bytes=0-9", 206, format!("bytes 0-9/{size}"), 0..10),
        ("bytes=0-0", 206, format!("bytes 0-0/{size}"), 0..1),
        (
            "bytes=32768-",
            206,
            format!("bytes 32768-{last}/{size}"),
            32768..size,
        ),
        (
            "bytes=-5",
            206,
            format!("bytes {}-{last}/{size}", size - 5),
            size - 5..size,
        ),
        (
            "bytes=-99999999",
            206,
            format!("bytes 0-{last}/{size}"),
            0..size,
        ),
        (
            "bytes=1-99999999999",
            206,
            format!("bytes 1-{last}/{size}"),
            1..size,
        ),
        ("bytes=0-4,5-9", 206, format!("bytes 0-9/{size}"), 0..10),
        (
            "bytes=0-4,99999999-",
            206,
            format!("bytes 0-4/{size}"),
            0..5,
        ),
        ("bytes=-0", 416, end("bytes */SIZE"), 0..0),
        ("bytes=99999999-", 416, end("bytes */SIZE"), 0..0),
        ("bytes=9-5", 416, end("bytes */SIZE"), 0..0),
        ("bytes=--5", 416, end("bytes */SIZE"), 0..0),
        ("bytes=x", 416, end("bytes */SIZE"), 0..0),
        (
            "bytes=0-99999999999999999999",
            416,
            end("bytes */SIZE"),
            0..0,
        ),
        ("items=0-5", 200, String::new(), 0..size),
        ("bytes=,", 200, String::new(), 0..size),
        ("bytes=0-,0-", 200, String::new(), 0..size),
    ] {
        let mut client = fixture.client();
        for method in ["GET", "HEAD"] {
            let answer = client.ask(method, ISO, &[("Range", range)]);
            assert_eq!(answer.status, status, "{method} {range}");
            let found = answer.header("content-range").unwrap_or_default();
            assert_eq!(found, content_range, "{method} {range}");
            if status == 416 {
                continue;
            }
            let len = body.len().to_string();
            assert_eq!(
                answer.header("content-length"),
                Some(len.as_str()),
                "{range}"
            );
            assert_eq!(answer.header("accept-ranges"), Some("bytes"));
            let expected = match method {
                "GET" => &whole[body.clone()],
                _ => &[],
            };
            assert!(answer.body == expected, "{method} {range}");
        }
    }
}

#[test]
fn several_ranges_are_parts_of_one_answer() {
    let fixture = Fixture::new();
    let whole = fixture.expected_iso(1);
    let size = whole.len();
    let range = "bytes=40000-40004, 0-2, -1, 99999999-";
    let answer = fixture.get(ISO, &[("Range", range)]);
    assert_eq!(answer.status, 206);
    assert_eq!(answer.header("content-range"), None);
    let content_type = answer.header("content-type").unwrap();
    let boundary = content_type
        .strip_prefix("multipart/byteranges; boundary=")
        .unwrap();
    let mut expected = Vec::new();
    for (at, (first, last)) in [(0, 2), (40000, 40004), (size - 1, size - 1)]
        .into_iter()
        .enumerate()
    {
        let line_end = if at == 0 { "" } else { "\r\n" };
        expected.extend(
            format!(
                "{line_end}--{boundary}\r\nContent-Type: application/vnd.efi-iso\r\nContent-Range: bytes {first}-{last}/{size}\r\n\r\n"
            )
            .bytes(),
        );
        expected.extend_from_slice(&whole[first..=last]);
    }
    expected.extend(format!("\r\n--{boundary}--\r\n").bytes());
    assert!(answer.body == expected, "{}", answer.body.escape_ascii());
    // HEAD announces the same length.
    let head = fixture.client().ask("HEAD", ISO, &[("Range", range)]);
    assert_eq!(head.status, 206);
    let len = expected.len().to_string();
    assert_eq!(head.header("content-length"), Some(len.as_str()));
}

#[test]
fn every_file_has_ranges() {
    let fixture = Fixture::new();
    for path in ["/node1.initramfs", "/node1.ipxe", "/vmlinuz"] {
        let whole = fixture.get(path, &[]).body;
        let answer = fixture.get(path, &[("Range", "bytes=10-")]);
        assert_eq!(answer.status, 206, "{path}");
        assert!(answer.body == whole[10..], "{path}");
    }
}

#[test]
fn any_split_into_ranges_gives_the_whole_file() {
    let fixture = Fixture::new();
    let whole = fixture.expected_iso(2);
    let size = whole.len();
    let mut client = fixture.client();
    let client = std::cell::RefCell::new(&mut client);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(64));
    // Make cuts near the areas more likely.
    let cut = prop_oneof![0..size, 30_000..80_000_usize];
    let cuts = proptest::collection::vec(cut, 0..12);
    runner
        .run(&cuts, |mut cuts| {
            cuts.extend([0, size]);
            cuts.sort_unstable();
            cuts.dedup();
            let mut joined = Vec::new();
            for pair in cuts.windows(2) {
                let range = format!("bytes={}-{}", pair[0], pair[1] - 1);
                let answer = client.borrow_mut().get("/node2.iso", &[("Range", &range)]);
                prop_assert_eq!(answer.status, 206);
                joined.extend(answer.body);
            }
            prop_assert!(joined == whole);
            Ok(())
        })
        .unwrap();
}
