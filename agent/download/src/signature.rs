//! Verifies detached OpenPGP signatures of images: `IMAGE.sig`, as Fedora and Red
//! Hat publish them next to their images (RFC 9580; gpg writes the format of RFC
//! 4880).
//!
//! A signature covers the bytes of the image, followed by a few bytes of the signature
//! itself. The agent therefore verifies the signature with the hash that it computes
//! during the download. This module supports only the parts of OpenPGP that CoreOS images
//! need: signatures of binary documents, RSA, the SHA-2 family, and primary keys. It does
//! no I/O.

mod armor;
mod error;
mod keys;
mod packet;

use landfall_boot_params::digest::Algorithm;
use rsa::Pkcs1v15Sign;

pub(crate) use armor::is_armored;
pub use error::SignatureError;
pub use keys::{SigningKey, built_in_keys};

use packet::{Cursor, Packet};

/// In bytes: the size limit of a signature file. A file with one signature has
/// about 600 bytes.
pub const SIGNATURE_FILE_LIMIT: usize = 64 << 10;
const SIGNATURE_PACKET: u8 = 2;
/// RFC 9580, 5.2.1.1: a signature of a binary document.
const BINARY_DOCUMENT: u8 = 0x00;
/// RFC 9580, 9.1: RSA for signing and encrypting, and RSA for signing only.
const RSA: [u8; 2] = [1, 3];

/// The supported hash algorithms: the OpenPGP id (RFC 9580, 9.5), the algorithm,
/// and the prefix of the block that RSA signs (RFC 8017, 9.2, note 1). Broken
/// algorithms are left out on purpose.
const HASHES: [(u8, Algorithm, &[u8]); 4] = [
    (8, Algorithm::Sha256, &digest_info(1, 32)),
    (9, Algorithm::Sha384, &digest_info(2, 48)),
    (10, Algorithm::Sha512, &digest_info(3, 64)),
    (11, Algorithm::Sha224, &digest_info(4, 28)),
];

/// The DER encoding of DigestInfo up to the digest. For the SHA-2 algorithms it differs
/// only in the last number of the algorithm identifier and in the lengths.
const fn digest_info(number: u8, length: u8) -> [u8; 19] {
    [
        0x30,
        17 + length,
        0x30,
        13,
        0x06,
        9,
        0x60,
        0x86,
        0x48,
        0x01,
        0x65,
        0x03,
        0x04,
        0x02,
        number,
        0x05,
        0x00,
        0x04,
        length,
    ]
}

/// Whether a file begins like OpenPGP data, in armor or as packets. Other text may
/// precede the armor. If true, the file may still be damaged or contain no signature.
pub fn begins_as_openpgp(file: &[u8]) -> bool {
    is_armored(file) || packet::has_header(file)
}

/// A signature that claims to be made by a trusted key.
#[derive(Debug, Clone)]
pub struct ImageSignature {
    key: SigningKey,
    hash: usize,
    suffix: Vec<u8>,
    value: Vec<u8>,
}

impl ImageSignature {
    /// Returns the first supported signature in the file that names one of these keys.
    ///
    /// # Errors
    /// If the file is not valid OpenPGP data, or if no supported signature names one of
    /// the keys. The error contains the reason for each signature in the file.
    pub fn by_known_key(file: &[u8], keys: &[SigningKey]) -> Result<Self, SignatureError> {
        let file = armor::open(file)?;
        let mut faults = Vec::new();
        for packet in packet::packets(&file) {
            let packet = packet?;
            if packet.tag != SIGNATURE_PACKET {
                faults.push(SignatureError::OtherPacket(packet.tag));
                continue;
            }
            match Self::read(&packet, keys) {
                Ok(signature) => return Ok(signature),
                Err(fault) => faults.push(fault),
            }
        }
        if faults.is_empty() {
            faults.push(SignatureError::NoSignature);
        }
        Err(SignatureError::Each(faults))
    }

    fn read(packet: &Packet<'_>, keys: &[SigningKey]) -> Result<Self, SignatureError> {
        let mut body = Cursor::new(packet.body);
        let version = body.byte()?;
        let (head, suffix, issuer) = match version {
            3 => read_version_3(&mut body)?,
            4 => read_version_4(&mut body, packet.body)?,
            _ => return Err(SignatureError::SignatureVersion(version)),
        };
        if head.kind != BINARY_DOCUMENT {
            return Err(SignatureError::SignatureType(head.kind));
        }
        if !RSA.contains(&head.public_key) {
            return Err(SignatureError::SignatureAlgorithm(head.public_key));
        }
        let hash = HASHES.iter().position(|(id, ..)| *id == head.hash);
        let hash = hash.ok_or(SignatureError::HashAlgorithm(head.hash))?;
        // Skip the first two bytes of the hash. Their only purpose is to detect errors
        // early.
        body.take(2)?;
        let value = body.integer()?.to_vec();
        let issuer = issuer.ok_or(SignatureError::NoIssuer)?;
        let key = keys.iter().find(|key| key.id == issuer).ok_or_else(|| {
            let known: Vec<String> = keys.iter().map(ToString::to_string).collect();
            SignatureError::UnknownKey {
                issuer,
                known: known.join(", "),
            }
        })?;
        Ok(Self {
            key: key.clone(),
            hash,
            suffix,
            value,
        })
    }

