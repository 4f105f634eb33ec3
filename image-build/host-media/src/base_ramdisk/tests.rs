use super::*;
use std::collections::BTreeSet;
use std::io::{Cursor, Write as _};
use std::process::Command;

use landfall_initramfs::compress::unpack_segments;

use crate::fixtures::RAMDISKS;

/// An archive with one file, and `extra` zeros after it. With these zeros, its size may
/// have any remainder modulo 4.
fn plain(extra: usize) -> Vec<u8> {
    let file = HostFile {
        path: "init".to_owned(),
        bytes: Bytes::from_static(b"init"),
    };
    let mut bytes = archive::write(&[file], None, 0).unwrap();
    bytes.resize(bytes.len() + extra, 0);
    bytes
}

fn open(bytes: &[u8]) -> BaseRamdisk {
    BaseRamdisk::open(&mut Cursor::new(bytes), 0..bytes.len() as u64).unwrap()
}

fn customized(bytes: &[u8], host: &HostVersion) -> Vec<u8> {
    let image = open(bytes).of_host(&[], host, 0).unwrap();
    image.to_vec(bytes).unwrap()
}

#[test]
fn an_addition_is_found_replaced_and_removed() {
    let host = HostVersion::default().with_file("etc/landfall/a", "1");
    for base in [0, 1, 2, 3].map(plain) {
        let one = customized(&base, &host);
        assert!(one.starts_with(&base));
        assert_eq!(open(&one).base(), 0..base.len() as u64);
        assert_eq!(open(&one).files(), host.files());
        // The same customization again gives the same bytes.
        assert_eq!(customized(&one, &host), one);
        assert_eq!(customized(&one, &HostVersion::default()), one);
        let two = customized(&one, &HostVersion::default().with_file("b", "2"));
        let both = host.clone().with_file("b", "2");
        assert_eq!(two, customized(&base, &both));
        assert_eq!(customized(&two, &HostVersion::default().reset()), base);
        assert_eq!(customized(&two, &host.clone().reset()), one);
        // The kernel finds the archive at a multiple of 4.
        let files = archive::read(&one).unwrap();
        let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["etc/landfall/a", ADDITION_RECORD, "init"]);
    }
}

/// Unpacks a whole file as Ironic does it.
fn unpacked_by_zstd(bytes: &[u8]) -> Vec<u8> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file.rewind().unwrap();
    let mut zstd = Command::new("zstd");
    let result = zstd.args(["-d", "-c"]).stdin(file).output().unwrap();
    let errors = String::from_utf8_lossy(&result.stderr);
    assert!(result.status.success(), "{errors}");
    result.stdout
}

/// The files of a ramdisk. Asserts that each uncompressed archive begins at a multiple of
/// 4, where the kernel finds it.
fn files_for_the_kernel(ramdisk: &[u8]) -> Vec<HostFile> {
    for segment in unpack_segments(ramdisk, 64 << 20).unwrap() {
        let is_found = segment.packing != "none" || segment.offset.is_multiple_of(4);
        assert!(is_found, "archive at byte {}", segment.offset);
    }
    archive::read(ramdisk).unwrap()
}

#[test]
fn zstd_stays_readable_by_zstd() {
    let mut remainders = BTreeSet::new();
    for padding in 0..4 {
        let mut packed = zstd_frame();
        // The lengths of the padding frames give the file each remainder modulo 4
        // once.
        packed.extend(padding_after(Compression::Zstd { level: 1 }, padding));
        remainders.insert(packed.len() % 4);
        for len in [1, 300_000] {
            let host = HostVersion::default().with_file("a", vec![b'x'; len]);
            let one = customized(&packed, &host);
            let files = files_for_the_kernel(&one);
            let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
            assert_eq!(paths, ["a", ADDITION_RECORD, "init"]);
            assert_eq!(files_for_the_kernel(&unpacked_by_zstd(&one)), files);
            // A loader may append another archive without padding.
            assert_eq!(one.len() % 4, 0);

            assert_eq!(open(&one).base(), 0..packed.len() as u64);
            assert_eq!(open(&one).files(), host.files());
            assert_eq!(customized(&one, &host), one);
            assert_eq!(customized(&one, &HostVersion::default().reset()), packed);
        }
    }
    assert_eq!(remainders.len(), 4);
}

