//! The ids that distinguish one medium from another. They are derived from its
//! content.
//!
//! GRUB finds an ISO by the modification date of its volume: 16 digits, which GRUB calls
//! the file system's UUID. With the real date, the same input would give different bytes.
//! With SOURCE_DATE_EPOCH, two different media could have the same id, and an old stick
//! may still be in the host. So the date is made from the content's digest.

use landfall_initramfs::digest_writer;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MediumIdentity {
    /// The modification date for xorriso: `YYYYMMDDhhmmsscc`.
    pub(crate) modification_date: String,
    /// The modification date as GRUB prints it and searches for it: with hyphens between
    /// the fields.
    pub(crate) volume_uuid: String,
    /// Disk GUID in the GPT that a machine finds on a USB stick.
    pub(crate) disk_guid: String,
    /// Serial number of the EFI system partition.
    pub(crate) fat_serial: u32,
}

impl MediumIdentity {
    /// Derives the ids from `content`: all that makes this medium differ from
    /// others.
    pub(crate) fn of(content: &[&str]) -> Self {
        let digest = digest_writer::sha256(content.join("\n").as_bytes());
        // Cannot fail: the digest has 64 hex digits. The fallback 0 would be a valid
        // number too.
        let number = |at: usize, len: usize| {
            u64::from_str_radix(&digest[at..at + len], 16).unwrap_or_default()
        };
        let date = number(0, 15);
        // Makes a valid date from any number: every month has days 1 to 28, and every
        // tool can show the years 2000 to 2037.
        let part = |divisor: u64, range: u64| (date / divisor) % range;
        let (year, month, day) = (2000 + part(1, 38), 1 + part(38, 12), 1 + part(456, 28));
        let (hour, minute, second) = (part(12_768, 24), part(306_432, 60), part(18_385_920, 60));
        let hundredth = part(1_103_155_200, 100);
        let fields = [format!("{year:04}")].into_iter();
        let fields: Vec<String> = fields
            .chain([month, day, hour, minute, second, hundredth].map(|n| format!("{n:02}")))
            .collect();
        // Sets version 4 and variant 1: a reader that checks these fields sees a random
        // GUID.
        let guid = format!(
            "{}-{}-4{}-8{}-{}",
            &digest[16..24],
            &digest[24..28],
            &digest[28..31],
            &digest[31..34],
            &digest[34..46]
        );
        Self {
            modification_date: fields.concat(),
            volume_uuid: fields.join("-"),
            disk_guid: guid,
            fat_serial: u32::try_from(number(46, 8)).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn it_depends_on_the_content_alone() {
        let identity = MediumIdentity::of(&["kernel", "ramdisk"]);
        assert_eq!(identity, MediumIdentity::of(&["kernel", "ramdisk"]));
        for other in [&["kernel"][..], &["kernel", "other"], &["kernelramdisk"]] {
            let other = MediumIdentity::of(other);
            assert_ne!(identity.volume_uuid, other.volume_uuid);
            assert_ne!(identity.disk_guid, other.disk_guid);
            assert_ne!(identity.fat_serial, other.fat_serial);
        }
    }

    proptest! {
        #[test]
        fn dates_are_dates(content in "[a-z]{1,8}") {
            let identity = MediumIdentity::of(&[&content]);
            let fields: Vec<u32> = identity.volume_uuid.split('-').map(|f| f.parse().unwrap()).collect();
            let [year, month, day, hour, minute, second, hundredth] = fields[..] else { panic!("{fields:?}") };
            prop_assert!((2000..2038).contains(&year) && (1..=12).contains(&month) && (1..=28).contains(&day));
            prop_assert!(hour < 24 && minute < 60 && second < 60 && hundredth < 100);
            prop_assert_eq!(identity.modification_date.len(), 16);
            prop_assert_eq!(identity.disk_guid.len(), 36);
        }
    }
}
