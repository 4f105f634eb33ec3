use super::*;

/// A version 3 header of a 1 GiB disk in 64 KiB clusters.
fn good() -> Vec<u8> {
    let mut bytes = vec![0; 112];
    bytes[..4].copy_from_slice(MAGIC);
    bytes[7] = 3;
    bytes[23] = 16;
    put(&mut bytes, 24, 1 << 30);
    bytes[39] = 2;
    put(&mut bytes, 40, 0x30000);
    put(&mut bytes, 48, 0x10000);
    bytes[59] = 1;
    bytes[99] = 4;
    bytes[103] = 112;
    bytes
}

fn put(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_be_bytes());
}

fn with(change: impl Fn(&mut Vec<u8>)) -> Result<Header, HeaderError> {
    let mut bytes = good();
    change(&mut bytes);
    Header::parse(&bytes)
}

#[test]
fn headers_that_qemu_writes() {
    let header = Header::parse(&good()).unwrap();
    assert_eq!((header.size, header.cluster_size()), (1 << 30, 65536));
    assert_eq!((header.l1_offset, header.l1_len()), (0x30000, 16));
    assert_eq!(header.compression, Compression::Zlib);
    assert_eq!(header.allocation_unit(), 65536);
    let zstd = with(|bytes| (bytes[79], bytes[104]) = (8, 1)).unwrap();
    assert_eq!(zstd.compression, Compression::Zstd);
    let extended = with(|bytes| (bytes[79], bytes[39]) = (16, 4)).unwrap();
    assert_eq!((extended.allocation_unit(), extended.l1_len()), (2048, 32));
    assert!(with(|bytes| bytes[79] = 3).unwrap().suspicion.is_some());
    // Version 2 has nothing after byte 72.
    let old = with(|bytes| {
        bytes[7] = 2;
        bytes.truncate(72);
    });
    let old = old.unwrap();
    assert_eq!(old.compression, Compression::Zlib);
    assert_eq!(old.refcounts, header.refcounts);
}

#[test]
fn header_fields_for_a_writer() {
    let header = with(|bytes| (bytes[63], bytes[95], bytes[99]) = (3, 1, 6)).unwrap();
    assert_eq!((header.snapshots, header.autoclear_features), (3, 1));
    let refcounts = RefcountTable {
        offset: 0x10000,
        clusters: 1,
        order: 6,
    };
    assert_eq!(header.refcounts, refcounts);
}

#[test]
fn an_unsupported_qcow2_header_is_rejected() {
    type Change = fn(&mut Vec<u8>);
    let changes: [(Change, &str); 14] = [
        (|bytes| bytes[7] = 1, "version"),
        (|bytes| bytes[15] = 112, "backing file"),
        (|bytes| bytes[35] = 2, "encrypted"),
        (|bytes| bytes[79] = 4, "another file"),
        (|bytes| bytes[79] = 32, "not known"),
        (|bytes| bytes[72] = 0x80, "not known"),
        (|bytes| bytes[23] = 8, "clusters"),
        (|bytes| bytes[23] = 22, "clusters"),
        (|bytes| bytes[39] = 1, "L1 table"),
        (|bytes| put(bytes, 40, 0x30001), "L1 table"),
        (|bytes| put(bytes, 24, u64::MAX), "L1 table"),
        (|bytes| bytes[79] = 8, "compressed"),
        (|bytes| bytes[104] = 1, "compressed"),
        (|bytes| bytes.truncate(100), "ends inside"),
    ];
    for (change, word) in changes {
        let reason = with(change).unwrap_err().to_string();
        assert!(reason.contains(word), "{word}: {reason}");
    }
}
