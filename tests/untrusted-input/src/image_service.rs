use std::io::Cursor;

use landfall_host_media::{BaseIso, BaseRamdisk, HostVersion, KargsEdit};
use landfall_image_service::byte_range::{Selection, select};
use landfall_image_service::conditions::{Conditions, Verdict, Version, judge, range_counts};

/// Reads the size of a file (8 bytes, little-endian), and the header Range. The same
/// text is also read as the headers If-Match, If-None-Match and If-Range.
pub fn http_range(data: &[u8]) {
    let Some((size, header)) = data.split_first_chunk::<8>() else {
        return;
    };
    let size = u64::from_le_bytes(*size);
    let header = String::from_utf8_lossy(header);
    let ranges = match select(&header, size) {
        Selection::One(range) => vec![range],
        Selection::Several(ranges) => {
            assert!(ranges.len() >= 2, "{header}");
            ranges
        }
        Selection::Whole | Selection::Unsatisfiable => Vec::new(),
    };
    for range in &ranges {
        assert!(range.start < range.end && range.end <= size, "{header}");
    }
    for pair in ranges.windows(2) {
        assert!(pair[0].end < pair[1].start, "{header}");
    }
    let text = Some(&*header);
    let conditions = Conditions {
        if_match: text,
        if_none_match: text,
        if_range: text,
        ..Conditions::default()
    };
    let version = Version {
        etag: "\"a\"",
        last_modified: None,
    };
    // If-Match must not fail if its list begins with this version.
    if judge(&conditions, &version) == Verdict::Failed {
        assert!(!header.trim().starts_with("\"a\""), "{header}");
    }
    let _ = range_counts(&conditions, &version);
}

/// Reads a base ISO or a base ramdisk, and makes the image of one host from it.
pub fn base_image(data: &[u8]) {
    let host = HostVersion::default()
        .with_kargs(KargsEdit {
            reset: true,
            append: vec!["b=2".to_owned()],
            ..KargsEdit::default()
        })
        .with_file("a", "1");
    if let Ok(base) = BaseIso::open(Cursor::new(data))
        && let Ok(image) = base.of_host(&host, 0)
    {
        assert_eq!(image.size(), data.len() as u64);
        let made = image.to_vec(data);
        // The base is not longer than its file, so all segments are in it.
        assert!(made.is_some());
        let made = made.unwrap_or_default();
        let again = BaseIso::open(Cursor::new(&made)).ok();
        assert!(again.is_some_and(|again| again.files(&host) == base.files(&host)));
    }
    let all = 0..data.len() as u64;
    if let Ok(base) = BaseRamdisk::open(&mut Cursor::new(data), all)
        && let Ok(image) = base.of_host(&[], &host, 0)
    {
        let made = image.to_vec(data).unwrap_or_default();
        let all = 0..made.len() as u64;
        let again = BaseRamdisk::open(&mut Cursor::new(&made), all);
        assert!(again.is_ok_and(|again| again.base() == base.base()));
    }
}
