//! Permanent kernel arguments: the `options` line of the boot loader entry.
//!
//! The edit is text on text, exactly coreos-installer's (`src/io/bls.rs`), so
//! that the installed system's own tools find what they expect: on
//! `" " + options + " "` each deletion replaces every `" x "` by one blank, then
//! appended arguments go to the end.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::failure::Result;
use crate::handover::file_in_boot::{inside, open, operator, problem, replace};

const ENTRIES: &str = "loader/entries";
const OPTIONS: &str = "options ";
/// What ends a word of GRUB's script or quotes.
pub(crate) const SCRIPT: [char; 10] = ['{', '}', '|', '&', '$', ';', '<', '>', '\'', '\\'];
/// An entry has five lines; the kernel takes 2 KiB of arguments on x86.
const SIZE_LIMIT: u64 = 64 << 10;

/// The new content of the last entry, not yet written.
#[derive(Debug)]
pub struct Edit {
    path: PathBuf,
    text: String,
}

/// Refuses arguments that would not arrive as given: a quote or a line break
/// ends the text in GRUB or in the entry.
///
/// # Errors
/// If an argument is empty or holds such a character.
pub fn check(arguments: &[String]) -> Result<()> {
    for argument in arguments {
        if argument.trim().is_empty() || argument.contains(|c: char| c == '"' || c.is_control()) {
            return Err(operator(format!(
                "kernel argument {argument:?}: expected text without quotes and line breaks"
            )));
        }
    }
    Ok(())
}

/// [`check`], for arguments that are added: GRUB makes the `options` line a part
/// of a script, where more characters have a meaning (GRUB manual, 6.1 and 6.2).
/// An entry that is no valid script does not boot.
///
/// # Errors
/// If an argument is not plain text for that script.
pub fn check_appended(arguments: &[String]) -> Result<()> {
    check(arguments)?;
    for argument in arguments {
        let special = argument.contains(SCRIPT);
        let comment = argument.split(' ').any(|word| word.starts_with('#'));
        if special || comment {
            return Err(operator(format!(
                "kernel argument {argument:?}: GRUB reads it as a script, expected text without any of {} and no word that begins with #",
                SCRIPT.iter().collect::<String>()
            )));
        }
    }
    Ok(())
}

/// Reads the last entry by name, which is the one that boots by default
/// (entries are sorted in reverse), and edits it. Writes nothing.
///
/// # Errors
/// If there is no entry, or not exactly one `options` line in it.
pub fn prepare(boot: &Path, append: &[String], delete: &[String]) -> Result<Edit> {
    let path = last_entry(boot)?;
    let mut old = String::new();
    open(&path, fs::OpenOptions::new().read(true))
        .and_then(|file| file.take(SIZE_LIMIT + 1).read_to_string(&mut old))
        .map_err(|e| problem(&path, &e))?;
    if old.len() as u64 > SIZE_LIMIT {
        let reason = format!("expected an entry of at most {SIZE_LIMIT} bytes");
        return Err(problem(&path, &reason));
    }
    let text = edit_entry(&old, append, delete).map_err(|reason| problem(&path, &reason))?;
    Ok(Edit { path, text })
}

impl Edit {
    /// Writes the new content in place of the old.
    ///
    /// # Errors
    /// If the file system refuses; the old entry is then still there.
    pub fn write(&self) -> Result<()> {
        replace(&self.path, self.text.as_bytes())
    }
}

fn last_entry(boot: &Path) -> Result<PathBuf> {
    let directory = inside(boot, Path::new(ENTRIES))?;
    let mut entries = Vec::new();
    for entry in fs::read_dir(&directory).map_err(|e| problem(&directory, &e))? {
        let path = entry.map_err(|e| problem(&directory, &e))?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "conf")
        {
            entries.push(path);
        }
    }
    let last = entries
        .into_iter()
        .max()
        .ok_or_else(|| problem(&directory, &"expected a boot loader entry, found none"))?;
    inside(boot, last.strip_prefix(boot).unwrap_or(&last))
}

/// The entry with its `options` edited. Other lines only lose trailing blanks.
pub(crate) fn edit_entry(
    entry: &str,
    append: &[String],
    delete: &[String],
) -> std::result::Result<String, String> {
    let mut edited = String::with_capacity(entry.len());
    let mut found = 0;
    for line in entry.lines() {
        match line.strip_prefix(OPTIONS) {
            Some(options) => {
                found += 1;
                edited.push_str(OPTIONS);
                edited.push_str(&edit_options(options.trim(), append, delete));
            }
            None => edited.push_str(line.trim_end()),
        }
        edited.push('\n');
    }
    if found == 1 {
        Ok(edited)
    } else {
        Err(format!("expected one 'options' line, found {found}"))
    }
}

