//! Creates the user of a rescue, and the files in /etc that the SSH server and
//! the shell read. Before a rescue the ramdisk has no users.

use std::fs;
use std::io;
use std::path::Path;

use landfall_report::failure::{Failure, Result};
use landfall_sys::private_file;

/// The user's name, as in the ramdisk of Ironic's agent. The user has the UID
/// 0, because there is no sudo and a rescue needs root.
const USER: &str = "rescue";

const HOME: &str = "root";

/// Files that every user may read, relative to the root.
const FILES: [(&str, &str); 6] = [
    (
        "etc/passwd",
        "root:x:0:0:root:/root:/bin/sh\nrescue:x:0:0:rescue:/root:/bin/sh\n",
    ),
    ("etc/group", "root:x:0:\ntty:x:5:\n"),
    // The server rejects users whose shell is not listed here.
    ("etc/shells", "/bin/sh\n"),
    // The file systems that `mount` tries without -t. They are listed here because the
    // kernel itself lists only file systems whose modules are loaded.
    ("etc/filesystems", "ext4\nxfs\nbtrfs\nvfat\niso9660\n"),
    // Create these files, because the server prints warnings on the console without them.
    ("var/log/lastlog", ""),
    ("var/run/utmp", ""),
];

/// A valid crypt(3) hash.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Password(String);

impl Password {
    /// # Errors
    /// If the text is not a crypt(3) hash: it could break the line in the shadow file, or
    /// allow anyone to log in.
    pub(super) fn from_hash(hash: &str) -> Result<Self> {
        let fits = |byte: u8| byte.is_ascii_graphic() && byte != b':';
        if is_hash(hash) && hash.bytes().all(fits) {
            return Ok(Self(hash.to_owned()));
        }
        Err(Failure::invalid_params(
            "rescue password: expected a crypt(3) hash like $6$SALT$HASH, found another text",
        ))
    }
}

/// Whether the text has the form `$METHOD$SALT$DIGEST`, with optional parameters
/// before the salt (crypt(5)). bcrypt has `$2b$COST$SALT-AND-DIGEST`.
fn is_hash(text: &str) -> bool {
    let mut parts = text.split('$');
    let begins = parts.next() == Some("") && parts.next().is_some_and(|method| !method.is_empty());
    let rest: Vec<&str> = parts.collect();
    let parameters = rest.iter().take_while(|part| part.contains('=')).count();
    let needed = parameters + 2;
    begins && rest.len() >= needed && rest.iter().all(|part| !part.is_empty())
}

/// Writes all files below `root`.
///
/// # Errors
/// If a file cannot be written. The error names the file.
pub(super) fn write(root: &Path, password: &Password) -> io::Result<()> {
    let at = |path: &Path, error: io::Error| {
        io::Error::new(
            error.kind(),
            format!("cannot write {}: {error}", path.display()),
        )
    };
    let home = root.join(HOME);
    fs::create_dir_all(&home).map_err(|error| at(&home, error))?;
    for (path, text) in FILES {
        let path = root.join(path);
        let folder = path.parent().unwrap_or(root);
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&path, text))
            .map_err(|error| at(&path, error))?;
    }
    let shadow = root.join("etc/shadow");
    // The hash `*` matches no password, so nobody can log in as root.
    let text = format!("root:*:::::::\n{USER}:{}:::::::\n", password.0);
    private_file::write(&shadow, text.as_bytes()).map_err(|error| at(&shadow, error))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn only_root_reads_the_hash_and_only_the_user_has_one() {
        let root = tempfile::tempdir().unwrap();
        let password = Password::from_hash("$6$salt$ha.sh/").unwrap();
        write(root.path(), &password).unwrap();
        let shadow = root.path().join("etc/shadow");
        let text = fs::read_to_string(&shadow).unwrap();
        assert_eq!(text, "root:*:::::::\nrescue:$6$salt$ha.sh/:::::::\n");
        let mode = fs::metadata(&shadow).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let passwd = fs::read_to_string(root.path().join("etc/passwd")).unwrap();
        assert!(passwd.lines().all(|line| line.split(':').count() == 7));
        assert!(passwd.contains(&format!("\n{USER}:x:0:0:")));
    }

    #[test]
    fn texts_that_are_no_hashes_are_refused() {
        for text in [
            "",
            "password",
            "$6$a:b",
            "$6$a$b:c",
            "$6$a$b\nroot::::::::",
            "*",
            "$6$x",
            "$6$x$",
            "$$x$y",
            "$6$rounds=5000$x",
        ] {
            assert!(Password::from_hash(text).is_err(), "{text}");
        }
        for text in [
            "$1$salt$hash",
            "$6$salt$hash",
            "$6$rounds=5000$salt$hash",
            "$y$j9T$salt$hash",
            "$2b$12$salthash",
        ] {
            assert!(Password::from_hash(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("etc"), "a file").unwrap();
        let password = Password::from_hash("$6$salt$hash").unwrap();
        let error = write(root.path(), &password).unwrap_err();
        assert!(error.to_string().contains("etc/passwd"), "{error}");
    }
}
