//! Reads the hosts whose network configuration is in the ramdisk.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use landfall_network_plan::embedded::{
    DIRECTORY, EmbeddedHost, EmbeddedHosts, HINTS_KEY, LARGEST, MOST_HOSTS, SUFFIX,
};

/// The maximum size of all files together, in bytes. A ramdisk for thousands of
/// hosts needs far less.
const MOST_BYTES: usize = 64 << 20;

/// The hosts of the system with this root, sorted by file name.
pub fn embedded_hosts(root: &Path) -> EmbeddedHosts {
    let mut embedded = EmbeddedHosts::default();
    let mut paths = match paths(&root.join(DIRECTORY)) {
        Ok(paths) => paths,
        // Most ramdisks have no such directory.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return embedded,
        Err(error) => {
            embedded
                .faults
                .push(format!("cannot read /{DIRECTORY}: {error}"));
            embedded.unread_hints = true;
            return embedded;
        }
    };
    if paths.len() > MOST_HOSTS {
        let count = paths.len();
        embedded.faults.push(format!(
            "/{DIRECTORY}: expected at most {MOST_HOSTS} hosts, found {count}; the rest is ignored"
        ));
        paths.truncate(MOST_HOSTS);
        embedded.unread_hints = true;
    }
    let mut left = MOST_BYTES;
    for path in paths {
        match read(&path, left) {
            Ok((host, bytes)) => {
                left -= bytes;
                embedded.hosts.push(host);
            }
            Err(error) => {
                let name = path.file_name().unwrap_or_default().display();
                embedded
                    .faults
                    .push(format!("/{DIRECTORY}/{name}: {error}; the host is ignored"));
                embedded.unread_hints |= may_have_hints(&path);
            }
        }
    }
    embedded
}

fn paths(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths: Vec<PathBuf> = fs::read_dir(directory)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<_>>()?;
    paths.retain(|path| path.to_string_lossy().ends_with(SUFFIX));
    paths.sort();
    Ok(paths)
}

/// Reads a host from a file of at most [`LARGEST`] and at most `left` bytes. Also returns
/// the length of the file in bytes.
fn read(path: &Path, left: usize) -> io::Result<(EmbeddedHost, usize)> {
    let limit = LARGEST.min(left);
    let mut text = String::new();
    // Read one byte beyond the limit, so that a file that is too long is noticed.
    File::open(path)?
        .take(limit as u64 + 1)
        .read_to_string(&mut text)?;
    if text.len() > limit {
        return Err(io::Error::other(format!(
            "expected at most {limit} bytes, found more"
        )));
    }
    let host = EmbeddedHost::from_json(&text).map_err(io::Error::other)?;
    Ok((host, text.len()))
}

/// Whether root device hints may be in a file that cannot be read as a host.
fn may_have_hints(path: &Path) -> bool {
    if path.is_dir() {
        return false;
    }
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(LARGEST as u64).read_to_end(&mut bytes));
    let key = HINTS_KEY.as_bytes();
    // A file that is too long was not read to its end.
    read.is_err() || bytes.len() == LARGEST || bytes.windows(key.len()).any(|part| part == key)
}

#[cfg(test)]
mod tests {
    use landfall_network_plan::Document;

    use super::*;

    #[test]
    fn hosts_are_in_order_of_names_and_invalid_files_are_reported() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(embedded_hosts(root.path()), EmbeddedHosts::default());
        let directory = root.path().join(DIRECTORY);
        fs::create_dir_all(directory.join("sub.json")).unwrap();
        let host = |name: &str| EmbeddedHost {
            host_name: Some(name.to_owned()),
            macs: Vec::new(),
            nics: std::collections::BTreeMap::new(),
            root_device_hints: None,
            document: Document::None,
        };
        for name in ["b", "a"] {
            fs::write(root.path().join(host(name).path()), host(name).to_json()).unwrap();
        }
        fs::write(directory.join("c.json"), r#"{"format": 2}"#).unwrap();
        fs::write(directory.join("notes.txt"), "").unwrap();
        let found = embedded_hosts(root.path());
        assert_eq!(found.hosts, [host("a"), host("b")]);
        assert_eq!(
            found.faults,
            [
                "/etc/landfall/hosts/c.json: expected format 1, found 2; the host is ignored",
                "/etc/landfall/hosts/sub.json: Is a directory (os error 21); the host is ignored",
            ]
        );
        assert!(!found.unread_hints);
        let hinted = r#"{"format": 2, "root_device_hints": {"serialNumber": "S"}}"#;
        fs::write(directory.join("c.json"), hinted).unwrap();
        assert!(embedded_hosts(root.path()).unread_hints);
        fs::remove_dir_all(&directory).unwrap();
        fs::write(&directory, "").unwrap();
        let broken = embedded_hosts(root.path());
        assert!(broken.unread_hints);
        assert_eq!(
            broken.faults,
            ["cannot read /etc/landfall/hosts: Not a directory (os error 20)"]
        );
    }
}
