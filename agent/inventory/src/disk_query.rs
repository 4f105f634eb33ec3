//! Requests INQUIRY and IDENTIFY data from a disk if the kernel does not keep them in
//! /sys.
//!
//! In a captured tree the directory /ioctl/DISK/ contains the answers of each disk:
//! `inquiry.hex`, `vpd-83.hex` and other pages (bytes), and `ata-identify.hex` (words of
//! four digits). If a file is missing, the command failed on that machine.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::Duration;

use landfall_sys::scsi_generic::{self, Data};
use landfall_sys::sysfs;
use landfall_sys::system_path::SystemPath;
use nix::libc;

use super::ata_identify;

/// The number of bytes that udev's scsi_id requests. The names that udev builds do not
/// depend on any byte after them.
const INQUIRY_LENGTH: u8 = 254;
/// How long the kernel waits for an answer. A disk that does not answer within
/// this time is reported without its names.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Sends commands to one disk. Each command opens the device node, and returns `None` if
/// that or the command fails.
pub struct DiskQuery {
    /// The device node /dev/sda, or the directory /ioctl/sda of a captured tree.
    target: SystemPath,
}

impl DiskQuery {
    /// Prepares queries to the disk with this kernel name. `block` is any path in
    /// the same tree.
    pub fn new(block: &SystemPath, name: &str) -> Self {
        let directory = if block.is_live() { "/dev" } else { "/ioctl" };
        Self {
            target: block.join(directory).join(name),
        }
    }

    /// Sends INQUIRY and returns the standard data (SPC-4, 6.6.2).
    pub fn inquiry(&self) -> Option<Vec<u8>> {
        if self.target.is_live() {
            return self.ask_inquiry(None);
        }
        self.captured_bytes("inquiry.hex")
    }

    /// Sends INQUIRY and returns a page of vital product data.
    pub fn page(&self, page: u8) -> Option<Vec<u8>> {
        let data = if self.target.is_live() {
            self.ask_inquiry(Some(page))
        } else {
            self.captured_bytes(&format!("vpd-{page:02x}.hex"))
        };
        // A disk that does not support pages may answer with standard data.
        data.filter(|data| data.get(1) == Some(&page))
    }

    /// Sends IDENTIFY DEVICE and returns its data.
    pub fn identify(&self) -> Option<Vec<u8>> {
        if self.target.is_live() {
            return self.ask_identify();
        }
        words(&sysfs::text(&self.target.join("ata-identify.hex"))?)
    }

    fn captured_bytes(&self, file: &str) -> Option<Vec<u8>> {
        let data = bytes(&sysfs::text(&self.target.join(file))?)?;
        Some(data.into_iter().take(INQUIRY_LENGTH.into()).collect())
    }

    /// Opens the device node with O_NONBLOCK, so that the call does not wait for a
    /// medium.
    fn open(&self) -> Option<File> {
        OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open(self.target.as_path())
            .ok()
    }

    fn ask_inquiry(&self, page: Option<u8>) -> Option<Vec<u8>> {
        let evpd = u8::from(page.is_some());
        let command = [0x12, evpd, page.unwrap_or(0), 0, INQUIRY_LENGTH, 0];
        let mut data = vec![0; INQUIRY_LENGTH.into()];
        let reply =
            scsi_generic::send(&self.open()?, &command, Data::From(&mut data), TIMEOUT).ok()?;
        data.truncate(reply.length);
        reply.is_good().then_some(data)
    }

