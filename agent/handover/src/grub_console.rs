//! Sets the consoles of GRUB. Their commands are a block in GRUB's configuration,
//! between two marker lines that coreos-assembler writes for installers.

use std::path::Path;

use landfall_report::failure::Result;

use crate::boot_files::BootFiles;

/// Newer images have the block in a separate file.
const FILES: [&str; 2] = ["grub2/console.cfg", "grub2/grub.cfg"];
/// In bytes; the configuration of CoreOS has 3 KB.
const SIZE_LIMIT: u64 = 256 << 10;
const START: &str = "# CONSOLE-SETTINGS-START";
const END: &str = "# CONSOLE-SETTINGS-END";

/// The new configuration; [`Edit::write`] writes it.
#[derive(Debug)]
pub struct Edit {
    path: &'static Path,
    text: String,
}

/// Puts these commands into the block of the configuration. Writes nothing.
///
/// # Errors
/// If the image has no GRUB configuration, or the configuration does not have exactly one
/// block.
pub fn prepare(boot: &(impl BootFiles + ?Sized), commands: &[String]) -> Result<Edit> {
    for path in FILES.map(Path::new) {
        if let Some(text) = boot.read_if_there(path, SIZE_LIMIT)? {
            return match with_commands(&text, commands) {
                Ok(text) => Ok(Edit { path, text }),
                Err(reason) => Err(boot.problem(path, &reason)),
            };
        }
    }
    let reason = format!("expected GRUB's configuration in {}", FILES.join(" or "));
    Err(boot.problem(Path::new(""), &reason))
}

impl Edit {
    /// Replaces the old configuration.
    ///
    /// # Errors
    /// If the file system rejects a change. The file then has either its old or its
    /// new content.
    pub fn write(&self, boot: &(impl BootFiles + ?Sized)) -> Result<()> {
        boot.replace(self.path, self.text.as_bytes())
    }
}

/// Why the configuration has no block for the commands.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    /// By far the most frequent of these errors. The text uses coreos-installer's words,
    /// because people search for them.
    #[error("missing substitution marker: expected the lines {START} and {END}")]
    Missing,
    #[error("expected the lines {START} and {END} once, found several")]
    Several,
    #[error("expected {START} before {END}")]
    Order,
}

/// Replaces the lines in the block with these commands.
///
/// # Errors
/// If there is not exactly one block.
pub fn with_commands(
    configuration: &str,
    commands: &[String],
) -> std::result::Result<String, BlockError> {
    let (mut starts, mut ends) = (Vec::new(), Vec::new());
    let mut at = 0;
    for line in configuration.split_inclusive('\n') {
        let end = at + line.len();
        match line.strip_suffix('\n').unwrap_or(line) {
            START => starts.push(end),
            END => ends.push(at),
            _ => {}
        }
        at = end;
    }
    let (&[start], &[end]) = (&starts[..], &ends[..]) else {
        return Err(if starts.is_empty() || ends.is_empty() {
            BlockError::Missing
        } else {
            BlockError::Several
        });
    };
    if start > end {
        return Err(BlockError::Order);
    }
    let mut edited = configuration[..start].to_owned();
    for command in commands {
        edited.push_str(command);
        edited.push('\n');
    }
    edited.push_str(&configuration[end..]);
    Ok(edited)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use proptest::prelude::*;

    use super::*;

    fn commands(lines: &[&str]) -> Vec<String> {
        lines.iter().map(|&line| line.to_owned()).collect()
    }

    #[test]
    fn the_block_and_nothing_else() {
        for inside in ["", "old\n", "old\nolder\n\n"] {
            let text = format!("a\n{START}\n{inside}{END}\nb\r\n{START}x\nc");
            for (lines, expected) in [
                (&[][..], ""),
                (&["serial"][..], "serial\n"),
                (&["x y", "z"][..], "x y\nz\n"),
            ] {
                assert_eq!(
                    with_commands(&text, &commands(lines)).unwrap(),
                    format!("a\n{START}\n{expected}{END}\nb\r\n{START}x\nc")
                );
            }
        }
        // In console.cfg the block is the whole file.
        assert_eq!(
            with_commands(&format!("{START}\n{END}"), &commands(&["x"])).unwrap(),
            format!("{START}\nx\n{END}")
        );
    }

    #[test]
    fn without_one_block_nothing_is_guessed() {
        for (text, expected) in [
            (String::new(), "missing substitution marker"),
            (format!("{START}\n"), "missing"),
            (format!(" {START}\n{END}\n"), "missing"),
            (format!("{END}\n{START}\n"), "before"),
            (format!("{START}\n{END}\n{END}\n"), "several"),
            (format!("{START}\n{START}\n{END}\n"), "several"),
        ] {
            let reason = with_commands(&text, &[]).unwrap_err().to_string();
            assert!(reason.contains(expected), "{text:?}: {reason}");
        }
    }

    #[test]
    fn the_newer_file_is_preferred_and_keeps_its_mode() {
        let boot = tempfile::tempdir().unwrap();
        let failure = prepare(boot.path(), &[]).unwrap_err();
        assert!(
            failure.details.contains("grub2/console.cfg or"),
            "{failure}"
        );
        fs::create_dir(boot.path().join("grub2")).unwrap();
        let write = |name: &str| {
            let path = boot.path().join(name);
            fs::write(&path, format!("{name}\n{START}\n{END}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            path
        };
        let changed = |path: &Path| fs::read_to_string(path).unwrap().contains("serial");
        let old = write(FILES[1]);
        let edit = || {
            prepare(boot.path(), &commands(&["serial"]))
                .unwrap()
                .write(boot.path())
        };
        edit().unwrap();
        assert!(changed(&old));
        let old = write(FILES[1]);
        let new = write(FILES[0]);
        edit().unwrap();
        assert!(changed(&new) && !changed(&old));
        assert_eq!(fs::metadata(&new).unwrap().mode() & 0o7777, 0o600);
    }

    proptest! {
        #[test]
        fn the_last_edit_is_the_only_one(
            before in "([a#\n]|# CONSOLE){0,20}", after in "[a#\n]{0,20}",
            first in prop::collection::vec("[a-z =]{0,9}", 0..4),
            second in prop::collection::vec("[a-z =]{0,9}", 0..4),
        ) {
            let text = format!("{before}\n{START}\n{END}\n{after}");
            let once = with_commands(&text, &second).unwrap();
            let twice = with_commands(&with_commands(&text, &first).unwrap(), &second).unwrap();
            prop_assert_eq!(&once, &twice);
            prop_assert_eq!(with_commands(&once, &[]).unwrap(), text);
        }
    }
}
