//! Which firmware files a selection of modules may ask for, and which of them there are.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use landfall_module_index::pattern;

use crate::kernel_modules::Selection;
use crate::path_error::PathError;

/// The firmware of a selection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Firmware {
    /// Path below `/lib/firmware` to the file.
    pub found: BTreeMap<String, PathBuf>,
    /// Module and path of what is declared and not there. Old hardware as a rule:
    /// drivers go on naming files that no package has carried for years.
    pub missing: BTreeSet<(String, String)>,
}

/// The packings of firmware files that the kernel's loader understands.
#[derive(Debug, Clone, Copy, Default)]
pub struct PackedFirmware {
    /// `.xz`, `CONFIG_FW_LOADER_COMPRESS_XZ`.
    pub xz: bool,
    /// `.zst`, `CONFIG_FW_LOADER_COMPRESS_ZSTD`.
    pub zst: bool,
}

/// Looks up every `firmware=` declaration of a selection below `directory`.
///
/// # Errors
/// [`PathError`] if the directory cannot be listed.
pub fn collect(
    selection: &Selection,
    directory: &Path,
    packed: PackedFirmware,
) -> Result<Firmware, PathError> {
    std::fs::read_dir(directory).map_err(PathError::new("listing firmware in", directory))?;
    let mut firmware = Firmware::default();
    for (module, info) in selection {
        for declared in &info.firmware {
            let found = candidates(directory, declared, packed)?;
            if found.is_empty() {
                firmware.missing.insert((module.clone(), declared.clone()));
            }
            firmware.found.extend(found);
        }
    }
    Ok(firmware)
}

/// How many modules of a selection declare any firmware.
#[must_use]
pub fn modules_that_declare_any(selection: &Selection) -> usize {
    selection
        .values()
        .filter(|info| !info.firmware.is_empty())
        .count()
}

fn candidates(
    directory: &Path,
    declared: &str,
    packed: PackedFirmware,
) -> Result<Vec<(String, PathBuf)>, PathError> {
    if declared
        .split('/')
        .any(|part| matches!(part, "" | "." | ".."))
    {
        return Ok(Vec::new());
    }
    let endings = [("", true), (".xz", packed.xz), (".zst", packed.zst)];
    let endings = endings.into_iter().filter(|(_, usable)| *usable);
    // A few drivers name a family of files: `brcm/brcmfmac*-sdio.*.bin`. Only the file name is a pattern.
    if pattern::has_wildcards(declared) {
        let (parent, name) = declared
            .rsplit_once('/')
            .map_or(("", declared), |(parent, name)| (parent, name));
        let parent_directory = directory.join(parent);
        if pattern::has_wildcards(parent) || !parent_directory.is_dir() {
            return Ok(Vec::new());
        }
        let endings: Vec<&str> = endings.map(|(ending, _)| ending).collect();
        let listing = std::fs::read_dir(&parent_directory)
            .map_err(PathError::new("listing", &parent_directory))?;
        let names = listing.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let matching = names.filter(|file| {
            let plain = |ending: &&str| {
                file.strip_suffix(*ending)
                    .is_some_and(|f| pattern::matches(name.as_bytes(), f.as_bytes()))
            };
            endings.iter().any(plain)
        });
        let join = |file: String| {
            if parent.is_empty() {
                file
            } else {
                format!("{parent}/{file}")
            }
        };
        return Ok(matching
            .map(join)
            .map(|path| (path.clone(), directory.join(path)))
            .filter(|(_, f)| f.is_file())
            .collect());
    }
    // `is_file` follows links: distributions link one name to another, the ramdisk gets the content.
    let existing = endings
        .map(|(ending, _)| format!("{declared}{ending}"))
        .find(|path| directory.join(path).is_file());
    Ok(existing
        .map(|path| (path.clone(), directory.join(path)))
        .into_iter()
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modinfo::ModInfo;

    fn collected(
        files: &[&str],
        declared: &[&str],
        packed: PackedFirmware,
    ) -> (Vec<String>, Vec<String>) {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            let path = dir.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        }
        let info = ModInfo {
            firmware: declared.iter().map(ToString::to_string).collect(),
            ..ModInfo::default()
        };
        let selection = Selection::from([("drv".to_owned(), info)]);
        assert_eq!(
            modules_that_declare_any(&selection),
            usize::from(!declared.is_empty())
        );
        let firmware = collect(&selection, dir.path(), packed).unwrap();
        (
            firmware.found.into_keys().collect(),
            firmware.missing.into_iter().map(|(_, file)| file).collect(),
        )
    }

    #[test]
    fn table() {
        let none = PackedFirmware::default();
        let xz = PackedFirmware {
            xz: true,
            zst: false,
        };
        for (files, declared, packed, found, missing) in [
            (
                &["a/b.bin"][..],
                &["a/b.bin", "c.bin"][..],
                none,
                &["a/b.bin"][..],
                &["c.bin"][..],
            ),
            (&["a.bin.xz"], &["a.bin"], xz, &["a.bin.xz"], &[]),
            (&["a.bin.xz"], &["a.bin"], none, &[], &["a.bin"]),
            (&["a.bin.zst"], &["a.bin"], xz, &[], &["a.bin"]),
            (&["a.bin", "a.bin.xz"], &["a.bin"], xz, &["a.bin"], &[]),
            (
                &["d/fw-1.bin", "d/fw-2.bin.xz", "d/fw-2.txt", "fw-3.bin"],
                &["d/fw-*.bin"],
                xz,
                &["d/fw-1.bin", "d/fw-2.bin.xz"],
                &[],
            ),
            (
                &["x"],
                &["../x", "/x", "none/*.bin", "*/x"],
                none,
                &[],
                &["*/x", "../x", "/x", "none/*.bin"],
            ),
            (&["x"], &[], none, &[], &[]),
        ] {
            let (f, m) = collected(files, declared, packed);
            assert_eq!(
                (&f[..], &m[..]),
                (&found.map_strings()[..], &missing.map_strings()[..]),
                "{declared:?} in {files:?}"
            );
        }
    }

    trait MapStrings {
        fn map_strings(&self) -> Vec<String>;
    }

    impl MapStrings for &[&str] {
        fn map_strings(&self) -> Vec<String> {
            self.iter().map(ToString::to_string).collect()
        }
    }

    #[test]
    fn a_directory_that_is_not_there_is_an_error() {
        let error = collect(
            &Selection::new(),
            Path::new("/nonexistent/firmware"),
            PackedFirmware::default(),
        )
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            "listing firmware in /nonexistent/firmware"
        );
    }
}
