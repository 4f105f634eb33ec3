//! Fuzz functions for downloads for a disk, and for structures that disks
//! contain.

use std::io::{BufReader, Read as _};

use flate2::Crc;
use landfall_devices::disk_sets::lvm;
use landfall_devices::disk_sets::md_superblock::{MdSuperblock, Version};
use landfall_disk::config_drive;
use landfall_disk::device::aligned_buffer::AlignedBuffer;
use landfall_disk::image::decode::Decoder;
use landfall_disk::image::image_head;
use landfall_disk::image::pipeline::UNIT;
use landfall_disk::image::qcow2::assembly::{Assembly, Sink};
use landfall_disk::image::qcow2::header::Header;
use landfall_disk::image::qcow2::window::Piece;
use landfall_disk::tables::gpt::Table;
use landfall_disk::tables::kept_partitions::{DiskEnds, KeptPartitions};
use landfall_disk::tables::saved_partitions::PartitionFilter;
use landfall_disk::tables::{file_system, gpt};
use landfall_download::signature::{ImageSignature, SigningKey, built_in_keys};
use landfall_download::{checksum_file, resume};
use uuid::Uuid;

/// In bytes: the limit for unpacking one input. It covers the head of an image and some
/// data after it.
const UNPACKED_LIMIT: u64 = 4 << 20;

/// Unpacks a downloaded image and inspects its head.
pub fn image(data: &[u8]) {
    let Ok((mut decoder, promised)) = Decoder::new(BufReader::new(data)) else {
        return;
    };
    let mut head = vec![0; gpt::HEAD_LEN];
    let Ok(filled) = decoder.fill(&mut head) else {
        let _ = decoder.into_input();
        return;
    };
    head.truncate(filled);
    for sector in [512, 4096] {
        let disk = image_head::Geometry {
            size: 1 << 34,
            sector,
        };
        let promise = image_head::Promise {
            exact: None,
            at_least: promised,
        };
        let _ = image_head::inspect(&head, disk, promise);
    }
    let mut rest = decoder.take(UNPACKED_LIMIT);
    let _ = std::io::copy(&mut rest, &mut std::io::sink());
}

/// Unpacks a stream in reads of different lengths. The first two bytes of `data`
/// choose the lengths. The result must not depend on them.
pub fn unpack(data: &[u8]) {
    let Some((&[chunk, read], packed)) = data.split_first_chunk::<2>() else {
        return;
    };
    let whole = unpack_in(packed, 64 << 10, 64 << 10);
    let parts = unpack_in(packed, 1 + usize::from(chunk), 1 + 16 * usize::from(read));
    // Compare only if both results are below the limit: at the limit, one of the two
    // reads may have met an error that the other has not met.
    let limited = [&whole, &parts]
        .into_iter()
        .flatten()
        .any(|bytes| bytes.len() as u64 == UNPACKED_LIMIT);
    assert!(limited || whole == parts, "reads of other lengths differ");
}

/// The unpacked stream, up to the limit, or `None` if the stream is broken.
fn unpack_in(packed: &[u8], chunk: usize, read: usize) -> Option<Vec<u8>> {
    let (decoder, _) = Decoder::new(BufReader::with_capacity(chunk, packed)).ok()?;
    let mut decoder = decoder.take(UNPACKED_LIMIT);
    let mut bytes = Vec::new();
    let mut buffer = vec![0; read];
    loop {
        match decoder.read(&mut buffer).ok()? {
            0 => return Some(bytes),
            len => bytes.extend_from_slice(&buffer[..len]),
        }
    }
}