fn zstd_frame() -> Vec<u8> {
    landfall_initramfs::compress::pack(Compression::Zstd { level: 1 }, &plain(0)).unwrap()
}

#[test]
fn an_addition_follows_each_packing() {
    let host = HostVersion::default().with_file("a", "1");
    for (packing, base) in RAMDISKS {
        let one = customized(base, &host);
        assert!(one.starts_with(base), "{packing}");
        assert_eq!(open(&one).base(), 0..base.len() as u64, "{packing}");
        assert_eq!(open(&one).files(), host.files(), "{packing}");
        let reset = customized(&one, &HostVersion::default().reset());
        assert_eq!(reset, base, "{packing}");
        // This check leaves out lz4, although `unpack_segments` can unpack it.
        if packing != "lz4" {
            let files = files_for_the_kernel(&one);
            let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
            let expected = ["a", "etc/hosts", ADDITION_RECORD, "etc/passwd", "init"];
            assert_eq!(paths, expected, "{packing}");
        }
    }
}

#[test]
fn invalid_ramdisks_are_rejected() {
    for bytes in [&b""[..], b"07070", b"hello world", &[0; 1000]] {
        let opened = BaseRamdisk::open(&mut Cursor::new(bytes), 0..bytes.len() as u64);
        assert!(matches!(opened, Err(BaseError::NotRamdisk)), "{opened:?}");
    }
    // A place behind the end of the file.
    let bytes = plain(0);
    let place = 0..bytes.len() as u64 + 1000;
    assert!(BaseRamdisk::open(&mut Cursor::new(bytes), place).is_err());
}

/// After a block of an lz4 archive, the kernel takes the next four bytes for the size of
/// another block.
#[test]
fn zeros_end_an_lz4_archive() {
    let mut bases = Vec::new();
    for length in 8..12 {
        let mut base = vec![0x02, 0x21, 0x4c, 0x18, length, 0, 0, 0];
        base.extend(vec![b'x'; length.into()]);
        bases.push(base);
    }
    // The check does not find the end of data in these formats, so an lz4 archive may
    // follow.
    for magic in [&b"BZh9"[..], &b"]\0\0\x80\0"[..], &b"\x89LZO\0\r\n"[..]] {
        bases.push([magic, b"any bytes"].concat());
        bases.push([plain(0).as_slice(), magic, b"any bytes"].concat());
    }
    for base in bases {
        let host = HostVersion::default().with_file("a", "1");
        let one = customized(&base, &host);
        let addition = &one[base.len()..];
        let zeros = addition.iter().take_while(|&&byte| byte == 0).count();
        assert!((4..8).contains(&zeros), "{zeros}");
        assert_eq!((base.len() + zeros) % 4, 0);
        assert!(addition[zeros..].starts_with(b"070701"));
        assert_eq!(open(&one).base(), 0..base.len() as u64);
        assert_eq!(customized(&one, &HostVersion::default().reset()), base);
    }
}

/// The padding after a zstd archive is a frame.
#[test]
fn zeros_end_an_lz4_archive_before_a_frame() {
    for length in 8..12 {
        let mut base = zstd_frame();
        base.extend([0x02, 0x21, 0x4c, 0x18, length, 0, 0, 0]);
        base.extend(vec![b'x'; length.into()]);
        let one = customized(&base, &HostVersion::default().with_file("a", "1"));
        assert!(one[base.len()..].starts_with(&[0; END_OF_LZ4]));
        assert_eq!(one.len() % 4, 0);
        assert_eq!(open(&one).base(), 0..base.len() as u64);
    }
}

