//! Removes the folders of earlier versions, which no link leads to any more.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;
use std::{fs, io};

use super::{FOLDER, UNFINISHED};

/// The minimum age of a leftover. A younger folder or unfinished file may be the current
/// work of another container.
const LEFTOVER_AGE: Duration = Duration::from_secs(3600);

/// The names of our folders to which a link in `images` leads.
pub(super) fn linked_folders(images: &Path) -> BTreeSet<String> {
    let names = names(images).into_iter();
    let targets = names.filter_map(|name| fs::read_link(images.join(name)).ok());
    let folders = targets.filter_map(|target| {
        let first = target.iter().next()?.to_str()?;
        first.starts_with(FOLDER).then(|| first.to_owned())
    });
    folders.collect()
}

/// Removes our folders that are not in `kept`, and unfinished folders and links, if they
/// are older than [`LEFTOVER_AGE`]. Returns a message for each one that it could not
/// remove.
pub(super) fn remove_old(images: &Path, kept: &BTreeSet<String>) -> Vec<String> {
    let mut problems = Vec::new();
    for name in names(images) {
        let path = images.join(&name);
        let is_folder = path.symlink_metadata().is_ok_and(|data| data.is_dir());
        let is_unused = name.starts_with(FOLDER) && is_folder && !kept.contains(&name);
        if !(is_unused || name.starts_with(UNFINISHED)) || !is_leftover(images, &path) {
            continue;
        }
        let removed = match is_folder {
            true => fs::remove_dir_all(&path),
            false => fs::remove_file(&path),
        };
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                problems.push(format!("cannot remove {}: {error}", path.display()));
            }
            _ => {}
        }
    }
    problems
}

/// Whether a file is so old that nobody works on it. The caller has just changed the
/// directory `images`, so its time is the current time on the clock of the file system.
fn is_leftover(images: &Path, path: &Path) -> bool {
    let time = |path: &Path| path.symlink_metadata().and_then(|data| data.modified());
    let age = time(images).and_then(|now| {
        let age = now.duration_since(time(path)?);
        age.map_err(io::Error::other)
    });
    age.is_ok_and(|age| age > LEFTOVER_AGE)
}

fn names(directory: &Path) -> Vec<String> {
    let entries = directory.read_dir().into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.collect()
}
