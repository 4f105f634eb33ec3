//! Sets kernel arguments for the first boot only, mostly for the network. It adds a line
//! to `ignition.firstboot`, a script that the image's grub.cfg runs.

use std::path::Path;

use landfall_report::failure::{Failure, Result};

use crate::boot_files::BootFiles;
use crate::grub_words;

/// The marker of the first boot, which is empty in the image. If the file
/// exists, GRUB adds `$ignition_firstboot` to the kernel arguments.
const FILE: &str = "ignition.firstboot";

/// Whether GRUB passes these arguments on unchanged.
pub fn is_plain(arguments: &str) -> bool {
    check_text(arguments).is_ok()
}

/// GRUB parses the arguments twice: first between double quotes in
/// `ignition.firstboot`, and then as words of the `options`. It is not possible to
/// quote `"`, `$` and `\` so that both passes keep them.
fn check_text(arguments: &str) -> std::result::Result<(), String> {
    if let Some(found) = arguments.chars().find(|c| "\"$\\".contains(*c)) {
        return Err(format!(
            "expected none of \"$\\, because GRUB interprets them twice, found {found:?}"
        ));
    }
    grub_words::check(arguments).map_err(|fault| fault.to_string())
}

/// The line for `ignition.firstboot` that sets these arguments.
///
/// # Errors
/// If the arguments are not [plain](is_plain).
pub fn line(arguments: &str) -> Result<String> {
    check_text(arguments).map_err(|reason| {
        Failure::invalid_params(format!("first-boot arguments {arguments:?}: {reason}"))
    })?;
    Ok(format!("set ignition_network_kcmdline=\"{arguments}\"\n"))
}

/// Fails if `ignition.firstboot` does not exist or is not a regular file, because then
/// the image has no first boot that could use the arguments.
pub fn check(boot: &(impl BootFiles + ?Sized)) -> Result<()> {
    let found = boot.require_file(Path::new(FILE));
    found.map_err(|failure| failure.hint("use a CoreOS image: its boot partition holds that file"))
}

/// Appends the line to the file, which must exist.
pub fn append(boot: &(impl BootFiles + ?Sized), line: &str) -> Result<()> {
    check(boot)?;
    boot.append(Path::new(FILE), line.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_that_grub_reads_back_as_given() {
        assert_eq!(
            line("rd.neednet=1 ip=10.0.0.2::10.0.0.1:24:h:ens3:none nameserver=10.0.0.1").unwrap(),
            "set ignition_network_kcmdline=\"rd.neednet=1 ip=10.0.0.2::10.0.0.1:24:h:ens3:none nameserver=10.0.0.1\"\n"
        );
        for bad in [
            "a\"b", "a$b", "a\\", "a\nb", "\r", "a;b", "a&b", "a|b", "{", "}", "<", ">", "'",
            "a #b",
        ] {
            assert!(line(bad).is_err(), "{bad:?}");
            assert!(!is_plain(bad), "{bad:?}");
        }
        assert!(is_plain("a='b;c d'"), "quoted for the second reading");
        assert!(is_plain(
            "ip=[2001:db8::2/64]::[fe80::1%25ens3]:64:h#1:ens3:none a=b,c=d"
        ));
    }

    #[test]
    fn an_existing_file_is_appended_to_and_a_missing_one_is_an_error() {
        let boot = tempfile::tempdir().unwrap();
        let path = boot.path().join(FILE);
        let missing = append(boot.path(), "x\n").unwrap_err();
        assert!(missing.details.contains("ignition.firstboot"), "{missing}");
        assert!(!path.exists());
        std::fs::write(&path, "old\n").unwrap();
        append(boot.path(), "new\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old\nnew\n");
    }

    #[test]
    fn a_link_out_of_the_partition_is_not_followed() {
        let boot = tempfile::tempdir().unwrap();
        let outside = tempfile::NamedTempFile::new().unwrap();
        std::os::unix::fs::symlink(outside.path(), boot.path().join(FILE)).unwrap();
        assert!(append(boot.path(), "x\n").is_err());
        assert!(std::fs::read(outside.path()).unwrap().is_empty());
    }

    #[test]
    fn a_fifo_is_rejected_at_once() {
        let boot = tempfile::tempdir().unwrap();
        let mode = nix::sys::stat::Mode::S_IRUSR | nix::sys::stat::Mode::S_IWUSR;
        nix::unistd::mkfifo(&boot.path().join(FILE), mode).unwrap();
        let (sender, outcome) = std::sync::mpsc::channel();
        let root = boot.path().to_owned();
        std::thread::spawn(move || sender.send(check(root.as_path())));
        let checked = outcome.recv_timeout(std::time::Duration::from_secs(10));
        assert!(checked.expect("it waits for ever").is_err());
    }
}
