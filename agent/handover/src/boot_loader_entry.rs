//! Edits the kernel arguments of the boot loader entry that boots by default (Boot
//! Loader Specification, type 1, in the form that ostree writes).

use std::path::{Path, PathBuf};

use landfall_report::failure::Result;

use crate::boot_files::BootFiles;
use crate::grub_environment::Environment;
use crate::kernel_args::{self, EditError, Step};

const ENTRIES: &str = "loader/entries";
const OPTIONS: &str = "options ";
const ENVIRONMENT: &str = "grub2/grubenv";
/// A variable that grub.cfg sets on the first boot. It is not in GRUB's
/// environment block.
const FIRST_BOOT: &str = "ignition_firstboot";
/// In bytes; an entry has five lines.
const SIZE_LIMIT: u64 = 64 << 10;
/// `COMMAND_LINE_SIZE` of x86_64 without the final NUL. GRUB silently drops everything
/// beyond this length.
const KERNEL_LIMIT: usize = 2047;

/// The new contents of the entry and of GRUB's environment block, which [`Edit::write`]
/// writes.
#[derive(Debug)]
pub struct Edit {
    path: PathBuf,
    text: String,
    environment: Option<Vec<u8>>,
}

/// Edits the arguments of the entry whose name sorts last. GRUB lists the entries in
/// reverse order and boots the first one by default. Writes nothing.
///
/// The options can also name variables of GRUB's environment, for example `$kernelopts`
/// on RHEL 8. Deletions and a new platform also change the values of those variables.
///
/// # Errors
/// If there is no entry, if it does not have exactly one `options` line, if a step fails,
/// or if the options name a variable and the environment block cannot be edited.
pub fn prepare(boot: &(impl BootFiles + ?Sized), steps: &[Step]) -> Result<Edit> {
    let (path, old) = last_text(boot)?;
    let failed = |reason: &dyn std::fmt::Display| boot.problem(&path, reason);
    let entry = Entry::parse(&old).map_err(|reason| failed(&reason))?;
    let variables: Vec<&str> = entry
        .options
        .split(' ')
        .filter_map(|word| word.strip_prefix('$'))
        .filter(|&name| name != FIRST_BOOT)
        .collect();
    let environment = if variables.is_empty() {
        None
    } else {
        read_environment(boot)?
    };
    let Some(mut environment) = environment else {
        let text = entry
            .with_arguments(&mut [], steps)
            .map_err(|reason| failed(&reason))?;
        return Ok(Edit {
            path,
            text,
            environment: None,
        });
    };
    let mut values: Vec<(String, String)> = variables
        .iter()
        .filter_map(|&name| Some((name.to_owned(), environment.get(name)?.to_owned())))
        .collect();
    let text = entry
        .with_arguments(&mut values, steps)
        .map_err(|reason| failed(&reason))?;
    for (name, value) in &values {
        environment.set(name, value);
    }
    let block = environment
        .to_bytes()
        .map_err(|reason| boot.problem(Path::new(ENVIRONMENT), &reason))?;
    Ok(Edit {
        path,
        text,
        environment: Some(block),
    })
}

impl Edit {
    /// Replaces the old contents.
    ///
    /// # Errors
    /// If the file system rejects a write. Each file then has either its old or its
    /// new content.
    pub fn write(&self, boot: &(impl BootFiles + ?Sized)) -> Result<()> {
        if let Some(block) = &self.environment {
            boot.replace(Path::new(ENVIRONMENT), block)?;
        }
        boot.replace(&self.path, self.text.as_bytes())
    }
}

/// The path of the entry that boots by default.
///
/// # Errors
/// If there is no entry.
pub fn last_entry(boot: &(impl BootFiles + ?Sized)) -> Result<PathBuf> {
    let directory = Path::new(ENTRIES);
    let paths = boot.names(directory)?.into_iter();
    paths
        .map(|name| directory.join(name))
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "conf")
        })
        .max()
        .ok_or_else(|| boot.problem(directory, &"expected a boot loader entry, found none"))
}

/// The entry that boots by default: its path and its text.
fn last_text(boot: &(impl BootFiles + ?Sized)) -> Result<(PathBuf, String)> {
    let path = last_entry(boot)?;
    match boot.read_if_there(&path, SIZE_LIMIT)? {
        Some(text) => Ok((path, text)),
        None => Err(boot.problem(&path, &"expected a boot loader entry, found a broken link")),
    }
}