/// Reads a qcow2 file: its header, tables and compressed clusters, in the order of the
/// file. Virtual disks of more than 64 MiB are left out, because the reader keeps their
/// data in memory.
pub fn qcow2(data: &[u8]) {
    struct Nowhere(u64);
    impl Sink for Nowhere {
        fn put(&mut self, guest: u64, bytes: &[u8]) -> landfall_report::failure::Result<()> {
            assert!(guest + bytes.len() as u64 <= self.0, "beyond the disk");
            Ok(())
        }
    }
    let Ok(header) = Header::parse(data) else {
        return;
    };
    if header.size > 64 << 20 {
        return;
    }
    let mut sink = Nowhere(header.size);
    let Ok(mut assembly) = Assembly::new(header, None, 1) else {
        return;
    };
    // Every pass reads the whole file: a fuzzer's files are short.
    loop {
        for (index, bytes) in data.chunks(UNIT).enumerate() {
            let buffer = AlignedBuffer::padded(bytes, UNIT);
            let piece = Piece::new((index * UNIT) as u64, buffer, bytes.len());
            if assembly.take(piece).is_err() {
                return;
            }
            if assembly.head().is_some() && assembly.write(&mut sink).is_err() {
                return;
            }
        }
        if assembly.file_ends().is_err() {
            return;
        }
        if assembly.head().is_some() && assembly.write(&mut sink).is_err() {
            return;
        }
        if !assembly.begin_pass().unwrap_or(false) {
            return;
        }
    }
}

pub fn checksum(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    // The first line stands for the file name that an operator gave.
    let (name, text) = text.split_once('\n').unwrap_or(("image.raw", &text));
    if let Ok(found) = checksum_file::find(text, name) {
        assert!(found.bytes().all(|byte| byte.is_ascii_hexdigit()));
    }
}

/// Reads the bytes as a detached signature and as a file of keys.
pub fn image_signature(data: &[u8]) {
    let keys = built_in_keys();
    if let Ok(signature) = ImageSignature::by_known_key(data, &keys) {
        assert!(!signature.is_over(&[0; 32]), "a forged signature");
    }
    let _ = SigningKey::read(data);
}

/// Reads the head of the answer when a download resumes, one field per line.
pub fn download_answer(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut lines = text.lines();
    let mut line = || lines.next().filter(|line| !line.is_empty());
    let received = line().and_then(|text| text.parse().ok()).unwrap_or(0);
    let known = resume::Resource {
        total: line().and_then(|text| text.parse().ok()),
        etag: line().map(str::to_owned),
        last_modified: None,
    };
    let answer = resume::Answer {
        status: line().and_then(|text| text.parse().ok()).unwrap_or(206),
        content_length: line().and_then(|text| text.parse().ok()),
        content_range: line().map(str::to_owned),
        content_type: line().map(str::to_owned),
        content_encoding: line().map(str::to_owned),
        etag: line().map(str::to_owned),
        last_modified: line().map(str::to_owned),
        retry_after: line().map(str::to_owned),
    };
    let _ = resume::judge(None, 0, &answer);
    let _ = resume::judge(Some(&known), received, &answer);
}

/// Reads a config drive in base64 or as plain bytes.
pub fn config_drive(data: &[u8]) {
    let image = config_drive::decode_base64(data).unwrap_or_else(|_| data.to_vec());
    if let Ok(image) = config_drive::unpack(image) {
        let _ = file_system::identify(&image[..image.len().min(file_system::PROBE_LEN)]);
        let files = config_drive::files_of_iso(&image);
        if let Ok(rebuilt) = files.and_then(|files| config_drive::vfat_of(&files, 4096, 64 << 20)) {
            assert!(rebuilt.len() <= 64 << 20, "larger than its partition");
        }
    }
}

/// Parses `data` as metadata of RAID and LVM, and as the start of a partition. For the
/// latter, its first 2 KiB are placed at offset 0 and the remaining bytes at 32 KiB,
/// where ISO 9660 begins.
pub fn file_system(data: &[u8]) {
    for version in Version::ALL {
        let _ = MdSuperblock::parse(data, version, 1 << 20);
    }
    let _ = lvm::label(data);
    let _ = lvm::text_in_area(data);
    let _ = lvm::parse_metadata(data);
    let (start, iso) = data.split_at(data.len().min(2048));
    let mut head = start.to_vec();
    if !iso.is_empty() {
        head.resize(32 << 10, 0);
        head.extend_from_slice(&iso[..iso.len().min(file_system::PROBE_LEN - head.len())]);
    }
    let _ = file_system::identify(&head);
}

