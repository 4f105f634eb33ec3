//! Reads this machine's NetworkManager keyfiles, so that the installed system can use
//! them on its first boot.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

use landfall_report::failure::{Failure, Result};

use crate::options::{InstallOptions, NETWORK_DIR};

/// The maximum number of bytes that are read from one file. `handover/firstboot_keyfiles`
/// has a lower limit, and therefore rejects a file that was cut here.
const LIMIT: u64 = 1 << 20;

/// The name and content of each file, sorted by name. Empty without
/// `--copy-network`.
///
/// # Errors
/// If the directory or a file cannot be read.
pub(super) fn read(options: &InstallOptions) -> Result<Vec<(String, Vec<u8>)>> {
    if !options.copy_network {
        return Ok(Vec::new());
    }
    let directory = options.network_dir.as_deref();
    of_directory(
        directory.unwrap_or(Path::new(NETWORK_DIR)),
        "--copy-network",
    )
}

/// The keyfiles of the live system in which this process runs: all that
/// `coreos-installer --copy-network` copies. `request` is the name of the setting that
/// requires the keyfiles.
///
/// # Errors
/// If the directory or a file cannot be read.
pub fn keyfiles_of_live_system(request: &str) -> Result<Vec<(String, Vec<u8>)>> {
    of_directory(Path::new(NETWORK_DIR), request)
}

fn of_directory(directory: &Path, request: &str) -> Result<Vec<(String, Vec<u8>)>> {
    let files = read_all(directory).map_err(|error| {
        Failure::invalid_params(format!(
            "{request}: cannot read {}: {error}",
            directory.display()
        ))
    })?;
    if files.is_empty() {
        tracing::warn!(
            "{request}: found no keyfile in {}, so no keyfile is copied to the installed system",
            directory.display()
        );
    }
    Ok(files)
}

fn read_all(directory: &Path) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            tracing::warn!(
                "{}: skipped, because its name is not UTF-8",
                entry.path().display()
            );
            continue;
        };
        // Follow links, as NetworkManager does.
        if !fs::metadata(entry.path()).is_ok_and(|metadata| metadata.is_file()) {
            continue;
        }
        if !name.ends_with(".nmconnection") || name.starts_with('.') {
            // CoreOS copies the files to a directory in which NetworkManager ignores
            // files with other names.
            tracing::warn!(
                "{name}: skipped, because NetworkManager reads only names that end in .nmconnection and do not begin with a dot"
            );
            continue;
        }
        let mut content = Vec::new();
        File::open(entry.path())?
            .take(LIMIT)
            .read_to_end(&mut content)?;
        files.push((name, content));
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keyfiles_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let place = |name: &str| directory.path().join(name);
        for name in [
            "b.nmconnection",
            "a.nmconnection",
            ".c.nmconnection",
            "README",
        ] {
            fs::write(place(name), name).unwrap();
        }
        fs::create_dir(place("d.nmconnection")).unwrap();
        std::os::unix::fs::symlink("README", place("e.nmconnection")).unwrap();
        std::os::unix::fs::symlink("nothing", place("f.nmconnection")).unwrap();
        let mut options = InstallOptions {
            network_dir: Some(directory.path().to_owned()),
            ..InstallOptions::default()
        };
        assert!(read(&options).unwrap().is_empty(), "not asked for");
        options.copy_network = true;
        let found = read(&options).unwrap();
        let text = |name: &str, content: &str| (name.to_owned(), content.as_bytes().to_vec());
        assert_eq!(
            found,
            [
                text("a.nmconnection", "a.nmconnection"),
                text("b.nmconnection", "b.nmconnection"),
                text("e.nmconnection", "README"),
            ]
        );
        options.network_dir = Some(place("none"));
        let failure = read(&options).unwrap_err();
        assert!(failure.details.contains("none: No such file"), "{failure}");
    }
}
