//! Recognises members of a firmware RAID by their metadata: the formats of Intel (RST,
//! VROC) and of the DDF standard. These are the only firmware RAIDs that mdadm assembles.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

/// The name, the magic bytes, and the possible distances of the magic bytes from the end
/// of the disk in bytes, for sectors of 512 and of 4096 bytes. libblkid looks in the same
/// places, but for DDF only with sectors of 512 bytes. Intel's metadata is mdadm's
/// `struct imsm_super`, in the second to last sector. The anchor header of DDF is in the
/// last sector, or before data that some controllers keep there.
const SIGNATURES: [(&str, &[u8], [u64; 3]); 2] = [
    (
        "Intel, IMSM",
        b"Intel Raid ISM Cfg Sig. ",
        [1024, 8192, 8192],
    ),
    ("DDF", b"\xde\x11\xde\x11", [512, 4096, 257 * 512]),
];

/// The kind of firmware RAID that a disk of `size` bytes is a member of. If a place
/// cannot be read, it counts as a place without a signature.
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
