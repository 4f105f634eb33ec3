//! The step `erase_devices_metadata`, which removes everything by which
//! programs recognise the content of a disk.

use std::path::Path;

use landfall_devices::permission::WritePermission;
use landfall_disk::erase::metadata::erase_metadata;
use landfall_report::failure::{Failure, Result};
use serde_json::Value;

use super::erasable::{self, Erasable, Obstacle};
use crate::commands::machine::{Machine, blocking};
use crate::commands::node::Node;

pub(super) async fn execute(
    machine: &Machine,
    node: &Node,
    permission: WritePermission,
) -> Result<Value> {
    let guarded = erasable::is_guarded(machine, node);
    let disks = erasable::list_unshared(machine, node, guarded).await?;
    blocking(move || {
        let failures: Vec<(String, Failure)> = disks
            .iter()
            .flat_map(|disk| erase_disk(disk, &permission))
            .collect();
        erasable::joined(&failures).map_or(Ok(Value::Null), Err)
    })
    .await
}

/// Erases the metadata of a disk and its partitions. Continues after a failure, so that
/// it erases as much as possible. Skips a read-only disk and a RAID member without a
/// failure. Returns the failures with the names of the devices.
pub(super) fn erase_disk(disk: &Erasable, permission: &WritePermission) -> Vec<(String, Failure)> {
    match &disk.obstacle {
        None => {}
        Some(Obstacle::ReadOnly) => {
            tracing::info!("{} is not erased: it is read-only", disk.name());
            return Vec::new();
        }
        Some(Obstacle::RaidMember) => {
            tracing::warn!(
                "{} is not erased: it belongs to a software RAID (the step delete_configuration deletes software RAID)",
                disk.name()
            );
            return Vec::new();
        }
        Some(Obstacle::InUse(uses)) => return vec![(disk.name(), in_use(uses))],
        Some(Obstacle::Unreadable(reason)) => return vec![(disk.name(), unreadable(reason))],
    }
    if let Err(failure) = disk.release(permission) {
        tracing::error!("{failure}");
        return vec![(disk.name(), failure)];
    }
    let mut failures = Vec::new();
    // Partitions come before their disk: they disappear with its partition table.
    for path in disk.partitions.iter().chain([&disk.disk]) {
        if let Err(failure) = erase_device(disk, path, permission) {
            tracing::error!("{failure}");
            failures.push((path.display().to_string(), failure));
        }
    }
    failures
}

/// The failure for a disk that is in use and must not be touched.
pub(super) fn in_use(uses: &str) -> Failure {
    Failure::erasure(format!("it is in use: {uses}"))
        .hint("unmount it, or name it in skip_block_devices of the node's properties")
}

/// The failure for an unreadable disk, which is not erased because only its content would
/// show whether it may be erased.
pub(super) fn unreadable(reason: &str) -> Failure {
    Failure::erasure(format!("it was not erased, because its content could not be read: {reason}"),
    )
    .hint("replace the disk, or name it in skip_block_devices of the node's properties; if it is locked with a password, the step erase_devices unlocks it")
}

fn erase_device(disk: &Erasable, path: &Path, permission: &WritePermission) -> Result<()> {
    let target = disk.open(path, permission)?;
    let found = erase_metadata(&target)?;
    if path == disk.disk {
        target.reread_partitions()?;
        target.refresh_other_paths();
    }
    let found = match found.as_slice() {
        [] => "no known metadata".to_owned(),
        found => found.join(", "),
    };
    tracing::info!("{}: metadata erased, found {found}", path.display());
    // Check again whether other disks have this disk's identity: two device nodes that
    // counted as paths to one disk may now show different content. In this case there are
    // two disks.
    target.refuse_namesake()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use landfall_disk::fixtures::loop_device;
    use landfall_sys::skip::skip;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn run(program: &str, arguments: &[&str], path: &Path) -> String {
        let output = Command::new(program)
            .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
            .args(arguments)
            .arg(path)
            .output()
            .unwrap();
        assert!(output.status.success(), "{program}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn a_disk_with_its_partitions_unless_it_is_in_the_way() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(64 * MIB).unwrap();
        let table = ["-n", "1:1M:+16M", "-n", "2:20M:+16M"];
        run("sgdisk", &table, file.path());
        let Some(device) = loop_device(file.path(), 512) else {
            return;
        };
        let first = device.show_partition(1, MIB, 16 * MIB);
        let second = device.show_partition(2, 20 * MIB, 16 * MIB);
        if !second.exists() {
            return skip("nobody makes device nodes here");
        }
        run("mke2fs", &["-q", "-F"], &first);
        run("mkswap", &["-q"], &second);
        let mut erasable = Erasable::for_test(device.path().to_str().unwrap());
        erasable.partitions = vec![second.clone(), first.clone()];
        let permission = WritePermission::by_operator();

        erasable.obstacle = Some(Obstacle::RaidMember);
        assert_eq!(erase_disk(&erasable, &permission), []);
        erasable.obstacle = Some(Obstacle::InUse("p1 is mounted on /".into()));
        assert_eq!(erase_disk(&erasable, &permission).len(), 1);
        let wipefs = |path: &Path| run("wipefs", &["--no-act", "--noheadings"], path);
        assert!(wipefs(device.path()).contains("gpt"), "not touched");

        erasable.obstacle = None;
        assert_eq!(erase_disk(&erasable, &permission), []);
        // This loop device does not scan for partitions, so its partitions stay until
        // they are removed.
        for path in [first, second, device.path().to_owned()] {
            assert_eq!(wipefs(&path), "", "{}", path.display());
        }
    }
}
