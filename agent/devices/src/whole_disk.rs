//! A disk with all paths to it, for all code that lists or writes disks.

use landfall_sys::system_path::SystemPath;

use crate::disk_paths::{self, SharedIdentity};

/// One disk. `T` is the caller's data for each block device that is a path to the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WholeDisk<T> {
    /// The path that is used: the first active one, or else the first one.
    pub path: T,
    /// The other paths, in the order in which they were listed.
    pub other_paths: Vec<T>,
}

/// Paths to one disk. The flag is true if the path is active.
type Paths<T> = Vec<(bool, T)>;

impl<T> WholeDisk<T> {
    /// Groups block devices by the disk that they belong to. The disks are in the order
    /// of their first paths. `block` returns a device's directory in /sys/devices.
    pub fn group(
        devices: impl IntoIterator<Item = T>,
        block: impl Fn(&T) -> &SystemPath,
    ) -> Vec<Self> {
        let mut groups: Vec<(Option<SharedIdentity>, Paths<T>)> = Vec::new();
        for device in devices {
            let identity = disk_paths::identity(block(&device));
            let path = (disk_paths::is_active(block(&device)), device);
            let same = groups
                .iter_mut()
                .find(|(known, _)| identity.is_some() && *known == identity);
            match same {
                Some((_, paths)) => paths.push(path),
                None => groups.push((identity, vec![path])),
            }
        }
        groups
            .into_iter()
            .map(|(_, paths)| Self::of_paths(paths))
            .collect()
    }

    /// `paths` has at least one path.
    fn of_paths(mut paths: Paths<T>) -> Self {
        let used = paths.iter().position(|(active, _)| *active).unwrap_or(0);
        let (_, path) = paths.remove(used);
        Self {
            path,
            other_paths: paths.into_iter().map(|(_, path)| path).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use landfall_sys::sys_tree::plant;

    use super::*;

    #[test]
    fn the_first_active_path_is_used() {
        let path = |name: &str, wwid: &str, access: &str| {
            format!(
                "sys/block/{name}/size = 2048\\n\nsys/block/{name}/device/wwid = {wwid}\\n\n\
                 sys/block/{name}/device/access_state = {access}\\n\n"
            )
        };
        let root = plant(
            &[
                path("sda", "naa.600", "standby"),
                path("sdb", "naa.601", "standby"),
                path("sdc", "naa.600", "transitioning"),
                path("sdd", "naa.600", "active/optimized"),
                path("sde", "naa.600", "active/non-optimized"),
                path("sdf", "naa.601", "standby"),
                "sys/block/vda/size = 2048\\n\nsys/block/vdb/size = 2048\\n".to_owned(),
            ]
            .concat(),
        );
        let block = root.path().join("sys/block");
        let devices = landfall_sys::sysfs::names(&block).into_iter();
        let devices: Vec<SystemPath> = devices.map(|name| block.join(name)).collect();
        let disks = WholeDisk::group(devices, |device| device);
        let found: Vec<(&str, Vec<&str>)> = disks
            .iter()
            .map(|disk| {
                let others = disk.other_paths.iter().filter_map(SystemPath::name);
                (disk.path.name().unwrap(), others.collect())
            })
            .collect();
        assert_eq!(
            found,
            [
                ("sdd", vec!["sda", "sdc", "sde"]),
                ("sdb", vec!["sdf"]),
                ("vda", vec![]),
                ("vdb", vec![]),
            ]
        );
    }
}
