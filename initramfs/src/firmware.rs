//! Finds the firmware files that the selected modules may request.

mod debian_packages;
mod needs;
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use landfall_module_index::{LeftOutFirmware, pattern};
use serde::Serialize;

use crate::kernel_modules::Selection;
use crate::path_error::PathError;

pub use debian_packages::package_of;
pub use needs::{Verdict, verdict};
pub use source::{FirmwareFiles, FirmwareSource, FirmwareSourceError};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Firmware {
    /// The firmware files: the path below `/lib/firmware`, and the file on the build
    /// machine.
    pub found: BTreeMap<String, PathBuf>,
    /// The firmware files that a module declares and the builder did not find: module and
    /// path. Most of them are for old hardware: no package has had them for years, but
    /// drivers still declare them.
    pub missing: BTreeSet<(String, String)>,
    /// The drivers that cannot work without the missing files.
    pub unmet: BTreeSet<String>,
}

/// Firmware that a driver declares and the builder did not find.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MissingFirmware {
    /// Name of the module.
    pub driver: String,
    /// Whether the driver cannot work without its missing files.
    pub needed: bool,
    /// The Debian package that has the files, if known.
    pub package: Option<String>,
    /// The paths of the files below `/lib/firmware`.
    pub files: Vec<String>,
}

impl fmt::Display for MissingFirmware {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { driver, files, .. } = self;
        let first = files.first().map_or("", String::as_str);
        match files.len() {
            1 => write!(f, "{driver}: firmware file {first} is missing"),
            count => write!(
                f,
                "{driver}: {count} firmware files are missing, such as {first}"
            ),
        }?;
        match &self.package {
            Some(package) => write!(f, ": install {package}"),
            None => f.write_str(": no known Debian package has it"),
        }
    }
}

impl Firmware {
    /// Groups the missing files by driver and package.
    #[must_use]
    pub fn missing_by_driver(&self) -> Vec<MissingFirmware> {
        let mut groups: BTreeMap<(&str, Option<String>), Vec<String>> = BTreeMap::new();
        for (driver, file) in &self.missing {
            let group = (driver.as_str(), debian_packages::package_of(file));
            groups.entry(group).or_default().push(file.clone());
        }
        let groups = groups.into_iter();
        let missing = groups.map(|((driver, package), files)| MissingFirmware {
            driver: driver.to_owned(),
            needed: self.unmet.contains(driver),
            package,
            files,
        });
        missing.collect()
    }

    /// The missing files in the form in which the ramdisk lists them.
    #[must_use]
    pub fn left_out(&self) -> Vec<LeftOutFirmware> {
        let files = self.missing.iter().map(|(driver, path)| LeftOutFirmware {
            driver: driver.clone(),
            path: path.clone(),
            package: debian_packages::package_of(path).unwrap_or_default(),
        });
        files.collect()
    }
}

/// The compressed formats that the kernel's firmware loader can unpack.
#[derive(Debug, Clone, Copy, Default)]
pub struct PackedFirmware {
    /// The kernel loads `.xz` files (`CONFIG_FW_LOADER_COMPRESS_XZ`).
    pub xz: bool,
    /// The kernel loads `.zst` files (`CONFIG_FW_LOADER_COMPRESS_ZSTD`).
    pub zst: bool,
}

/// Looks up every `firmware=` declaration of a selection in `files`. Fails if a directory
/// cannot be listed.
pub fn collect(
    selection: &Selection,
    files: &FirmwareFiles,
    packed: PackedFirmware,
) -> Result<Firmware, PathError> {
    let mut firmware = Firmware::default();
    for (module, info) in selection {
        for declared in &info.firmware {
            let mut is_missing = true;
            for directory in &files.directories {
                let mut found = candidates(directory, declared, packed)?;
                found.retain(|(path, file)| files.has(path, file));
                is_missing &= found.is_empty();
                for (path, file) in found {
                    firmware.found.entry(path).or_insert(file);
                }
            }
            if is_missing {
                firmware.missing.insert((module.clone(), declared.clone()));
            }
        }
        let missing = &firmware.missing;
        let is_missing = |file: &str| missing.contains(&(module.clone(), file.to_owned()));
        if needs::is_unmet(module, &info.firmware, is_missing) {
            firmware.unmet.insert(module.clone());
        }
    }
    Ok(firmware)
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
    // A few drivers declare a group of files by a pattern, such as
    // `brcm/brcmfmac*-sdio.*.bin`. Only the file name may contain a pattern.
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
            .map_err(PathError::new("cannot list", &parent_directory))?;
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
    // `is_file` follows links. In distributions some names are links to others; the
    // ramdisk gets a copy of the file instead of the link.
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
        let firmware = collect(&selection, &FirmwareFiles::below(dir.path()), packed).unwrap();
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
    fn missing_firmware_is_listed_with_driver_and_package() {
        let info = |files: &[&str]| ModInfo {
            firmware: files.map_strings(),
            ..ModInfo::default()
        };
        let selection = Selection::from([
            ("acenic".to_owned(), info(&["acenic/tg1.bin"])),
            (
                "bnx2".to_owned(),
                info(&["bnx2/bnx2-mips-06-6.2.3.fw", "bnx2/bnx2-mips-09-6.2.1b.fw"]),
            ),
            ("virtio_net".to_owned(), info(&[])),
        ]);
        let none = FirmwareFiles::default();
        let firmware = collect(&selection, &none, PackedFirmware::default()).unwrap();
        let missing = firmware.missing_by_driver();
        let lines: Vec<String> = missing.iter().map(ToString::to_string).collect();
        let expected = [
            "acenic: firmware file acenic/tg1.bin is missing: no known Debian package has it",
            "bnx2: 2 firmware files are missing, such as bnx2/bnx2-mips-06-6.2.3.fw: install firmware-bnx2",
        ];
        assert_eq!(lines, expected);
        let needed: Vec<bool> = missing.iter().map(|missing| missing.needed).collect();
        assert_eq!(needed, [false, true]);
        let left_out = firmware.left_out();
        assert_eq!(left_out[0].package, "");
        assert_eq!(left_out[1].path, "bnx2/bnx2-mips-06-6.2.3.fw");
        assert_eq!(left_out[1].package, "firmware-bnx2");
    }

    #[test]
    fn only_files_of_packages_are_taken_where_packages_are_wanted() {
        let dir = tempfile::tempdir().unwrap();
        for file in ["a.bin", "b.bin"] {
            std::fs::write(dir.path().join(file), "x").unwrap();
        }
        let info = ModInfo {
            firmware: ["a.bin".to_owned(), "b.bin".to_owned()].to_vec(),
            ..ModInfo::default()
        };
        let selection = Selection::from([("drv".to_owned(), info)]);
        let mut files = FirmwareFiles::below(dir.path());
        files.only = Some(["b.bin".to_owned()].into());
        let firmware = collect(&selection, &files, PackedFirmware::default()).unwrap();
        assert!(firmware.found.keys().eq(["b.bin"]), "{firmware:?}");
        let missing = ("drv".to_owned(), "a.bin".to_owned());
        assert!(firmware.missing.contains(&missing), "{firmware:?}");
    }
}
