//! Images that would cost much time and memory: records that share their content.

use std::io::Cursor;

use super::super::*;

/// A volume whose root directory contains these records. `more` begins at sector 21.
fn volume(root: &[u8], more: &[u8]) -> Vec<u8> {
    let mut image = vec![0; 21 * SECTOR as usize];
    let start = VOLUME_OFFSET as usize;
    image[start..start + 6].copy_from_slice(&MARK);
    image[start + 128..start + 130].copy_from_slice(&(SECTOR as u16).to_le_bytes());
    image[start + 156..start + 190].copy_from_slice(&record(b"\0", 20, SECTOR as u32, &[]));
    image[20 * SECTOR as usize..][..root.len()].copy_from_slice(root);
    image.extend_from_slice(more);
    image
}

/// The record of a directory.
fn record(name: &[u8; 1], sector: u32, size: u32, system_use: &[u8]) -> Vec<u8> {
    let mut record = vec![0; 34];
    record[0] = 34 + u8::try_from(system_use.len()).unwrap();
    record[2..6].copy_from_slice(&sector.to_le_bytes());
    record[10..14].copy_from_slice(&size.to_le_bytes());
    record[25] = DIRECTORY;
    record[32] = 1;
    record[33] = name[0];
    record.extend_from_slice(system_use);
    record
}

/// 60 records that share one directory of the largest size.
#[test]
fn a_directory_that_many_records_share_is_not_read_for_each() {
    let many = |count: usize| {
        let root = record(b"A", 21, MAX_DIRECTORY, &[]).repeat(count);
        let image = volume(&root, &vec![0; MAX_DIRECTORY as usize]);
        Iso::open(Cursor::new(&image)).unwrap().all_files()
    };
    assert!(many(30).unwrap().is_empty());
    let error = many(60).unwrap_err().to_string();
    assert_eq!(
        error,
        "ISO: expected at most 33554432 bytes of directories, found more"
    );
}

/// A directory of 1 MiB. Each of its records has a continuation area that refers to
/// itself.
#[test]
fn a_continuation_area_that_many_records_share_is_not_read_for_each() {
    let mut field = vec![0; 28];
    field[..4].copy_from_slice(b"CE\x1c\x01");
    field[4..8].copy_from_slice(&(21 + MAX_DIRECTORY / SECTOR as u32).to_le_bytes());
    field[20..24].copy_from_slice(&(SECTOR as u32).to_le_bytes());
    let mut sector = record(b"A", 0, 0, &field).repeat(33);
    sector.resize(SECTOR as usize, 0);
    let mut more = sector.repeat(MAX_DIRECTORY as usize / SECTOR as usize);
    more.extend_from_slice(&field);
    more.resize(more.len() + SECTOR as usize, 0);
    let image = volume(&record(b"D", 21, MAX_DIRECTORY, &[]), &more);
    let mut iso = Iso::open(Cursor::new(&image)).unwrap();
    for found in [
        iso.find("d/none").map(drop),
        iso.files("d").map(drop),
        iso.all_files().map(drop),
    ] {
        assert!(matches!(found, Err(IsoError::TooMuch)), "{found:?}");
    }
    // The limit applies to each search separately.
    let found = iso.find("none");
    assert!(matches!(found, Err(IsoError::NotFound(_))), "{found:?}");
}
