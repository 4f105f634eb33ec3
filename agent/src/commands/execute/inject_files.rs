//! The step `inject_files`: copies the operator's files into the installed system.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use landfall_devices::permission::WritePermission;
use landfall_disk::tables::file_system::{self, PROBE_LEN};
use landfall_download::fetch::{self, Request};
use landfall_handover::injected_file::{self, InjectedFile};
use landfall_handover::written_disk;
use landfall_inventory::block_devices;
use landfall_report::failure::{Failure, Result};
use landfall_sys::system_path::SystemPath;
use nix::mount::MsFlags;
use serde_json::Value;

use super::root_disk;
use crate::commands::files_to_inject::{Content, FileRequest, Where, read};
use crate::commands::machine::{Machine, blocking};
use crate::commands::node::Node;
use crate::commands::url_template;

/// The maximum size of a file in bytes. The whole file is held in memory.
const SIZE_LIMIT: usize = 64 << 20;

pub(super) async fn execute(
    machine: &Arc<Machine>,
    node: &Node,
    arguments: &Value,
    _permission: WritePermission,
) -> Result<Value> {
    let files = read(
        node.property("inject_files").unwrap_or(&Value::Null),
        &arguments["files"],
    )?;
    if files.is_empty() {
        tracing::info!("there are no files to inject");
        return Ok(Value::Null);
    }
    if arguments["verify_ca"] == Value::Bool(false) {
        tracing::warn!("inject_files: verify_ca=false is ignored: the settings of the agent apply");
    }
    let disk = match machine.written_disk() {
        Some(disk) => disk,
        None => root_disk::find(machine, node).await?.path,
    };
    let (client, node) = (machine.client.clone(), node.clone());
    blocking(move || {
        for file in &files {
            let content =
                load(file, &node, &client).map_err(|failure| of_file(&file.path, failure))?;
            let change = InjectedFile {
                path: file.path.clone(),
                content,
                mode: file.mode,
                directory_mode: file.directory_mode,
                owner: file.owner,
                group: file.group,
            };
            let place = apply(&change, &file.place, &disk)?;
            tracing::info!("{} injected into {}", file.path.display(), place.display());
        }
        Ok(Value::Null)
    })
    .await
}

fn load(file: &FileRequest, node: &Node, client: &reqwest::Client) -> Result<Option<Vec<u8>>> {
    match &file.content {
        Content::Deleted => Ok(None),
        Content::Base64(text) => STANDARD
            .decode(text.split_ascii_whitespace().collect::<String>())
            .map(Some)
            .map_err(|error| Failure::invalid_params(format!("content is not base64: {error}"))),
        Content::Url(template) => {
            let url = url_template::fill(template, &node.0)
                .map_err(|error| Failure::invalid_params(error.to_string()))?;
            let request = Request::new([url]);
            fetch::small_file(request, client.clone(), SIZE_LIMIT).map(Some)
        }
    }
}

/// The failure to load this file. Class and hint are those of the cause.
fn of_file(path: &Path, failure: Failure) -> Failure {
    Failure {
        details: format!("{}: {}", path.display(), failure.details),
        ..failure
    }
}

/// Writes one file, and returns the partition that it changed.
fn apply(change: &InjectedFile, place: &Where, disk: &Path) -> Result<PathBuf> {
    let partition = match place {
        Where::Number(number) => written_disk::node(disk, *number)?,
        Where::Device(device) => device.clone(),
        Where::ByDirectory(directory) => find_partition(disk, directory)?,
    };
    mounted(&partition, MsFlags::empty(), |root| change.apply(root))?
        .map_err(|error| io_failure(&partition, &error))?;
    Ok(partition)
}

/// The first partition of the disk that has this directory in its root.
fn find_partition(disk: &Path, directory: &Path) -> Result<PathBuf> {
    let devices = block_devices::collect(&SystemPath::live());
    let partitions = devices
        .into_iter()
        .find(|device| Path::new(&device.disk.name) == disk)
        .map(|device| device.partitions)
        .unwrap_or_default();
    let mut seen = Vec::new();
    for partition in partitions {
        let path = PathBuf::from(partition.name);
        let has = |root: &Path| injected_file::has_directory(root, directory);
        match mounted(&path, MsFlags::MS_RDONLY, has) {
            Ok(true) => return Ok(path),
            Ok(false) => seen.push(format!("{}: not there", path.display())),
            Err(failure) => seen.push(failure.details),
        }
    }
    Err(Failure::device_not_found(format!(
        "expected a partition of {} with directory {}, found none: {}",
        disk.display(),
        directory.display(),
        seen.join("; ")
    ))
    .hint("set \"partition\" of this file to the partition's number or device, for example 3 or /dev/sda3"))
}

/// Runs `work` on the mounted partition.
fn mounted<T>(partition: &Path, flags: MsFlags, work: impl FnOnce(&Path) -> T) -> Result<T> {
    let mut start = vec![0; PROBE_LEN];
    File::open(partition)
        .and_then(|device| device.read_exact_at(&mut start, 0))
        .map_err(|error| io_failure(partition, &error))?;
    let found = file_system::identify(&start).ok_or_else(|| {
        Failure::other(format!(
            "{}: expected ext4, xfs or vfat, found no file system that is known here",
            partition.display()
        ))
    })?;
    let mount_point = Path::new(written_disk::INJECTED_MOUNT_POINT);
    let mounted = written_disk::mount(partition, mount_point, found.kind, flags)?;
    let result = work(mount_point);
    mounted
        .unmount()
        .map_err(|error| io_failure(partition, &error))?;
    Ok(result)
}

fn io_failure(partition: &Path, error: &io::Error) -> Failure {
    Failure::other(format!("{}: {error}", partition.display()))
}

#[cfg(test)]
mod tests {
    use landfall_report::failure::Class;

    use super::*;

    #[test]
    fn a_failed_download_keeps_its_class_and_hint() {
        let download = Failure::image_download("http://h/f: gave up")
            .hint("is the image server up?")
            .permanently();
        let failure = of_file(Path::new("etc/hosts"), download);
        assert_eq!(failure.class, Class::ImageDownloadError);
        assert_eq!(
            failure.to_string(),
            "etc/hosts: http://h/f: gave up -- is the image server up?"
        );
        assert!(failure.permanent);
    }
}
