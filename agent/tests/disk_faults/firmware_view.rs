//! Determines what firmware finds on a disk. This follows the specifications
//! and does not use the agent's code: boot code in the first sector (BIOS), and
//! a GUID partition table at either end (UEFI 2.10, 5.3).

/// The parts of a disk that firmware boots from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// The first sector is not empty.
    pub first_sector: bool,
    /// The partition table behind the first sector is valid.
    pub primary: bool,
    /// The backup table at the end is valid. Firmware may restore the primary table
    /// from it.
    pub backup: bool,
}

impl Found {
    /// A disk on which firmware recognises nothing.
    pub const NOTHING: Self = Self {
        first_sector: false,
        primary: false,
        backup: false,
    };
    /// A disk that all firmware boots from.
    pub const ALL: Self = Self {
        first_sector: true,
        primary: true,
        backup: true,
    };

    /// Looks at a disk of 512-byte sectors. `read(offset, len)` returns `len`
    /// bytes.
    pub fn on(size: u64, read: impl Fn(u64, usize) -> Vec<u8>) -> Self {
        Self {
            first_sector: read(0, SECTOR).iter().any(|&byte| byte != 0),
            primary: valid_table(512, &read),
            backup: valid_table(size - 512, &read),
        }
    }

    pub fn in_memory(disk: &[u8]) -> Self {
        Self::on(disk.len() as u64, |at, len| {
            let start = at as usize;
            disk.get(start..start + len).unwrap_or_default().to_vec()
        })
    }
}

const SECTOR: usize = 512;

fn valid_table(place: u64, read: &impl Fn(u64, usize) -> Vec<u8>) -> bool {
    let header = read(place, SECTOR);
    let u32_at = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().unwrap());
    let u64_at = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().unwrap());
    let len = u32_at(12) as usize;
    if !header.starts_with(b"EFI PART") || !(92..=SECTOR).contains(&len) {
        return false;
    }
    let mut without_sum = header[..len].to_vec();
    without_sum[16..20].fill(0);
    let entries = u64::from(u32_at(80)) * u64::from(u32_at(84));
    if crc32(&without_sum) != u32_at(16) || u64_at(24) * 512 != place || entries > 1 << 20 {
        return false;
    }
    crc32(&read(u64_at(72) * 512, entries as usize)) == u32_at(88)
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |mut sum, &byte| {
        sum ^= u32::from(byte);
        for _ in 0..8 {
            sum = if sum & 1 == 1 {
                (sum >> 1) ^ 0xedb8_8320
            } else {
                sum >> 1
            };
        }
        sum
    })
}