    /// The hash algorithm of the signature.
    pub fn algorithm(&self) -> Algorithm {
        HASHES[self.hash].1
    }

    /// The bytes of the signature that the hash covers after the last byte of the
    /// image.
    pub fn suffix(&self) -> &[u8] {
        &self.suffix
    }

    /// The key that the signature names.
    pub fn key(&self) -> &SigningKey {
        &self.key
    }

    /// Whether the key signed data with this hash. The hash includes
    /// [`Self::suffix`].
    pub fn is_over(&self, hash: &[u8]) -> bool {
        let (_, _, prefix) = HASHES[self.hash];
        let scheme = Pkcs1v15Sign {
            hash_len: Some(prefix[18].into()),
            prefix: prefix.into(),
        };
        // The number has no leading zeros (RFC 9580, 3.2), but RSA expects a number
        // that is as long as the key.
        let length = self.key.length();
        if self.value.len() > length {
            return false;
        }
        let mut value = vec![0; length - self.value.len()];
        value.extend_from_slice(&self.value);
        self.key.public.verify(scheme, hash, &value).is_ok()
    }
}

/// The fields that signatures of version 3 and version 4 both have.
struct Head {
    kind: u8,
    public_key: u8,
    hash: u8,
}

/// The common fields, the bytes that are hashed after the image, and the key ID.
type Read = (Head, Vec<u8>, Option<u64>);

/// Reads the fixed fields of a version 3 signature (RFC 9580, 5.2.2). Old signing servers
/// still write this version.
fn read_version_3(body: &mut Cursor<'_>) -> Result<Read, SignatureError> {
    let length = body.byte()?;
    if length != 5 {
        return Err(SignatureError::HashedBytes(length));
    }
    let hashed = body.take(5)?.to_vec();
    let issuer = body.number(8)?;
    let head = Head {
        kind: hashed[0],
        public_key: body.byte()?,
        hash: body.byte()?,
    };
    Ok((head, hashed, Some(issuer)))
}

/// Reads the fields and the subpackets of a version 4 signature (RFC 9580, 5.2.3 and
/// 5.2.4).
fn read_version_4(body: &mut Cursor<'_>, whole: &[u8]) -> Result<Read, SignatureError> {
    let head = Head {
        kind: body.byte()?,
        public_key: body.byte()?,
        hash: body.byte()?,
    };
    let length = body.number(2)? as usize;
    let hashed = subpackets(body.take(length)?)?;
    let mut suffix = whole[..6 + length].to_vec();
    suffix.extend([4, 0xff]);
    // The cast is lossless: the length has 16 bits.
    suffix.extend((6 + length as u32).to_be_bytes());
    let length = body.number(2)? as usize;
    // These subpackets are not signed, so the key ID is only a hint. The verification
    // with the key is the proof.
    let not_hashed = subpackets(body.take(length)?)?;
    Ok((head, suffix, hashed.or(not_hashed)))
}

/// The key ID in the subpackets (RFC 9580, 5.2.3.7), if there is one.
///
/// # Errors
/// If a subpacket is cut off, or if an unknown subpacket is marked as critical.
fn subpackets(area: &[u8]) -> Result<Option<u64>, SignatureError> {
    const CRITICAL: u8 = 0x80;
    /// The subpackets that are ignored: creation time, expiration time, key flags and
    /// user ID of the signer. Expiration (3) is ignored because the clock of the machine
    /// may be wrong.
    const HARMLESS: [u8; 4] = [2, 3, 27, 28];
    const ISSUER: u8 = 16;
    const FINGERPRINT: u8 = 33;
    let mut area = Cursor::new(area);
    let mut issuer = None;
    while !area.is_empty() {
        let length = area.subpacket_length()?;
        let mut body = Cursor::new(area.take(length)?);
        let kind = body.byte()?;
        match kind & !CRITICAL {
            ISSUER => issuer = Some(body.number(8)?),
            // A version 4 fingerprint has 20 bytes. The key ID is its last 8 bytes.
            FINGERPRINT if body.byte()? == 4 => {
                body.take(12)?;
                issuer = Some(body.number(8)?);
            }
            known if HARMLESS.contains(&known) => {}
            unknown if kind & CRITICAL != 0 => {
                return Err(SignatureError::CriticalPart(unknown));
            }
            _ => {}
        }
    }
    Ok(issuer)
}

#[cfg(test)]
mod tests;
