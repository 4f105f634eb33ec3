//! Collects the modaliases of all devices in /sys.

use std::fs;
use std::path::Path;

/// How deep below /sys/devices a device may be. Even a device behind two PCI switches
/// and two USB hubs has a depth of only about 30.
const SYS_DEPTH_LIMIT: usize = 64;

/// An alias of `ib_ipoib`. No device requests this module by its modalias. On other
/// systems the scripts of rdma-core load it.
const IPOIB: &str = "rtnl-link-ipoib";

/// Every modalias in /sys, and the alias that turns a port on an InfiniBand fabric
/// into a network interface.
pub(super) fn wanted_aliases() -> Vec<String> {
    let mut aliases = Vec::new();
    collect_modaliases(Path::new("/sys/devices"), SYS_DEPTH_LIMIT, &mut aliases);
    if has_infiniband_port(Path::new("/sys/class/infiniband")) {
        aliases.push(IPOIB.to_owned());
    }
    aliases
}

fn has_infiniband_port(class: &Path) -> bool {
    let entries = |directory: &Path| fs::read_dir(directory).into_iter().flatten().flatten();
    entries(class)
        .flat_map(|device| entries(&device.path().join("ports")))
        .any(|port| {
            let layer = fs::read_to_string(port.path().join("link_layer")).unwrap_or_default();
            layer.trim() == "InfiniBand"
        })
}

/// Collects the text of every file `modalias` below a directory of /sys. Symbolic
/// links are not followed, because they lead to other places in the same tree.
fn collect_modaliases(directory: &Path, depth: usize, found: &mut Vec<String>) {
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    for entry in entries.flatten() {
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        if kind.is_dir() && depth > 0 {
            collect_modaliases(&entry.path(), depth - 1, found);
        } else if kind.is_file() && entry.file_name() == "modalias" {
            // Ignore a device that has disappeared meanwhile. Ignore an empty modalias,
            // because it requests no module.
            if let Ok(text) = fs::read_to_string(entry.path())
                && !text.trim().is_empty()
            {
                found.push(text.trim().to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_every_modalias_once_per_device_and_follows_no_link() {
        let dir = tempfile::tempdir().unwrap();
        let device = dir.path().join("pci0000:00/0000:00:03.0/virtio0");
        fs::create_dir_all(&device).unwrap();
        fs::write(device.join("modalias"), "virtio:d00000001v00001AF4\n").unwrap();
        fs::write(device.parent().unwrap().join("modalias"), "pci:v1AF4\n").unwrap();
        fs::write(dir.path().join("modalias"), "\n").unwrap();
        std::os::unix::fs::symlink(dir.path(), device.join("subsystem")).unwrap();

        let mut found = Vec::new();
        collect_modaliases(dir.path(), SYS_DEPTH_LIMIT, &mut found);
        found.sort();
        assert_eq!(found, ["pci:v1AF4", "virtio:d00000001v00001AF4"]);
    }

    #[test]
    fn only_a_port_on_infiniband_needs_ipoib() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!has_infiniband_port(dir.path()));
        for (device, layer, expected) in [
            ("mlx5_0", "Ethernet", false),
            ("mlx5_1", "InfiniBand", true),
        ] {
            let port = dir.path().join(device).join("ports/1");
            fs::create_dir_all(&port).unwrap();
            fs::write(port.join("link_layer"), format!("{layer}\n")).unwrap();
            assert_eq!(has_infiniband_port(dir.path()), expected, "{layer}");
        }
    }
}
