//! Unpacks an archive, for the tests of its callers.

use std::collections::BTreeMap;
use std::io::Read as _;

use base64::Engine as _;

/// The members of a packed text.
pub fn unpack(packed: &str) -> BTreeMap<String, String> {
    let packed = base64::engine::general_purpose::STANDARD
        .decode(packed)
        .unwrap();
    unpack_tar_gz(&packed)
}

/// The members of an archive without base64.
pub fn unpack_tar_gz(packed: &[u8]) -> BTreeMap<String, String> {
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(packed));
    archive
        .entries()
        .unwrap()
        .map(|entry| {
            let mut entry = entry.unwrap();
            let name = entry.path().unwrap().display().to_string();
            let mut content = String::new();
            entry.read_to_string(&mut content).unwrap();
            (name, content)
        })
        .collect()
}
