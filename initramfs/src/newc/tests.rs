use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

use super::*;
use crate::file_tree::{Content, FileTree, Place};
use proptest::prelude::*;

fn archive(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new());
    for (name, data) in members {
        let header = Header {
            mode: 0o100_644,
            mtime: 7,
            rdev: (0, 0),
        };
        writer
            .member(name, header, data.len() as u64, *data)
            .unwrap();
    }
    let (bytes, size) = writer.finish().unwrap();
    assert_eq!(bytes.len() as u64, size);
    bytes
}

fn first_fault(bytes: &[u8]) -> String {
    Reader::new(bytes)
        .find_map(Result::err)
        .expect("a fault")
        .to_string()
}

#[test]
fn cpio_the_tool_agrees() {
    let mut tree = FileTree::default();
    tree.file(
        "lib/modules/a.ko",
        Content::Bytes(vec![7; 4097]),
        0o640,
        Place::Sorted,
    )
    .unwrap();
    tree.file("init", Content::Bytes(b"#!".to_vec()), 0o755, Place::First)
        .unwrap();
    tree.char_device("dev/console", 5, 1, 0o600).unwrap();
    let mut writer = Writer::new(Vec::new());
    writer.tree(&tree, 1_700_000_000).unwrap();
    let (bytes, _) = writer.finish().unwrap();

    let mut cpio = Command::new("cpio")
        .args(["-itv", "--numeric-uid-gid", "--quiet"])
        .envs([("TZ", "UTC"), ("LC_ALL", "C")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    cpio.stdin.take().unwrap().write_all(&bytes).unwrap();
    let output = cpio.wait_with_output().unwrap();
    assert!(output.status.success());
    let listing: Vec<String> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    let expected = [
        "drwxr-xr-x 1 0 0 0 Nov 14 2023 dev",
        "drwxr-xr-x 1 0 0 0 Nov 14 2023 lib",
        "drwxr-xr-x 1 0 0 0 Nov 14 2023 lib/modules",
        "crw------- 1 0 0 5, 1 Nov 14 2023 dev/console",
        "-rwxr-xr-x 1 0 0 2 Nov 14 2023 init",
        "-rw-r----- 1 0 0 4097 Nov 14 2023 lib/modules/a.ko",
    ];
    assert_eq!(listing, expected);
}

#[test]
fn an_archive_of_the_cpio_tool_is_read() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("sub")).unwrap();
    std::fs::write(dir.path().join("sub/file"), b"hello").unwrap();
    let output = Command::new("sh")
        .args(["-c", "printf 'sub\\nsub/file\\n' | cpio -o -H newc --quiet"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    let entries: Vec<_> = Reader::new(&output.stdout)
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(
        entries.iter().map(|e| e.name).collect::<Vec<_>>(),
        ["sub", "sub/file"]
    );
    assert_eq!(entries[1].data, b"hello");
    assert!(entries[1].is_file() && !entries[0].is_file());
}

#[test]
fn entries_that_the_kernel_would_skip_are_not_written() {
    let member = |name: &str, size, data: &[u8]| {
        Writer::new(Vec::new()).member(name, Header::default(), size, data)
    };
    for name in ["", "TRAILER!!!", "a\0b", &"x".repeat(4096)] {
        assert!(
            matches!(member(name, 0, b""), Err(WriteError::BadName(_))),
            "{name:?}"
        );
    }
    assert!(member(&"x".repeat(4095), 0, b"").is_ok());
    assert!(matches!(
        member("a", 1 << 32, b""),
        Err(WriteError::TooLarge { .. })
    ));
    for (size, data, found) in [(3, &b"ab"[..], 2), (3, b"abcdef", 4)] {
        let error = member("a", size, data).unwrap_err();
        let text = format!(
            "archive member `a`: expected 3 bytes, found {found}: the file changes while it is read"
        );
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    // A directory can be opened, but not read.
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_owned();
    let expected = format!("cannot read {}", path.display());
    let mut tree = FileTree::default();
    let content = Content::OnDisk { path, size: 5 };
    tree.file("a.ko", content, 0o644, Place::Sorted).unwrap();
    let error = Writer::new(Vec::new()).tree(&tree, 0).unwrap_err();
    assert_eq!(error.to_string(), expected);
}

/// The output has room for the header alone.
#[test]
fn a_full_output_is_no_fault_of_the_input() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), [7; 50]).unwrap();
    let path = file.path().to_owned();
    let mut tree = FileTree::default();
    let content = Content::OnDisk { path, size: 50 };
    tree.file("a.ko", content, 0o644, Place::Sorted).unwrap();
    let mut room = [0; 120];
    let error = Writer::new(&mut room[..]).tree(&tree, 0).unwrap_err();
    assert_eq!(error.to_string(), "cannot write the archive");
}