/// The kernel arguments of the entry that boots by default. The names of GRUB's variables
/// are not replaced by their values.
///
/// # Errors
/// If there is no entry, or it does not have exactly one `options` line.
pub fn options(boot: &(impl BootFiles + ?Sized)) -> Result<String> {
    let (path, text) = last_text(boot)?;
    match Entry::parse(&text) {
        Ok(entry) => Ok(entry.options.to_owned()),
        Err(reason) => Err(boot.problem(&path, &reason)),
    }
}

/// The environment block of the boot partition. `None` if the image has no such file;
/// GRUB then takes the variables from grub.cfg or from a block on another partition.
pub(super) fn read_environment(boot: &(impl BootFiles + ?Sized)) -> Result<Option<Environment>> {
    let path = Path::new(ENVIRONMENT);
    let found = boot.read_if_there(path, SIZE_LIMIT).map_err(|failure| {
        failure.hint("the boot loader entry takes kernel arguments from GRUB's environment block: use an image whose boot partition has grub2/grubenv as a regular file")
    })?;
    let Some(text) = found else {
        return Ok(None);
    };
    let environment = Environment::parse(&text).map_err(|e| boot.problem(path, &e))?;
    Ok(Some(environment))
}

/// Why an entry cannot be edited.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    #[error("expected one 'options' line, found {0}")]
    OptionsLines(usize),
    #[error(transparent)]
    Arguments(#[from] EditError),
}

/// An entry, split at its `options`.
struct Entry<'a> {
    before: &'a str,
    options: &'a str,
    after: &'a str,
}

impl<'a> Entry<'a> {
    fn parse(text: &'a str) -> std::result::Result<Self, EntryError> {
        let mut found = Vec::new();
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            if line.starts_with(OPTIONS) {
                found.push((start, line));
            }
            start += line.len();
        }
        let &[(start, line)] = &found[..] else {
            return Err(EntryError::OptionsLines(found.len()));
        };
        Ok(Self {
            before: &text[..start],
            options: line[OPTIONS.len()..].trim(),
            after: &text[start + line.trim_end_matches(['\r', '\n']).len()..],
        })
    }

    /// Applies the steps to the options. All other lines keep their bytes.
    fn with_arguments(
        &self,
        variables: &mut [(String, String)],
        steps: &[Step],
    ) -> std::result::Result<String, EntryError> {
        let options = kernel_args::edit(self.options, variables, steps)?;
        let len = options.len()
            + variables
                .iter()
                .map(|(_, value)| value.len())
                .sum::<usize>();
        if len > KERNEL_LIMIT {
            tracing::warn!(
                "the kernel arguments have {len} bytes: on x86_64 the kernel ignores everything after byte {KERNEL_LIMIT}"
            );
        }
        Ok(format!("{}{OPTIONS}{options}{}", self.before, self.after))
    }
}

