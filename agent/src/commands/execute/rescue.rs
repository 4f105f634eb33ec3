//! `rescue.finalize_rescue`: hands the machine over to the user who rescues it.

use landfall_report::failure::{Failure, Result};
use sha_crypt::{PasswordHasher as _, ShaCrypt};
use uuid::Uuid;

use crate::commands::command::RescuePassword;
use crate::rescue;

/// Allows the user to log in with this password.
///
/// # Errors
/// If nobody could log in. Ironic then reports that the rescue failed.
pub(super) fn finalize(password: &RescuePassword) -> Result<()> {
    rescue::hand_over(&hash_of(password)?)
}

/// The error for a live system, which has its own users and its own SSH server.
pub(super) fn refusal_in_live_system() -> Failure {
    Failure::other("rescue is not supported in a live system",
    )
    .hint("set rescue_kernel and rescue_ramdisk in driver_info to a ramdisk that landfall-image --rescue-layer built")
}

fn hash_of(password: &RescuePassword) -> Result<String> {
    match password {
        RescuePassword::Hash(hash) => Ok(hash.clone()),
        RescuePassword::Plain(password) if password.is_empty() => Err(Failure::invalid_params(
            "rescue password: expected a password, found an empty text",
        )),
        RescuePassword::Plain(password) => hashed(password),
    }
}

/// Hashes like crypt(3) with SHA-256, because all systems accept this method in their
/// shadow file (shadow(5)).
fn hashed(password: &str) -> Result<String> {
    // 12 bytes make 16 characters, the longest salt that the method uses.
    let salt = Uuid::new_v4();
    let hash = ShaCrypt::SHA256
        .hash_password_with_salt(password.as_bytes(), &salt.as_bytes()[..12])
        .map_err(|error| fault(&format!("cannot hash the password: {error}")))?;
    Ok(hash.to_string())
}

fn fault(details: &str) -> Failure {
    Failure::other(format!("rescue password: {details}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha_crypt::PasswordVerifier as _;

    #[test]
    fn a_hash_is_taken_as_it_came() {
        let given = RescuePassword::Hash("$6$salt$hash".into());
        assert_eq!(hash_of(&given).unwrap(), "$6$salt$hash");
    }

    #[test]
    fn a_password_is_hashed_with_a_salt_of_its_own() {
        let password = RescuePassword::Plain("geheim".into());
        let hash = hash_of(&password).unwrap();
        assert!(hash.starts_with("$5$"), "{hash}");
        let parsed = sha_crypt::PasswordHash::new(hash.clone()).unwrap();
        assert!(ShaCrypt::SHA256.verify_password(b"geheim", &parsed).is_ok());
        assert!(
            ShaCrypt::SHA256
                .verify_password(b"falsch", &parsed)
                .is_err()
        );
        assert_ne!(hash_of(&password).unwrap(), hash);
    }

    #[test]
    fn an_empty_password_is_rejected() {
        assert!(hash_of(&RescuePassword::Plain(String::new())).is_err());
    }
}