    /// Sends ATA PASS-THROUGH (12) (SAT-3, 12.2.2). Never send this command to a CD
    /// drive: its operation code is also that of BLANK, which erases the medium.
    fn ask_identify(&self) -> Option<Vec<u8>> {
        const PIO_DATA_IN: u8 = 4 << 1;
        // Flags of the command: the disk returns its registers, and transfers to the host
        // as many blocks as the sector count says.
        const FLAGS: u8 = 0x2e;
        const IDENTIFY_DEVICE: u8 = 0xec;
        if self.inquiry()?.first()? & 0x1f != 0 {
            return None;
        }
        let command = [
            0xa1,
            PIO_DATA_IN,
            FLAGS,
            0,
            1,
            0,
            0,
            0,
            0,
            IDENTIFY_DEVICE,
            0,
            0,
        ];
        let mut data = vec![0; ata_identify::LENGTH];
        let reply =
            scsi_generic::send(&self.open()?, &command, Data::From(&mut data), TIMEOUT).ok()?;
        is_ata_answer(&reply.sense).then_some(data)
    }
}

/// Whether the sense data contain ATA registers, which prove that an ATA disk answered
/// (SAT-3, 12.2.5, in descriptor and in fixed format).
fn is_ata_answer(sense: &[u8]) -> bool {
    let at = |index: usize| sense.get(index).copied().unwrap_or(0);
    match at(0) {
        0x72 => at(8) == 0x09 && at(9) == 0x0c,
        0x70 => at(12) == 0x00 && at(13) == 0x1d,
        _ => false,
    }
}

/// Parses bytes of two hexadecimal digits.
pub fn bytes(text: &str) -> Option<Vec<u8>> {
    text.split_whitespace()
        .map(|digits| u8::from_str_radix(digits, 16).ok())
        .collect()
}

/// Parses words of four hexadecimal digits into little-endian bytes, as the disk sends
/// them.
pub fn words(text: &str) -> Option<Vec<u8>> {
    let words: Option<Vec<[u8; 2]>> = text
        .split_whitespace()
        .map(|digits| Some(u16::from_str_radix(digits, 16).ok()?.to_le_bytes()))
        .collect();
    Some(words?.concat())
}

#[cfg(test)]
mod tests {
    use landfall_sys::sys_tree::plant;

    use super::*;

    #[test]
    fn captured_answers_are_read() {
        let root = plant(
            "ioctl/sda/inquiry.hex = 00 00 05 02\\n1f 00\\n\n\
             ioctl/sda/vpd-83.hex = 00 83 00 00\\n\n\
             ioctl/sda/vpd-80.hex = 00 00 05 02\\n\n\
             ioctl/sda/ata-identify.hex = 0040 5333\\n\n\
             ioctl/sdb/inquiry.hex = 00 xx\\n",
        );
        let block = root.path().join("sys/block/sda");
        let query = DiskQuery::new(&block, "sda");
        assert_eq!(query.inquiry().unwrap(), [0, 0, 5, 2, 0x1f, 0]);
        assert_eq!(query.page(0x83).unwrap(), [0, 0x83, 0, 0]);
        assert_eq!(query.page(0x80), None, "standard data instead of a page");
        assert_eq!(query.page(0x00), None, "the command failed");
        assert_eq!(query.identify().unwrap(), [0x40, 0, 0x33, 0x53]);
        let broken = DiskQuery::new(&block, "sdb");
        assert_eq!(broken.inquiry(), None);
    }

    #[test]
    fn a_disk_that_is_not_there_is_silent() {
        let query = DiskQuery::new(&SystemPath::live(), "no-such-disk");
        assert_eq!(query.inquiry(), None);
        assert_eq!(query.identify(), None);
    }

    #[test]
    fn only_an_ata_disk_returns_its_registers() {
        let mut descriptor = [0; 22];
        (descriptor[0], descriptor[8], descriptor[9]) = (0x72, 0x09, 0x0c);
        let mut fixed = [0; 18];
        (fixed[0], fixed[13]) = (0x70, 0x1d);
        let mut refused = [0; 18];
        (refused[0], refused[2], refused[12]) = (0x70, 5, 0x20);
        for (sense, expected) in [
            (&descriptor[..], true),
            (&fixed[..], true),
            (&refused[..], false),
            (&[][..], false),
        ] {
            assert_eq!(is_ata_answer(sense), expected, "{sense:x?}");
        }
    }
}
