//! Settings from files and media.

use landfall_boot_params::{BootParams, Origin};

/// The input is a configuration file. It is also read as parameters.txt, and its
/// lines as settings from mDNS and from a lookup.
pub fn config_file(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut params = BootParams::default();
    params.read_parameters("/dev/sr0", &text);
    params.read_file("f.conf", &text);
    params.check_together();
    for (key, value) in text.lines().filter_map(|line| line.split_once('=')) {
        let _ = params.apply_mdns(key, value);
        let _ = params.apply_override(key.trim(), value, Origin::Lookup);
    }
    let _ = (params.list().len(), params.not_supported_yet());
    let _ = params.inspection_urls();
}