/// Applies the steps to the text of an entry, for callers without a file.
pub fn edit_text(text: &str, steps: &[Step]) -> std::result::Result<String, EntryError> {
    Entry::parse(text)?.with_arguments(&mut [], steps)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    fn change(append: &[&str], delete: &[&str]) -> Step {
        let strings = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        Step::Change {
            delete: strings(delete),
            append: strings(append),
        }
    }

    #[test]
    fn only_the_options_line_changes() {
        let entry = "title T  \nversion 1\noptions $ignition_firstboot a b \nlinux /l\n# options x\noptionsx y\ninitrd /i";
        assert_eq!(
            edit_text(entry, &[change(&["c"], &["a"])]).unwrap(),
            "title T  \nversion 1\noptions $ignition_firstboot b c\nlinux /l\n# options x\noptionsx y\ninitrd /i"
        );
        assert_eq!(
            edit_text("options a\r\nlinux /l\r\n", &[change(&["c"], &[])]).unwrap(),
            "options a c\r\nlinux /l\r\n"
        );
        for (entry, found) in [
            ("title T\n", 0),
            ("options a\noptions b\n", 2),
            ("options\n", 0),
        ] {
            let reason = edit_text(entry, &[]).unwrap_err();
            assert_eq!(
                reason.to_string(),
                format!("expected one 'options' line, found {found}")
            );
        }
    }

    /// The entry is a FIFO. An ordinary open(2) would block until a writer opens the
    /// FIFO, and nobody does.
    #[test]
    fn an_entry_that_is_no_file_is_refused_at_once() {
        let boot = tempfile::tempdir().unwrap();
        let entries = boot.path().join(ENTRIES);
        fs::create_dir_all(&entries).unwrap();
        let mode = nix::sys::stat::Mode::S_IRUSR | nix::sys::stat::Mode::S_IWUSR;
        nix::unistd::mkfifo(&entries.join("a.conf"), mode).unwrap();
        let (sender, outcome) = std::sync::mpsc::channel();
        let root = boot.path().to_owned();
        std::thread::spawn(move || sender.send(prepare(root.as_path(), &[change(&["a"], &[])])));
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
        // A scratch file outside the partition would replace this file.
        let other = outside.path().join(".landfall-new");
        fs::write(&other, "not ours").unwrap();
        prepare(boot.as_path(), &[change(&["y"], &[])])
            .unwrap()
            .write(boot.as_path())
            .unwrap();
        assert_eq!(
            fs::read_to_string(boot.join("a.conf")).unwrap(),
            "options x y\n"
        );
        assert_eq!(fs::read_to_string(&other).unwrap(), "not ours");
    }

    fn boot_with_environment(options: &str) -> tempfile::TempDir {
        let boot = tempfile::tempdir().unwrap();
        fs::create_dir_all(boot.path().join(ENTRIES)).unwrap();
        fs::create_dir_all(boot.path().join("grub2")).unwrap();
        fs::write(boot.path().join(ENTRIES).join("a.conf"), options).unwrap();
        boot
    }

    /// An entry as on RHEL 8; GRUB's own tool writes the block and reads it back.
    #[test]
    fn arguments_in_grubs_environment_are_edited_there() {
        let boot = boot_with_environment("options $kernelopts $ignition_firstboot\n");
        let path = boot.path().join(ENVIRONMENT);
        let grub_editenv = |arguments: &[&str]| {
            let output = Command::new("grub-editenv")
                .arg(&path)
                .args(arguments)
                .output()
                .unwrap();
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        grub_editenv(&["create"]);
        let value = "kernelopts=root=x ro console=tty0 ignition.platform.id=metal";
        grub_editenv(&["set", "saved_entry=1", value, "boot_success=0"]);
        let steps = [
            Step::Platform("qemu".to_owned()),
            change(&["nosmt"], &["console=tty0"]),
        ];
        let edit = prepare(boot.path(), &steps).unwrap();
        edit.write(boot.path()).unwrap();
        assert_eq!(
            grub_editenv(&["list"]),
            "saved_entry=1\nkernelopts=root=x ro ignition.platform.id=qemu\nboot_success=0\n"
        );
        assert_eq!(fs::metadata(&path).unwrap().len(), 1024);
        assert_eq!(
            fs::read_to_string(boot.path().join(ENTRIES).join("a.conf")).unwrap(),
            "options $kernelopts $ignition_firstboot nosmt\n"
        );
    }

    #[test]
    fn a_linked_environment_is_an_error_only_if_an_entry_uses_it() {
        let boot = boot_with_environment("options $kernelopts\n");
        std::os::unix::fs::symlink("../efi/grubenv", boot.path().join(ENVIRONMENT)).unwrap();
        let failure = prepare(boot.path(), &[change(&["a"], &[])]).unwrap_err();
        assert!(failure.details.contains("grubenv"), "{failure}");
        let entry = boot.path().join(ENTRIES).join("a.conf");
        fs::write(&entry, "options $ignition_firstboot\n").unwrap();
        prepare(boot.path(), &[change(&["a"], &[])]).unwrap();
        // Without an environment block, `$tuned_params` has the value that grub.cfg
        // sets, or is empty.
        fs::remove_file(boot.path().join(ENVIRONMENT)).unwrap();
        fs::write(&entry, "options $tuned_params\n").unwrap();
        prepare(boot.path(), &[change(&["a"], &[])]).unwrap();
    }
}
