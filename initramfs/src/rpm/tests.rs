use std::io::{Cursor, Write as _};

use super::*;
use crate::newc;

/// A package, as rpmbuild writes it, with the tags that the builder reads.
#[derive(Clone, Copy)]
pub(crate) struct Rpm<'a> {
    pub(crate) name: &'a str,
    pub(crate) requires: &'a [&'a str],
    pub(crate) provides: &'a [&'a str],
    pub(crate) files: &'a [(&'a str, &'a [u8])],
}

pub(crate) const EMPTY: Rpm<'_> = Rpm {
    name: "kernel-core",
    requires: &[],
    provides: &[],
    files: &[],
};

impl Rpm<'_> {
    fn archive(&self) -> Vec<u8> {
        let mut archive = newc::Writer::new(Vec::new());
        for (name, bytes) in self.files {
            let header = newc::Header {
                mode: 0o100_644,
                ..Default::default()
            };
            archive
                .member(name, header, bytes.len() as u64, *bytes)
                .unwrap();
        }
        archive.finish().unwrap().0
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.around(&zstd(&self.archive()))
    }

    /// The package with this archive, compressed or not.
    pub(crate) fn around(&self, payload: &[u8]) -> Vec<u8> {
        let size = 4096u32.to_be_bytes();
        let digest = crate::digest_writer::sha256(payload);
        let texts = |texts: &[&str]| {
            let bytes: Vec<u8> = texts.iter().flat_map(|text| nul(text)).collect();
            (texts.len(), bytes)
        };
        let tags = [
            (Tag::NAME, 6, (1, nul(self.name))),
            (Tag::SIZE, 4, (1, size.to_vec())),
            (Tag::PROVIDE_NAME, 8, texts(self.provides)),
            (Tag::REQUIRE_NAME, 8, texts(self.requires)),
            (Tag::PAYLOAD_DIGEST, 8, (1, nul(&digest))),
            (Tag::PAYLOAD_DIGEST_ALGORITHM, 4, (1, vec![0, 0, 0, 8])),
        ];
        let mut package = LEAD_MAGIC.to_vec();
        package.extend([3, 0, 0, 0]);
        package.resize(LEAD_BYTES, 0);
        // A signature of five bytes, so that zeros follow.
        package.extend(header(&[(269, 6, (1, nul("none")))]));
        package.resize(package.len().next_multiple_of(8), 0);
        package.extend(header(&tags));
        package.extend(payload);
        package
    }
}

fn nul(text: &str) -> Vec<u8> {
    [text.as_bytes(), &[0]].concat()
}

/// A tag, its type, the number of its values, and their bytes.
type TestTag = (u32, u32, (usize, Vec<u8>));

fn header(tags: &[TestTag]) -> Vec<u8> {
    let (mut index, mut store) = (Vec::new(), Vec::new());
    for (tag, kind, (count, bytes)) in tags {
        // Numbers are aligned, because rpm requires it.
        store.resize(store.len().next_multiple_of(4), 0);
        for number in [*tag, *kind, number(store.len()), number(*count)] {
            index.extend(number.to_be_bytes());
        }
        store.extend(bytes);
    }
    let mut header = vec![0x8e, 0xad, 0xe8, 1, 0, 0, 0, 0];
    header.extend(number(tags.len()).to_be_bytes());
    header.extend(number(store.len()).to_be_bytes());
    header.extend(index);
    header.extend(store);
    header
}

fn number(size: usize) -> u32 {
    size.try_into().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

type Files = Vec<(String, Vec<u8>)>;

fn files(package: Vec<u8>) -> Result<Files, RpmError> {
    let mut payload = Package::open(Cursor::new(package))?.payload()?;
    let mut files = Vec::new();
    while let Some(member) = payload.next_member()? {
        let mut bytes = Vec::new();
        payload
            .read_to_end(&mut bytes)
            .map_err(io_error("payload"))?;
        assert_eq!(bytes.len(), member.size as usize);
        files.push((member.name, bytes));
    }
    Ok(files)
}

const KERNEL: Rpm<'_> = Rpm {
    requires: &["kernel-modules-core-uname-r", "/bin/sh"],
    provides: &["kernel-core", "kernel-uname-r"],
    files: &[("./lib/modules/6/vmlinuz", b"kernel"), ("./empty", b"")],
    ..EMPTY
};