fn edit_options(options: &str, append: &[String], delete: &[String]) -> String {
    let mut text = format!(" {options} ");
    for argument in delete {
        text = text.replace(&format!(" {} ", argument.trim()), " ");
    }
    for argument in append {
        text.push_str(argument.trim());
        text.push(' ');
    }
    text.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    /// From what coreos-installer 0.26.0 was seen to do.
    #[test]
    fn options_as_the_peer_edits_them() {
        let metal = "rw ignition.platform.id=metal console=tty0 console=ttyS0,115200n8";
        for (options, append, delete, expected) in [
            (
                metal,
                &["nosmt", "foo=bar baz"][..],
                &["console=tty0"][..],
                "rw ignition.platform.id=metal console=ttyS0,115200n8 nosmt foo=bar baz",
            ),
            (
                metal,
                &[],
                &["console=ttyS0,115200n8", "rw"],
                "ignition.platform.id=metal console=tty0",
            ),
            (metal, &[], &["console=ttyS0", "tty0", "absent"], metal),
            ("a b c", &[], &["a b"], "c"),
            ("a b c", &["b"], &["b"], "a c b"),
            ("a", &["a", "a"], &[], "a a a"),
            ("a   b", &["c"], &[], "a   b c"),
            ("a", &["  b "], &[" a  "], "b"),
            // One pass: of two neighbours that share a blank the first goes.
            ("x x y", &[], &["x"], "x y"),
            ("", &["a"], &["b"], "a"),
        ] {
            assert_eq!(
                edit_options(options, &strings(append), &strings(delete)),
                expected,
                "{options:?} + {append:?} - {delete:?}"
            );
        }
    }

    #[test]
    fn only_the_options_line_changes() {
        let entry = "title T  \nversion 1\noptions $ignition_firstboot a b\nlinux /l\n# options x\noptionsx y\ninitrd /i";
        assert_eq!(
            edit_entry(entry, &strings(&["c"]), &strings(&["a"])).unwrap(),
            "title T\nversion 1\noptions $ignition_firstboot b c\nlinux /l\n# options x\noptionsx y\ninitrd /i\n"
        );
        for (entry, found) in [("title T\n", 0), ("options a\noptions b\n", 2)] {
            let reason = edit_entry(entry, &[], &[]).unwrap_err();
            assert_eq!(
                reason,
                format!("expected one 'options' line, found {found}")
            );
        }
    }

    #[test]
    fn arguments_that_would_not_arrive_are_refused() {
        assert!(
            check(&strings(&[
                "a=b,c",
                "ip=[fd00::1]::[fd00::2]:64:h:ens3:none"
            ]))
            .is_ok()
        );
        for bad in ["", " ", "a=\"b c\"", "a\nb", "a\tb", "a\0"] {
            assert!(check(&strings(&[bad])).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn what_grub_would_read_as_script_is_not_appended() {
        for bad in [
            "a;reboot", "a=$b", "a='b'", "a\\", "a|b", "a&b", "{a", "a}", "a<b", "a>b", "#a",
            "a #b",
        ] {
            let failure = check_appended(&strings(&[bad])).unwrap_err();
            assert!(failure.details.contains("GRUB"), "{failure}");
            assert!(check(&strings(&[bad])).is_ok(), "it can be deleted");
        }
        for good in [
            "console=ttyS0,115200n8",
            "a=b#c",
            "foo=bar baz",
            "root=UUID=1-2 x=[1::2]/64:(y)*~!@%^+?",
        ] {
            assert!(check_appended(&strings(&[good])).is_ok(), "{good:?}");
        }
    }

    /// Opening a FIFO waits for a writer, which never comes.
    #[test]
    fn an_entry_that_is_no_file_is_refused_at_once() {
        let boot = tempfile::tempdir().unwrap();
        let entries = boot.path().join(ENTRIES);
        fs::create_dir_all(&entries).unwrap();
        let mode = nix::sys::stat::Mode::S_IRUSR | nix::sys::stat::Mode::S_IWUSR;
        nix::unistd::mkfifo(&entries.join("a.conf"), mode).unwrap();
        let (sender, outcome) = std::sync::mpsc::channel();
        let root = boot.path().to_owned();
        std::thread::spawn(move || sender.send(prepare(&root, &strings(&["a"]), &[])));
        let failure = outcome
            .recv_timeout(std::time::Duration::from_secs(10))
            .expect("it waits for ever")
            .unwrap_err();
        assert!(failure.details.contains("regular file"), "{failure}");
    }

    #[test]
    fn nothing_is_written_outside_of_the_partition() {
        let outside = tempfile::tempdir().unwrap();
        let boot = outside.path().join("boot");
        fs::create_dir_all(boot.join("loader")).unwrap();
        std::os::unix::fs::symlink("../", boot.join(ENTRIES)).unwrap();
        fs::write(boot.join("a.conf"), "options x\n").unwrap();
        // What the scratch file would replace.
        let other = outside.path().join(".landfall-new");
        fs::write(&other, "not ours").unwrap();
        prepare(&boot, &strings(&["y"]), &[])
            .unwrap()
            .write()
            .unwrap();
        assert_eq!(
            fs::read_to_string(boot.join("a.conf")).unwrap(),
            "options x y\n"
        );
        assert_eq!(fs::read_to_string(&other).unwrap(), "not ours");
    }
}
