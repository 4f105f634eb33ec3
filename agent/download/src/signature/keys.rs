//! The keys whose signatures the agent trusts.

use std::fmt;

use rsa::traits::PublicKeyParts as _;
use rsa::{BigUint, RsaPublicKey};
use sha1::{Digest as _, Sha1};

use super::packet::{Cursor, packets};
use super::{RSA, SignatureError, armor};

const PUBLIC_KEY: u8 = 6;
const USER_ID: u8 = 13;

/// The keys with which Fedora and Red Hat sign CoreOS images, from their packages
/// `distribution-gpg-keys`. Each Fedora release has its own key, which is published
/// half a year before the release.
const BUILT_IN: [&str; 4] = [
    include_str!("keys/redhat-release-2.asc"),
    include_str!("keys/fedora-43.asc"),
    include_str!("keys/fedora-44.asc"),
    include_str!("keys/fedora-45.asc"),
];

/// A key that signs images.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningKey {
    /// The 64-bit key ID: the last 8 bytes of the fingerprint.
    pub(super) id: u64,
    /// The first user ID of the key. The user ID is not verified.
    pub(super) owner: String,
    pub(super) public: RsaPublicKey,
}

impl SigningKey {
    /// Reads the primary RSA keys from a file of public keys, armored or not. Does
    /// not verify the keys, because the caller trusts the file.
    ///
    /// # Errors
    /// If this is not a file of public keys, or if it contains no RSA key.
    pub fn read(file: &[u8]) -> Result<Vec<Self>, SignatureError> {
        let file = armor::open(file)?;
        let mut keys: Vec<Self> = Vec::new();
        let mut faults = Vec::new();
        for packet in packets(&file) {
            let packet = packet?;
            match packet.tag {
                PUBLIC_KEY => match Self::read_one(packet.body) {
                    Ok(key) => keys.push(key),
                    Err(fault) => faults.push(fault),
                },
                USER_ID => {
                    if let Some(key) = keys.last_mut().filter(|key| key.owner.is_empty()) {
                        key.owner = String::from_utf8_lossy(packet.body).into_owned();
                    }
                }
                // Subkeys and their binding signatures are not used.
                _ => {}
            }
        }
        if keys.is_empty() {
            faults.insert(0, SignatureError::NoKey);
            return Err(SignatureError::Each(faults));
        }
        Ok(keys)
    }

    /// Parses a public key (RFC 9580, 5.5.2.2).
    fn read_one(body: &[u8]) -> Result<Self, SignatureError> {
        let mut cursor = Cursor::new(body);
        let version = cursor.byte()?;
        if version != 4 {
            return Err(SignatureError::KeyVersion(version));
        }
        let _created = cursor.take(4)?;
        let algorithm = cursor.byte()?;
        if !RSA.contains(&algorithm) {
            return Err(SignatureError::KeyAlgorithm(algorithm));
        }
        let modulus = BigUint::from_bytes_be(cursor.integer()?);
        let exponent = BigUint::from_bytes_be(cursor.integer()?);
        let public = RsaPublicKey::new(modulus, exponent)
            .map_err(|error| SignatureError::RsaKey(error.to_string()))?;
        Ok(Self {
            id: key_id(body),
            owner: String::new(),
            public,
        })
    }

    /// Length of the signatures of this key, in bytes.
    pub(super) fn length(&self) -> usize {
        self.public.size()
    }
}

/// The key ID (RFC 9580, 5.5.4.2).
fn key_id(body: &[u8]) -> u64 {
    let mut hash = Sha1::new();
    hash.update([0x99]);
    // Hash the length of the body as two bytes. If a body is longer than 65535 bytes, the
    // key ID is wrong, and no signature matches the key.
    hash.update((body.len() as u16).to_be_bytes());
    hash.update(body);
    let fingerprint = hash.finalize();
    fingerprint[12..]
        .iter()
        .fold(0, |id, byte| id << 8 | u64::from(*byte))
}

impl fmt::Display for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Show the name without the mail address, because the address is of no use on a
        // console.
        let name = self.owner.split(" <").next().unwrap_or_default();
        write!(f, "{:016X} ({name})", self.id)
    }
}

/// The keys that the agent trusts unless the operator provides others.
pub fn built_in_keys() -> Vec<SigningKey> {
    let keys = BUILT_IN
        .iter()
        .map(|text| SigningKey::read(text.as_bytes()));
    // A test checks that every key can be read, so no error is possible here.
    keys.flatten().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_built_in_keys_can_be_read() {
        let shown: Vec<String> = built_in_keys().iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            [
                "199E2F91FD431D51 (Red Hat, Inc. (release key 2))",
                "829B606631645531 (Fedora (43))",
                "DBFCF71C6D9F90A6 (Fedora (44))",
                "655A4B02F577861E (Fedora (45))",
            ]
        );
    }

    #[test]
    fn an_invalid_key_is_rejected() {
        for (file, expected) in [
            (&b""[..], "found none"),
            (b"hello", "something else"),
            (&[0x98, 6, 3, 0, 0, 0, 0, 1], "version 4, found 3"),
            (&[0x98, 6, 4, 0, 0, 0, 0, 22], "algorithm 22"),
            (&[0x98, 6, 4, 0, 0, 0, 0, 1], "cut off"),
            (&[0x98, 12, 4, 0, 0, 0, 0, 1, 0, 8, 1, 0, 8, 1], "RSA key"),
        ] {
            let fault = SigningKey::read(file).unwrap_err().to_string();
            assert!(fault.contains(expected), "{file:?}: {fault}");
        }
    }
}
