//! Writes NetworkManager keyfiles for the first boot. CoreOS's initramfs uses them
//! instead of the network in the kernel arguments, and removes them afterwards
//! (coreos-copy-firstboot-network.service).

use std::collections::BTreeSet;
use std::path::Path;

use landfall_report::failure::{Failure, Result};

use crate::boot_files::BootFiles;

/// The directory of the files in the boot partition.
pub const DIRECTORY: &str = "coreos-firstboot-network";

/// CoreOS copies the files to a directory in which NetworkManager reads only files
/// with this suffix (nm-settings-keyfile(5)).
const SUFFIX: &str = ".nmconnection";

/// The longest file name on ext4, in bytes.
const NAME_LIMIT: usize = 255;
/// In bytes per file. The keyfile of a bond with every option and a hundred routes
/// has 5 KB.
const SIZE_LIMIT: usize = 256 << 10;
/// Number of files; a host that uses every port of four switches has 200.
const COUNT_LIMIT: usize = 1024;

/// Rejects files that cannot be written or that NetworkManager would not read. The
/// error names the first fault.
pub fn check(files: &[(String, Vec<u8>)]) -> Result<()> {
    if files.len() > COUNT_LIMIT {
        return Err(Failure::invalid_params(format!(
            "network keyfiles: expected at most {COUNT_LIMIT}, found {}",
            files.len()
        )));
    }
    let mut names = BTreeSet::new();
    for (name, content) in files {
        let bad = |reason: String| {
            Err(Failure::invalid_params(format!(
                "network keyfile {name:?}: {reason}"
            )))
        };
        let plain = name.ends_with(SUFFIX)
            && !name.starts_with('.')
            && !name.contains(|c: char| c == '/' || c.is_control())
            && name.len() <= NAME_LIMIT;
        if !plain {
            return bad(format!(
                "expected a plain file name that ends in {SUFFIX}, of at most {NAME_LIMIT} bytes"
            ));
        }
        if !names.insert(name) {
            return bad("expected one file of this name, found two".to_owned());
        }
        if content.len() > SIZE_LIMIT {
            return bad(format!(
                "expected at most {SIZE_LIMIT} bytes, found {}",
                content.len()
            ));
        }
    }
    Ok(())
}

/// Fails if the partition already has one of these files, or if the path of their
/// directory exists and is not a directory.
pub fn check_absent(boot: &(impl BootFiles + ?Sized), files: &[(String, Vec<u8>)]) -> Result<()> {
    let directory = Path::new(DIRECTORY);
    boot.check_directory(directory)?;
    for (name, _) in files {
        let path = directory.join(name);
        if boot.exists(&path)? {
            return Err(boot.problem(&path, &"the image holds a keyfile of this name already"));
        }
    }
    Ok(())
}

/// Writes the files where CoreOS looks for them. Only root may read them:
/// NetworkManager ignores keyfiles that other users can read.
///
/// # Errors
/// If a file exists already, or the file system rejects it.
pub fn write(boot: &(impl BootFiles + ?Sized), files: &[(String, Vec<u8>)]) -> Result<()> {
    if files.is_empty() {
        return Ok(());
    }
    let directory = Path::new(DIRECTORY);
    boot.make_directory(directory, 0o755)?;
    for (name, content) in files {
        boot.create(&directory.join(name), content)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn files(names: &[&str]) -> Vec<(String, Vec<u8>)> {
        let file = |name: &&str| ((*name).to_owned(), b"[connection]\n".to_vec());
        names.iter().map(file).collect()
    }

    #[test]
    fn names_that_would_lead_elsewhere_or_not_be_read_are_refused() {
        let long = format!("{}.nmconnection", "x".repeat(243));
        for name in [
            "",
            ".nmconnection",
            ".hidden.nmconnection",
            "eth0",
            "eth0.conf",
            "../eth0.nmconnection",
            "a/b.nmconnection",
            "a\nb.nmconnection",
            "a\0b.nmconnection",
            &long,
        ] {
            assert!(check(&files(&[name])).is_err(), "{name:?}");
        }
        for name in ["eth0.nmconnection", "bond0.50.nmconnection", &long[1..]] {
            check(&files(&[name])).unwrap();
        }
        let twice = check(&files(&[
            "a.nmconnection",
            "b.nmconnection",
            "a.nmconnection",
        ]));
        assert!(twice.unwrap_err().details.contains("found two"));
    }

    #[test]
    fn too_large_or_too_many_keyfiles_are_rejected() {
        let mut large = files(&["a.nmconnection"]);
        large[0].1 = vec![b'#'; SIZE_LIMIT + 1];
        assert!(check(&large).is_err());
        let names: Vec<String> = (0..=COUNT_LIMIT).map(|n| format!("{n}{SUFFIX}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert!(check(&files(&names)).is_err());
        check(&files(&names[1..])).unwrap();
    }

    #[test]
    fn written_for_root_alone() {
        let boot = tempfile::tempdir().unwrap();
        let directory = boot.path().join(DIRECTORY);
        write(boot.path(), &[]).unwrap();
        assert!(!directory.exists(), "no files, no folder");
        let both = files(&["eth0.nmconnection", "bond0.50.nmconnection"]);
        write(boot.path(), &both).unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode(&directory), 0o755);
        for (name, content) in &both {
            let path = directory.join(name);
            assert_eq!(mode(&path), 0o600, "{name}");
            assert_eq!(std::fs::read(&path).unwrap(), *content);
        }
        // An existing file is not replaced.
        assert!(write(boot.path(), &both[..1]).is_err());
    }
}
