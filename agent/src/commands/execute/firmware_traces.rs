//! The steps `erase_pstore` and `clean_uefi_nvram`: they remove the data of an earlier
//! user from the firmware's memory.

use landfall_devices::permission::WritePermission;
use landfall_handover::{boot_entries, pstore};
use landfall_report::failure::{Failure, Result};
use regex_lite::{Regex, RegexBuilder};
use serde_json::{Value, json};

use crate::commands::machine::blocking;

/// The default of `match_patterns`: the boot entries that lead to a disk, or to a shim or
/// GRUB.
const DEFAULT_PATTERNS: [&str; 3] = [r"^HD\(", r"shim.*\.efi", r"grub.*\.efi"];
/// The maximum number of patterns in a list.
const PATTERNS: usize = 64;
/// The maximum length of a pattern in bytes.
const PATTERN_LIMIT: usize = 1000;
/// The maximum size of a compiled pattern in bytes. Without a limit, a few bytes such as
/// `\w{99}{99}` could use any amount of memory. Together with the length of the path, the
/// limit also bounds the time of a match.
const COMPILED_LIMIT: usize = 1 << 18;

/// Removes the boot entries whose device path matches one of the patterns.
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
        Failure::invalid_params(format!(
            "match_patterns: expected a list of regular expressions, found {given}: {reason}"
        ))
    };
    let list = given.as_array().ok_or_else(|| invalid("no list"))?;
    if list.len() > PATTERNS {
        return Err(Failure::invalid_params(format!(
            "match_patterns: expected at most {PATTERNS} patterns, found {}",
            list.len()
        )));
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

/// Deletes crash records of the kernel from the firmware's memory.
pub(super) async fn erase_pstore(permission: WritePermission) -> Result<Value> {
    blocking(move || pstore::erase(&permission)).await?;
    Ok(Value::Null)
}

#[cfg(test)]
mod tests {
    use landfall_report::failure::Class;

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
}
