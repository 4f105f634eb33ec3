//! Reads the image's table of platforms, `coreos/platforms.json` in its boot
//! partition. coreos-assembler creates it with the image.

use std::collections::BTreeMap;
use std::path::Path;

use landfall_report::failure::Result;
use serde::Deserialize;

use crate::boot_files::BootFiles;

const FILE: &str = "coreos/platforms.json";
/// In bytes; twenty platforms have 4 KB.
const SIZE_LIMIT: u64 = 256 << 10;

/// The settings of each platform. A platform that is not in the table has none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct PlatformTable(BTreeMap<String, Platform>);

/// The console settings of a platform.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Platform {
    /// Lines for GRUB's configuration.
    #[serde(default)]
    pub grub_commands: Vec<String>,
    /// Permanent kernel arguments.
    #[serde(default)]
    pub kernel_arguments: Vec<String>,
}

/// The file in the image's boot partition is damaged, so the agent does not know the
/// consoles of the platform. Use another image, or install without `--platform`.
#[derive(Debug, thiserror::Error)]
#[error("expected a table of platforms: {0}")]
pub struct NoPlatformTable(serde_json::Error);

impl PlatformTable {
    /// The table of this boot file system; an empty one if the image has none.
    ///
    /// # Errors
    /// If the file exists but cannot be read or parsed.
    pub fn read(boot: &(impl BootFiles + ?Sized)) -> Result<Self> {
        let path = Path::new(FILE);
        match boot.read_if_there(path, SIZE_LIMIT)? {
            None => Ok(Self::default()),
            Some(text) => Self::parse(&text).map_err(|error| boot.problem(path, &error)),
        }
    }

    pub fn parse(text: &str) -> std::result::Result<Self, NoPlatformTable> {
        serde_json::from_str(text).map_err(NoPlatformTable)
    }

    /// The settings of this platform, empty if the table does not list it.
    pub fn platform(&self, name: &str) -> Platform {
        self.0.get(name).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_platforms_and_keys_are_empty() {
        let text =
            r#"{"metal": {"kernel_arguments": ["a"], "new": 1}, "qemu": {"grub_commands": ["b"]}}"#;
        let table = PlatformTable::parse(text).unwrap();
        assert_eq!(table.platform("metal").kernel_arguments, ["a"]);
        assert!(table.platform("metal").grub_commands.is_empty());
        assert_eq!(table.platform("qemu").grub_commands, ["b"]);
        assert_eq!(table.platform("none"), Platform::default());
        let boot = tempfile::tempdir().unwrap();
        assert_eq!(
            PlatformTable::read(boot.path()).unwrap(),
            PlatformTable::default()
        );
    }

    #[test]
    fn an_invalid_table_is_an_error_with_its_path() {
        for bad in [
            "",
            "[]",
            "{\"a\": 1}",
            "{\"a\": {\"grub_commands\": \"x\"}}",
            "{} x",
        ] {
            let boot = tempfile::tempdir().unwrap();
            std::fs::create_dir(boot.path().join("coreos")).unwrap();
            std::fs::write(boot.path().join(FILE), bad).unwrap();
            let failure = PlatformTable::read(boot.path()).unwrap_err();
            assert!(failure.details.contains(FILE), "{failure}");
        }
    }
}
