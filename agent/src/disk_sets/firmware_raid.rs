//! The metadata by which a disk is a member of a RAID that firmware makes and mdadm
//! assembles: Intel's (RST, VROC) and that of the DDF standard. mdadm assembles no
//! other kind.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

/// What it is called, what is there, and how far before the end of the disk, for
/// sectors of 512 and of 4096 bytes. (Places as in libblkid; Intel's is
/// `struct imsm_super` of mdadm, in the last sector but one, and DDF's anchor header
/// in the last one, or in front of what some controllers keep there.)
const SIGNATURES: [(&str, &[u8], [u64; 3]); 2] = [
    (
        "Intel, IMSM",
        b"Intel Raid ISM Cfg Sig. ",
        [1024, 8192, 8192],
    ),
    ("DDF", b"\xde\x11\xde\x11", [512, 4096, 257 * 512]),
];

/// The kind of RAID that a disk of this size is a member of. What cannot be read
/// is no signature.
pub fn find(device: &File, size: u64) -> Option<&'static str> {
    let found = SIGNATURES.iter().find(|(_, magic, places)| {
        places.iter().any(|before_end| {
            let mut bytes = vec![0; magic.len()];
            let read = size.checked_sub(*before_end);
            let read = read.map(|offset| device.read_exact_at(&mut bytes, offset));
            matches!(read, Some(Ok(()))) && bytes == *magic
        })
    });
    found.map(|(name, ..)| *name)
}
