//! Fuzz functions for files that describe an installation.

use landfall_installation::{InstallOptions, stream};

/// Reads a config file of an installation.
pub fn install_config(data: &[u8]) {
    if let Err(failure) = InstallOptions::from_config(&String::from_utf8_lossy(data)) {
        assert!(!failure.details.contains('\n'), "{failure:?}");
    }
}

/// Reads the metadata of a CoreOS stream.
pub fn stream_metadata(data: &[u8]) {
    for sector in [512, 4096] {
        if let Ok(found) = stream::find(data, "x86_64", sector) {
            assert_eq!(found.sha256.hex().len(), 64);
        }
    }
}
