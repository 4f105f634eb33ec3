//! The errors of OpenPGP signatures and keys.

/// Why a file is not a signature of an image, or contains no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    // Errors of the framing.
    #[error("cut off: expected {expected} more bytes, found {found}")]
    CutOff { expected: usize, found: usize },
    #[error("expected OpenPGP data, found something else")]
    NotOpenPgp,
    #[error("expected a packet of known length")]
    UnknownLength,
    #[error("expected text in the armor")]
    ArmorIsNoText,
    #[error("the armor's base64: {0}")]
    ArmorBase64(base64::DecodeError),
    #[error("the armor has no end")]
    ArmorWithoutEnd,

    // Errors of a signature.
    #[error("expected a signature, found packet {0}")]
    OtherPacket(u8),
    #[error("expected a signature, found none")]
    NoSignature,
    #[error("expected a signature of version 3 or 4, found {0}")]
    SignatureVersion(u8),
    #[error("expected 5 hashed bytes, found {0}")]
    HashedBytes(u8),
    #[error("expected a signature of a file (type 0), found type {0}")]
    SignatureType(u8),
    #[error("expected an RSA signature, found public-key algorithm {0}")]
    SignatureAlgorithm(u8),
    #[error("expected a signature over SHA-2, found hash algorithm {0}")]
    HashAlgorithm(u8),
    #[error("the signature has a critical part of type {0}, which is not known")]
    CriticalPart(u8),
    #[error("the signature does not name its key")]
    NoIssuer,
    #[error("it is signed by key {issuer:016X}; known are {known}")]
    UnknownKey {
        issuer: u64,
        /// The known keys, separated by commas.
        known: String,
    },

    // Errors of a key.
    #[error("expected a public RSA key, found none")]
    NoKey,
    #[error("expected a key of version 4, found {0}")]
    KeyVersion(u8),
    #[error("expected an RSA key, found algorithm {0}")]
    KeyAlgorithm(u8),
    /// Holds the message of the crate `rsa`.
    #[error("RSA key: {0}")]
    RsaKey(String),

    /// Why each signature or key of the file was rejected.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Each(Vec<SignatureError>),
}
