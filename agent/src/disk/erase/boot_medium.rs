//! The medium that this boot came from, or that brought its settings, when it
//! is a disk to the kernel: a USB stick, or what a BMC shows as one.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use crate::disk::file_system::{self, PROBE_LEN};
use crate::sys::block_ioctl;

/// Labels of what is booted from: our own ISO, and those of Ironic's making.
const ISO_LABELS: [&str; 3] = ["landfall", "config-2", "vmedia_boot_iso"];
/// Label of the floppy that Ironic's parameters come on, on any bus.
const PARAMETERS_LABEL: &str = "ir-vfd-dev";
/// As for media that are read (`media/volumes.rs`): who labels a disk so shall
/// not keep it through the cleaning after him.
const PARAMETERS_LIMIT: u64 = 4 << 30;

/// Whether this disk is such a medium.
///
/// # Errors
/// If it cannot be read.
pub fn is_boot_medium(disk: &Path, is_usb: bool) -> io::Result<bool> {
    let device = File::open(disk)?;
    let size = block_ioctl::size_bytes(&device)?;
    let mut start = vec![0; PROBE_LEN];
    let mut length = 0;
    loop {
        match device.read_at(&mut start[length..], length as u64)? {
            0 => break,
            count => length += count,
        }
    }
    Ok(judge(&start[..length], size, is_usb))
}

fn judge(start: &[u8], size: u64, is_usb: bool) -> bool {
    // A hybrid ISO begins with a partition table and may look like FAT too.
    let iso = start
        .get(32768..)
        .filter(|rest| rest.starts_with(b"\x01CD001"))
        .and_then(|rest| rest.get(40..72))
        .map(|label| String::from_utf8_lossy(label).trim_end().to_lowercase());
    if let Some(label) = iso {
        return is_usb && ISO_LABELS.contains(&label.as_str());
    }
    size < PARAMETERS_LIMIT
        && file_system::identify(start)
            .is_some_and(|found| found.label.eq_ignore_ascii_case(PARAMETERS_LABEL))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn iso(label: &str) -> Vec<u8> {
        let mut start = vec![0; PROBE_LEN];
        start[510..512].copy_from_slice(&[0x55, 0xaa]);
        start[32768..32774].copy_from_slice(b"\x01CD001");
        start[32808..32840].copy_from_slice(format!("{label:32}").as_bytes());
        start
    }

    #[test]
    fn a_disk_with_the_label_of_a_floppy_is_a_disk() {
        // A FAT16 boot sector as mkfs.fat writes it.
        let mut start = vec![0; PROBE_LEN];
        start[..3].copy_from_slice(b"\xeb\x3c\x90");
        (start[12], start[13], start[14], start[16]) = (2, 4, 1, 2);
        start[38] = 0x29;
        start[43..54].copy_from_slice(b"IR-VFD-DEV ");
        start[54..62].copy_from_slice(b"FAT16   ");
        start[510..512].copy_from_slice(&[0x55, 0xaa]);
        assert!(judge(&start, 1_474_560, false));
        assert!(!judge(&start, PARAMETERS_LIMIT, false));
        assert!(!judge(&start, PARAMETERS_LIMIT, true));
    }

    #[test]
    fn an_iso_on_a_stick_is_kept() {
        assert!(judge(&iso("LANDFALL"), 1 << 30, true));
        assert!(judge(&iso("VMEDIA_BOOT_ISO"), 1 << 30, true));
        assert!(judge(&iso("config-2"), 1 << 30, true));
        assert!(
            !judge(&iso("LANDFALL"), 1 << 30, false),
            "written onto a disk"
        );
        assert!(!judge(&iso("ubuntu"), 1 << 30, true));
        assert!(!judge(&[], 1 << 30, true));
    }
}
