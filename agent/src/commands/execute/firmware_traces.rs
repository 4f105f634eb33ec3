//! The steps `erase_pstore` and `clean_uefi_nvram`: what a former user left in
//! the firmware's memory.

use std::fs;
use std::io;
use std::path::Path;

use regex_lite::{Regex, RegexBuilder};
use serde_json::{Value, json};

use crate::commands::machine::blocking;
use crate::failure::{Class, Failure, Result};
use crate::handover::boot_entries;
use crate::permission::WritePermission;

/// Which boot entries go when the step does not say: those that lead to a disk.
const DEFAULT_PATTERNS: [&str; 3] = [r"^HD\(", r"shim.*\.efi", r"grub.*\.efi"];
/// Most patterns of a list.
const PATTERNS: usize = 64;
/// The longest pattern.
const PATTERN_LIMIT: usize = 1000;
/// What a pattern may take once it is compiled: a few bytes like `\w{99}{99}`
/// ask for anything. Matching takes time by this and by a path's length, never
/// more.
const COMPILED_LIMIT: usize = 1 << 18;

/// Removes boot entries whose device path matches one of the patterns.
pub(super) async fn clean_uefi_nvram(
    arguments: &Value,
    permission: WritePermission,
) -> Result<Value> {
    let patterns = patterns(&arguments["match_patterns"])?;
    blocking(move || boot_entries::remove_matching(&patterns, &permission)).await?;
    Ok(Value::Null)
}

fn patterns(given: &Value) -> Result<Vec<Regex>> {
    let default = json!(DEFAULT_PATTERNS);
    let given = if given.is_null() { &default } else { given };
    let invalid = |reason: &str| {
        Failure::new(
            Class::InvalidCommandParamsError,
            format!(
                "match_patterns: expected a list of regular expressions, found {given}: {reason}"
            ),
        )
    };
    let list = given.as_array().ok_or_else(|| invalid("no list"))?;
    if list.len() > PATTERNS {
        return Err(Failure::new(
            Class::InvalidCommandParamsError,
            format!(
                "match_patterns: expected at most {PATTERNS}, found {}",
                list.len()
            ),
        ));
    }
    list.iter()
        .map(|pattern| {
            let pattern = pattern.as_str().ok_or_else(|| invalid("not a text"))?;
            if pattern.len() > PATTERN_LIMIT {
                return Err(invalid("longer than 1000 bytes"));
            }
            RegexBuilder::new(pattern)
                .case_insensitive(true)
                .size_limit(COMPILED_LIMIT)
                .build()
                .map_err(|error| invalid(&error.to_string()))
        })
        .collect()
}

/// Deletes what crashed kernels left in every mounted pstore.
pub(super) async fn erase_pstore(_permission: WritePermission) -> Result<Value> {
    blocking(|| {
        let mounts = fs::read_to_string("/proc/mounts")
            .map_err(|error| pstore_failed("/proc/mounts", &error))?;
        let Some(directory) = mounted_pstore(&mounts) else {
            tracing::info!("no pstore is mounted, there is nothing to erase in it");
            return Ok(Value::Null);
        };
        empty(Path::new(directory)).map_err(|error| pstore_failed(directory, &error))?;
        Ok(Value::Null)
    })
    .await
}

/// /proc/mounts: `device mount-point type options ...`.
fn mounted_pstore(mounts: &str) -> Option<&str> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let place = fields.nth(1)?;
        (fields.next()? == "pstore").then_some(place)
    })
}

fn empty(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if fs::symlink_metadata(&path)?.is_dir() {
            fs::remove_dir_all(&path)?;
        } else {
            fs::remove_file(&path)?;
        }
        tracing::info!("{}: deleted", path.display());
    }
    Ok(())
}

fn pstore_failed(place: &str, error: &io::Error) -> Failure {
    Failure::new(
        Class::CommandExecutionError,
        format!("erasing pstore: {place}: {error}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_a_list_of_texts() {
        assert_eq!(patterns(&Value::Null).unwrap().len(), 3);
        let given = patterns(&json!(["^usb"])).unwrap();
        assert!(given[0].is_match("USB(1,0)"), "in any case");
        assert!(patterns(&json!(["x".repeat(1000)])).is_ok());
        for bad in [
            json!("^HD"),
            json!([1]),
            json!(["("]),
            json!({}),
            json!(["x".repeat(2000)]),
            json!([r"\w{100}{100}"]),
            json!(vec!["x"; 65]),
        ] {
            let failure = patterns(&bad).unwrap_err();
            assert_eq!(failure.class, Class::InvalidCommandParamsError, "{bad}");
        }
    }

    #[test]
    fn only_a_pstore_is_emptied() {
        let mounts = "sysfs /sys sysfs rw 0 0\npstore /sys/fs/pstore pstore rw 0 0\n";
        assert_eq!(mounted_pstore(mounts), Some("/sys/fs/pstore"));
        assert_eq!(mounted_pstore("pstore /x tmpfs rw 0 0\n"), None);
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("dmesg-efi-1"), "x").unwrap();
        fs::create_dir_all(dir.path().join("a/b")).unwrap();
        empty(dir.path()).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