#[test]
fn header_and_files_are_read() {
    let package = Package::open(Cursor::new(KERNEL.bytes())).unwrap();
    assert_eq!(package.name(), "kernel-core");
    assert_eq!(package.requires(), KERNEL.requires);
    assert_eq!(package.provides(), KERNEL.provides);
    assert_eq!(package.installed_bytes(), 4096);
}

#[test]
fn every_packing_is_unpacked() {
    let expected: Files = KERNEL
        .files
        .iter()
        .map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec()))
        .collect();
    let archive = KERNEL.archive();
    for payload in [
        zstd(&archive),
        gzip(&archive),
        xz(&archive),
        archive.clone(),
    ] {
        assert_eq!(files(KERNEL.around(&payload)).unwrap(), expected);
    }
}

#[test]
fn an_invalid_package_is_reported_with_the_reason() {
    let good = KERNEL.bytes();
    let with = |at: usize, bytes: &[u8]| {
        let mut package = good.clone();
        package[at..at + bytes.len()].copy_from_slice(bytes);
        package
    };
    let mut stripped = b"07070X00000000".to_vec();
    stripped.resize(200, 0);
    let archive = KERNEL.archive();
    let header_at = (LEAD_BYTES + 16 + 16 + 5).next_multiple_of(8);
    for (package, expected) in [
        (
            b"text".to_vec(),
            "expected an RPM package, found a file that begins with `text`",
        ),
        (
            good[..50].to_vec(),
            "lead: expected 96 bytes, found 50: the package is cut off",
        ),
        (
            with(6, &[0, 1]),
            "expected a package with programs, found a source package",
        ),
        (
            good[..100].to_vec(),
            "signature header: expected 16 bytes, found 4: the package is cut off",
        ),
        (
            with(LEAD_BYTES, b"oops"),
            "signature header: expected a header in version 1, found `oops`",
        ),
        (
            with(header_at + 8, &[0, 1, 0, 0]),
            "header: expected at most 65535 tags, found 65536",
        ),
        (
            with(header_at + 12, &[0xff; 4]),
            "header: expected at most 67108864 bytes, found 4294967295",
        ),
        // The type of the first tag, the name, and its place.
        (
            with(header_at + 16 + 4, &[0, 0, 0, 4]),
            "header: expected texts in tag 1000, found another type, place or number",
        ),
        (
            with(header_at + 16 + 8, &[0, 1, 0, 0]),
            "header: expected texts in tag 1000, found another type, place or number",
        ),
        (
            Rpm {
                requires: &["\u{1b}[2J"],
                ..KERNEL
            }
            .bytes(),
            "header: expected texts in tag 1049, found another type, place or number",
        ),
        (
            KERNEL.around(b"BZh91AY&SY"),
            "payload: expected gzip, xz, zstd or a newc archive, found bzip2",
        ),
        (
            KERNEL.around(b"unknown bytes"),
            "payload: expected gzip, xz, zstd or a newc archive, found `unknown `",
        ),
        (
            KERNEL.around(&gzip(&stripped)),
            "payload: expected an archive with the names of the files (RPM 4), found one without",
        ),
        (
            KERNEL.around(&stripped),
            "payload: expected an archive with the names of the files (RPM 4), found one without",
        ),
        (
            KERNEL.around(&archive[..archive.len() - 130]),
            "cannot unpack the payload",
        ),
    ] {
        assert_eq!(files(package).unwrap_err().to_string(), expected);
    }
    let mut damaged = good.clone();
    *damaged.last_mut().unwrap() ^= 1;
    let error = files(damaged).unwrap_err();
    assert!(matches!(error, RpmError::Digest { .. }), "{error}");
}

proptest::proptest! {
    #[test]
    fn damaged_packages_never_panic(at in 0usize..600, byte: u8, cut in 0usize..1200) {
        let mut package = KERNEL.around(&KERNEL.archive());
        let at = at % package.len();
        package[at] = byte;
        package.truncate(cut);
        let _ = files(package);
    }
}