#[test]
fn a_base_without_a_trailer_takes_an_addition() {
    let whole = plain(0);
    let base = &whole[..whole.len() - newc::TRAILER_LEN];
    let host = HostVersion::default().with_file("a", "1");
    let one = customized(base, &host);
    assert_eq!(open(&one).base(), 0..base.len() as u64);
    assert_eq!(open(&one).files(), host.files());
    let files = files_for_the_kernel(&one);
    let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["a", ADDITION_RECORD, "init"]);
    assert_eq!(customized(&one, &HostVersion::default().reset()), base);
}

/// Whether a whole ramdisk ends at this offset: only padding lies before the next
/// archive, or before the next member of a cpio archive.
fn is_boundary(ramdisk: &[u8], offset: usize) -> bool {
    let rest = &ramdisk[offset..];
    let zeros = rest.iter().take_while(|&&byte| byte == 0).count();
    zeros < 8 && Packing::of(&rest[zeros..]).is_some()
}

/// Cuts ramdisks in each packing, without and with an addition, at each length that is
/// not the end of an archive or member.
#[test]
fn a_cut_ramdisk_is_an_error() {
    let mut bases = vec![plain(0), plain(512), zstd_frame()];
    bases.extend(RAMDISKS.map(|(_, base)| base.to_vec()));
    for base in bases {
        let host = HostVersion::default().with_file("a", "1");
        let end = base.iter().rposition(|&byte| byte != 0).unwrap() + 1;
        let one = customized(&base, &host);
        let lengths = (7..end).filter(|&length| !is_boundary(&base, length));
        let cuts = lengths.map(|length| &base[..length]);
        let lengths = base.len() + 1..one.len();
        let lengths = lengths.filter(|&length| !is_boundary(&one, length));
        let cuts_of_addition = lengths.map(|length| &one[..length]);
        for cut in cuts.chain(cuts_of_addition) {
            let error = BaseRamdisk::open(&mut Cursor::new(cut), 0..cut.len() as u64);
            assert!(
                matches!(error, Err(BaseError::Ramdisk(_))),
                "{} bytes: {error:?}",
                cut.len()
            );
        }
    }
    // An older version of the builder may have appended an addition to a base that is cut
    // off.
    let base = zstd_frame();
    let record = record_file(base.len() as u64 - 4);
    let addition = archive::write(&[], Some(&record), 0).unwrap();
    let bytes = [&base[..base.len() - 4], &addition].concat();
    let opened = BaseRamdisk::open(&mut Cursor::new(&bytes), 0..bytes.len() as u64);
    assert!(matches!(opened, Err(BaseError::Ramdisk(_))), "{opened:?}");
}

/// `--reset` replaces a damaged area of an ISO, but it does not remove a damaged
/// addition.
#[test]
fn a_damaged_addition_is_an_error() {
    let base = plain(0);
    let mut bytes = customized(&base, &HostVersion::default().with_file("a", "1"));
    let zeros = bytes[base.len()..].iter().take_while(|&&byte| byte == 0);
    let at = base.len() + zeros.count();
    bytes[at] = b'x';
    let opened = BaseRamdisk::open(&mut Cursor::new(&bytes), 0..bytes.len() as u64);
    assert!(matches!(opened, Err(BaseError::Addition(_))), "{opened:?}");
}

#[test]
fn a_record_that_lies_is_ignored() {
    let base = plain(0);
    let mut bytes = customized(&base, &HostVersion::default().with_file("a", "1"));
    let text = format!("\"base_bytes\":{}", base.len());
    let at = bytes
        .windows(text.len())
        .position(|part| part == text.as_bytes());
    let at = at.unwrap() + text.len();
    // The record now contains ten times the size of the base, which is beyond the end of
    // the file.
    bytes[at..at + 2].copy_from_slice(b"0}");
    assert_eq!(open(&bytes).base(), 0..bytes.len() as u64);
}