#[test]
fn faults_have_an_offset() {
    let good = archive(&[("a", b"hello"), ("b", b"")]);
    let second = 110 + 2 + 8;
    assert_eq!(&good[second..second + 6], MAGIC);
    let with = |at: usize, bytes: &[u8]| {
        let mut bad = good.clone();
        bad[at..at + bytes.len()].copy_from_slice(bytes);
        bad
    };
    for (bad, expected) in [
        (
            with(0, b"070703"),
            "at byte 0: expected `070701` or `070702`, found `070703`",
        ),
        (
            with(second, b"x"),
            "at byte 120: expected `070701` or `070702`, found `x70701`",
        ),
        (
            with(second + 6, b"+"),
            "at byte 120: expected 8 hex digits, found `+0000002`",
        ),
        (
            with(94, b"00000000"),
            "at byte 0: expected a name of 1 to 4096 bytes, found 0",
        ),
        (
            with(94, b"FFFFFFFF"),
            "at byte 0: expected a name of 1 to 4096 bytes, found 4294967295",
        ),
        (
            with(111, b"x"),
            "at byte 0: expected a name with one NUL, at its end",
        ),
        (with(110, b"\xff"), "at byte 0: expected a name in UTF-8"),
        (
            with(54, b"FFFFFFFF"),
            "at byte 0: expected 4294967295 bytes of `a`, found the end: it is cut off",
        ),
        (
            good[..second + 4].to_vec(),
            "at byte 120: expected an entry or the trailer, found the end: it is cut off",
        ),
        (
            vec![],
            "at byte 0: expected an entry or the trailer, found the end: it is cut off",
        ),
    ] {
        assert_eq!(first_fault(&bad), format!("cpio archive {expected}"));
    }
}

#[test]
fn reading_stops_at_the_trailer() {
    let mut bytes = archive(&[("a", b"x")]);
    let len = bytes.len();
    bytes.extend_from_slice(&[0; 512]);
    let mut reader = Reader::new(&bytes);
    assert_eq!(reader.by_ref().filter_map(Result::ok).count(), 1);
    assert_eq!(reader.consumed(), len);
    assert!(reader.next().is_none());
}

#[test]
fn an_archive_may_end_without_a_trailer_and_have_checksums() {
    let bytes = archive(&[("a", b"x"), ("b", b"yz")]);
    let text = String::from_utf8(bytes).unwrap();
    let bytes = text.replace("070701", "070702").into_bytes();
    let end = bytes.len() - TRAILER_LEN;
    // The last member ends with two bytes of padding.
    for length in [end, end - 2] {
        let names = Reader::new(&bytes[..length]).map(|entry| entry.unwrap().name);
        assert_eq!(names.collect::<Vec<_>>(), ["a", "b"]);
    }
    assert!(Reader::new(&bytes[..end - 3]).last().unwrap().is_err());
}

proptest! {
    #[test]
    fn a_written_archive_is_read_back(
        members in proptest::collection::vec(("[a-z/]{1,40}", proptest::collection::vec(any::<u8>(), 0..50), 0u32..0o200_000), 0..8)
    ) {
        let mut writer = Writer::new(Vec::new());
        for (name, data, mode) in &members {
            let header = Header { mode: *mode, mtime: mode ^ 5, rdev: (*mode, 3) };
            writer.member(name, header, data.len() as u64, data.as_slice()).unwrap();
        }
        let (bytes, _) = writer.finish().unwrap();
        let mut reader = Reader::new(&bytes);
        let read: Vec<_> = reader.by_ref().collect::<Result<_, _>>().unwrap();
        prop_assert_eq!(reader.consumed(), bytes.len());
        prop_assert_eq!(read.len(), members.len());
        for (entry, (name, data, mode)) in read.iter().zip(&members) {
            prop_assert_eq!((entry.name, entry.data, entry.mode), (name.as_str(), data.as_slice(), *mode));
            prop_assert_eq!((entry.mtime, entry.rdev), (mode ^ 5, (*mode, 3)));
        }
        let mut stream = StreamReader::new(bytes.as_slice());
        for (number, (name, data, mode)) in members.iter().enumerate() {
            let member = stream.next_member().unwrap().unwrap();
            prop_assert_eq!((&member.name, member.mode, member.links), (name, *mode, 1));
            prop_assert_eq!(member.size as usize, data.len());
            // Some of the content is skipped.
            let mut start = vec![0; data.len() / (number + 1)];
            stream.read_exact(&mut start).unwrap();
            prop_assert!(data.starts_with(&start));
        }
        prop_assert_eq!(stream.next_member().unwrap(), None);
        prop_assert_eq!(stream.next_member().unwrap(), None);
    }
}

#[test]
fn computed_lengths_equal_written_lengths() {
    assert_eq!(empty_archive().len(), TRAILER_LEN);
    for (name, content) in [("a", 0), ("abc", 5), ("etc/x.json", 64)] {
        let mut archive = Writer::new(Vec::new());
        let bytes = vec![7; content];
        let header = Header::default();
        archive
            .member(name, header, content as u64, &bytes[..])
            .unwrap();
        let (bytes, _) = archive.finish().unwrap();
        assert_eq!(bytes.len(), member_len(name.len(), content) + TRAILER_LEN);
    }
}
