//! `rescue.finalize_rescue`: hands the machine over to the user who rescues it.

use std::fs;
use std::path::Path;

use sha_crypt::{PasswordHasher as _, ShaCrypt};
use uuid::Uuid;

use crate::commands::RESCUED_MARKER;
use crate::commands::command::RescuePassword;
use crate::failure::{Class, Failure, Result};
use crate::private_file;

/// Where the rescue user's password is expected by what lets the user in
/// (ironic-python-agent-builder's rescue element reads the same file).
const PASSWORD_FILE: &str = "etc/ipa-rescue-config/ipa-rescue-password";

/// Writes the password's hash below this root, and that the machine is rescued.
///
/// # Errors
/// If they cannot be written.
pub(super) fn finalize(root: &Path, password: &RescuePassword) -> Result<()> {
    let hash = match password {
        RescuePassword::Hash(hash) => hash.clone(),
        RescuePassword::Plain(password) => hashed(password)?,
    };
    let file = root.join(PASSWORD_FILE);
    private_file::write(&file, hash.as_bytes())
        .map_err(|error| fault(&format!("{}: {error}", file.display())))?;
    let marker = root.join(RESCUED_MARKER.trim_start_matches('/'));
    fs::write(&marker, b"").map_err(|error| fault(&format!("{}: {error}", marker.display())))?;
    Ok(())
}

/// As crypt(3) with SHA-256: what shadow(5) of any system takes.
fn hashed(password: &str) -> Result<String> {
    // 12 bytes are 16 characters, all that the method uses of a salt.
    let salt = Uuid::new_v4();
    let hash = ShaCrypt::SHA256
        .hash_password_with_salt(password.as_bytes(), &salt.as_bytes()[..12])
        .map_err(|error| fault(&format!("hashing the password: {error}")))?;
    Ok(hash.to_string())
}

fn fault(details: &str) -> Failure {
    Failure::new(
        Class::CommandExecutionError,
        format!("rescue password: {details}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha_crypt::PasswordVerifier as _;
    use std::os::unix::fs::PermissionsExt as _;

    fn written(password: &RescuePassword) -> (tempfile::TempDir, String) {
        let root = tempfile::tempdir().unwrap();
        finalize(root.path(), password).unwrap();
        let hash = fs::read_to_string(root.path().join(PASSWORD_FILE)).unwrap();
        (root, hash)
    }

    #[test]
    fn a_hash_is_written_as_it_came() {
        let given = "$6$salt$hash";
        let (root, hash) = written(&RescuePassword::Hash(given.into()));
        assert_eq!(hash, given);
        assert!(root.path().join("etc/.rescued").exists());
        let mode = fs::metadata(root.path().join(PASSWORD_FILE)).unwrap();
        assert_eq!(mode.permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_password_is_hashed_with_a_salt_of_its_own() {
        let password = RescuePassword::Plain("geheim".into());
        let (_root, hash) = written(&password);
        assert!(hash.starts_with("$5$"), "{hash}");
        let parsed = sha_crypt::PasswordHash::new(hash.clone()).unwrap();
        assert!(ShaCrypt::SHA256.verify_password(b"geheim", &parsed).is_ok());
        assert!(
            ShaCrypt::SHA256
                .verify_password(b"falsch", &parsed)
                .is_err()
        );
        assert_ne!(written(&password).1, hash);
    }

    #[test]
    fn what_cannot_be_written_is_named() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("etc"), "a file").unwrap();
        let failure = finalize(root.path(), &RescuePassword::Hash("x".into())).unwrap_err();
        assert!(failure.details.contains(PASSWORD_FILE), "{failure}");
    }
}
