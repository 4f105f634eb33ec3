use std::io::Write as _;

use super::*;

const HEADER_LEN: usize = 64;
const SECTION_HEADER_LEN: usize = 64;

/// The smallest ELF file that has a section of this name.
pub(crate) fn elf_with(name: &str, content: &[u8]) -> Vec<u8> {
    elf_with_all(&[(name, content)])
}

/// The smallest ELF file that has these sections.
pub(crate) fn elf_with_all(sections: &[(&str, &[u8])]) -> Vec<u8> {
    let mut names = "\0.shstrtab\0".to_owned();
    let mut contents = Vec::new();
    let mut placed = Vec::new();
    for (name, content) in sections {
        placed.push((names.len(), contents.len(), content.len()));
        names.push_str(&format!("{name}\0"));
        contents.extend_from_slice(content);
    }
    let names_at = HEADER_LEN;
    let contents_at = names_at + names.len();
    let table_at = contents_at + contents.len();
    let mut file = vec![0; HEADER_LEN];
    file[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    file[0x28..0x30].copy_from_slice(&(table_at as u64).to_le_bytes());
    let count = u8::try_from(sections.len() + 2).unwrap();
    file[0x3a..0x40].copy_from_slice(&[64, 0, count, 0, 1, 0]);
    file.extend_from_slice(names.as_bytes());
    file.extend_from_slice(&contents);
    let mut headers = vec![(0, 0, 0), (1, names_at, names.len())];
    headers.extend(
        placed
            .into_iter()
            .map(|(name, offset, len)| (name, contents_at + offset, len)),
    );
    for (name, offset, len) in headers {
        let mut header = [0; SECTION_HEADER_LEN];
        header[..4].copy_from_slice(&u32::try_from(name).unwrap().to_le_bytes());
        header[0x18..0x20].copy_from_slice(&(offset as u64).to_le_bytes());
        header[0x20..0x28].copy_from_slice(&(len as u64).to_le_bytes());
        file.extend_from_slice(&header);
    }
    file
}

#[test]
fn the_section_is_found() {
    let file = elf_with(".modinfo", b"name=a\0");
    assert_eq!(
        find(file.as_slice(), ".modinfo").unwrap().unwrap(),
        b"name=a\0"
    );
    assert_eq!(find(file.as_slice(), ".mod").unwrap(), None);
    assert_eq!(find(file.as_slice(), ".modinfo2").unwrap(), None);
}

#[test]
fn a_file_on_disk_is_read_alike() {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&elf_with(".modinfo", b"x")).unwrap();
    assert_eq!(read(&file, ".modinfo").unwrap().unwrap(), b"x");
}

#[test]
fn a_file_that_cannot_be_read_is_no_broken_file() {
    // A directory can be opened, but not read.
    let directory = tempfile::tempdir().unwrap();
    let error = read(&File::open(directory.path()).unwrap(), ".modinfo").unwrap_err();
    assert!(matches!(error, ElfError::Io { .. }), "{error:?}");
    assert_eq!(error.to_string(), "cannot read the ELF header");
    let mut short = tempfile::tempfile().unwrap();
    short.write_all(b"\x7fELF").unwrap();
    let error = read(&short, ".modinfo").unwrap_err();
    assert!(matches!(error, ElfError::Read { .. }), "{error:?}");
}

/// 65535 headers whose names all point to the same 4 MiB without a NUL. Searching
/// for the end of each name would read 256 GiB.
#[test]
fn names_without_an_end_cost_no_time() {
    let names = vec![b'x'; 4 << 20];
    let mut file = elf_with(".modinfo", b"")[..HEADER_LEN].to_vec();
    file[0x28..0x30].copy_from_slice(&((HEADER_LEN + names.len()) as u64).to_le_bytes());
    file[0x3c..0x40].copy_from_slice(&[0xff, 0xff, 1, 0]);
    file.extend_from_slice(&names);
    let mut header = [0; SECTION_HEADER_LEN];
    header[0x18..0x20].copy_from_slice(&(HEADER_LEN as u64).to_le_bytes());
    header[0x20..0x28].copy_from_slice(&(names.len() as u64).to_le_bytes());
    file.extend(header.repeat(0xffff));
    let start = std::time::Instant::now();
    assert_eq!(find(file.as_slice(), ".modinfo").unwrap(), None);
    assert!(start.elapsed() < std::time::Duration::from_secs(5));
}

#[test]
fn an_invalid_elf_file_is_reported_with_the_reason() {
    let good = elf_with(".modinfo", b"name=a\0");
    let with = |at: usize, bytes: &[u8]| {
        let mut bad = good.clone();
        bad[at..at + bytes.len()].copy_from_slice(bytes);
        bad
    };
    for (bad, expected) in [
        (vec![], "cannot read the ELF header"),
        (b"\x7fELF".to_vec(), "cannot read the ELF header"),
        (
            with(0, b"\xfd7zX"),
            "expected an ELF file, found `\\xfd7zX`",
        ),
        (
            with(4, &[1]),
            "expected a 64-bit little-endian ELF file, found class and order [1, 1]",
        ),
        (with(0x3a, &[40]), "cannot read the section headers"),
        (
            with(0x3e, &[9]),
            "expected section names, found index 9 of 3 sections",
        ),
        (with(0x28, &[255; 8]), "cannot read the section headers"),
        (
            with(good.len() - 64 + 0x20, &[0, 0, 0, 1]),
            "cannot read the section",
        ),
        (
            with(good.len() - 64 + 0x18, &[255; 8]),
            "cannot read the section",
        ),
    ] {
        assert_eq!(
            find(bad.as_slice(), ".modinfo").unwrap_err().to_string(),
            expected
        );
    }
}