/// Reads a partition table. The first byte of `data` chooses the sector size and
/// whether the checksums are corrected, and the second byte the size of the disk. The
/// header and the entries follow. A valid table is used in the same way as when an
/// image is written.
pub fn gpt(data: &[u8]) {
    let Some((&[choice, size], table)) = data.split_first_chunk::<2>() else {
        return;
    };
    let sector: usize = if choice & 1 == 0 { 512 } else { 4096 };
    let mut head = vec![0; 64 << 10];
    let (header, entries) = table.split_at(table.len().min(92));
    head[sector..sector + header.len()].copy_from_slice(header);
    let entries = &entries[..entries.len().min(head.len() - 2 * sector)];
    head[2 * sector..2 * sector + entries.len()].copy_from_slice(entries);
    if choice & 2 == 0 {
        seal(&mut head, sector);
    }
    // The cast is lossless: either sector size is at most 4096.
    let Ok(mut table) = Table::parse(&head, sector as u32) else {
        return;
    };
    let _ = (table.image_size(), table.partitions_end());
    let _ = table.clone().add_at_end("config-2", 64 << 20, Uuid::nil());
    // The disk has 64 KiB to 8 EiB, which is larger than any real disk.
    let disk = 1_u64 << (16 + u32::from(size) % 48);
    if table.move_backup_to_end(disk).is_ok() {
        let _ = table.add_at_end("config-2", 64 << 20, Uuid::nil());
        let (offset, backup) = table.backup();
        assert!(
            offset + backup.len() as u64 <= disk,
            "backup beyond the disk"
        );
        table.write_primary(&mut head);
        let again = Table::parse(&head, sector as u32);
        assert_eq!(again.as_ref(), Ok(&table), "what was written reads back");
        let again = Table::parse_backup(&backup, disk, sector as u32);
        let again = again.map(|table| table.partitions().to_vec());
        assert_eq!(
            again.as_deref(),
            Ok(table.partitions()),
            "so does its backup"
        );
    }
    kept(&head, sector as u32);
}

/// Keeps all partitions of a disk that has this table.
fn kept(head: &[u8], sector: u32) {
    let ends = DiskEnds {
        head,
        tail: head,
        size: 1 << 40,
        sector,
    };
    let filters = [PartitionFilter::Index(None, Some(200))];
    if let Ok(Some(kept)) = KeptPartitions::find(&ends, &filters) {
        let _ = kept.refuse_collision(1 << 30);
        let mut image = kept.bare().clone();
        assert!(kept.merge_into(&mut image).is_err(), "each GUID once");
        assert!(kept.plain().is_ok());
    }
}

/// Corrects the checksums of a header and of the entries that it points to.
fn seal(head: &mut [u8], sector: usize) {
    let number = |head: &[u8], at: usize| {
        let mut value = [0; 4];
        value.copy_from_slice(&head[sector + at..sector + at + 4]);
        u32::from_le_bytes(value) as usize
    };
    let crc = |bytes: &[u8]| {
        let mut crc = Crc::new();
        crc.update(bytes);
        crc.sum().to_le_bytes()
    };
    let start = number(head, 72).saturating_mul(sector);
    let len = number(head, 80).saturating_mul(number(head, 84));
    if let Some(entries) = head.get(start..start.saturating_add(len)) {
        let sum = crc(entries);
        head[sector + 88..sector + 92].copy_from_slice(&sum);
    }
    head[sector + 16..sector + 20].fill(0);
    let sum = crc(&head[sector..sector + 92]);
    head[sector + 16..sector + 20].copy_from_slice(&sum);
}
