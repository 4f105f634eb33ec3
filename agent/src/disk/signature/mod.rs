//! Detached OpenPGP signatures of images: `IMAGE.sig`, as Fedora and Red Hat
//! publish them beside theirs (RFC 9580; what gpg writes is of RFC 4880).
//!
//! A signature is over the image's bytes with a few of its own behind them, so
//! it is checked by the hash that runs beside the download. As little of
//! OpenPGP is read as that takes: signatures of binary documents, RSA, the
//! SHA-2 family, and primary keys, which is what CoreOS images are signed by.
//! Pure.

mod armor;
mod keys;
mod packet;

use rsa::Pkcs1v15Sign;

pub use keys::{SigningKey, built_in_keys};

use crate::disk::digest::Algorithm;
use packet::{Cursor, Packet};

/// A signature file with one signature has some 600 bytes.
pub const SIGNATURE_FILE_LIMIT: usize = 64 << 10;
const SIGNATURE_PACKET: u8 = 2;
/// RFC 9580, 5.2.1.1: of a binary document.
const BINARY_DOCUMENT: u8 = 0x00;
/// RFC 9580, 9.1: RSA, which both signs and encrypts, and RSA that only signs.
const RSA: [u8; 2] = [1, 3];

/// What can be done with the hash algorithms of RFC 9580, 9.5: the id, ours, and
/// the head of the block that RSA signs (RFC 8017, 9.2, note 1). Broken ones
/// are left out on purpose.
const HASHES: [(u8, Algorithm, &[u8]); 4] = [
    (8, Algorithm::Sha256, &digest_info(1, 32)),
    (9, Algorithm::Sha384, &digest_info(2, 48)),
    (10, Algorithm::Sha512, &digest_info(3, 64)),
    (11, Algorithm::Sha224, &digest_info(4, 28)),
];

/// The DER of DigestInfo up to the digest: the SHA-2 algorithms differ in the
/// last number of their identifier and in lengths.
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

/// One signature, made by a key that is trusted.
#[derive(Debug, Clone)]
pub struct ImageSignature {
    key: SigningKey,
    hash: usize,
    suffix: Vec<u8>,
    value: Vec<u8>,
}

impl ImageSignature {
    /// The first signature of the file that is by one of these keys.
    ///
    /// # Errors
    /// If there is none, with what there is instead.
    pub fn by_known_key(file: &[u8], keys: &[SigningKey]) -> Result<Self, String> {
        let file = armor::open(file)?;
        let mut faults = Vec::new();
        for packet in packet::packets(&file) {
            let packet = packet?;
            if packet.tag != SIGNATURE_PACKET {
                faults.push(format!("expected a signature, found packet {}", packet.tag));
                continue;
            }
            match Self::read(&packet, keys) {
                Ok(signature) => return Ok(signature),
                Err(fault) => faults.push(fault),
            }
        }
        if faults.is_empty() {
            faults.push("expected a signature, found none".to_owned());
        }
        Err(faults.join("; "))
    }

    fn read(packet: &Packet<'_>, keys: &[SigningKey]) -> Result<Self, String> {
        let mut body = Cursor::new(packet.body);
        let version = body.byte()?;
        let (head, suffix, issuer) = match version {
            3 => read_version_3(&mut body)?,
            4 => read_version_4(&mut body, packet.body)?,
            _ => {
                return Err(format!(
                    "expected a signature of version 3 or 4, found {version}"
                ));
            }
        };
        if head.kind != BINARY_DOCUMENT {
            return Err(format!(
                "expected a signature of a file (type 0), found type {}",
                head.kind
            ));
        }
        if !RSA.contains(&head.public_key) {
            return Err(format!(
                "expected an RSA signature, found public-key algorithm {}",
                head.public_key
            ));
        }
        let hash = HASHES.iter().position(|(id, ..)| *id == head.hash);
        let hash = hash.ok_or_else(|| {
            format!(
                "expected a signature over SHA-2, found hash algorithm {}",
                head.hash
            )
        })?;
        // The left two bytes of the hash, only for finding faults early.
        body.take(2)?;
        let value = body.integer()?.to_vec();
        let issuer = issuer.ok_or_else(|| "the signature does not name its key".to_owned())?;
        let key = keys.iter().find(|key| key.id == issuer).ok_or_else(|| {
            let known: Vec<String> = keys.iter().map(ToString::to_string).collect();
            format!(
                "it is signed by key {issuer:016X}; known are {}",
                known.join(", ")
            )
        })?;
        Ok(Self {
            key: key.clone(),
            hash,
            suffix,
            value,
        })
    }

    /// The hash that the signature is over.
    pub fn algorithm(&self) -> Algorithm {
        HASHES[self.hash].1
    }

    /// What is hashed behind the image's last byte.
    pub fn suffix(&self) -> &[u8] {
        &self.suffix
    }

    /// The key that it claims to be by.
    pub fn key(&self) -> &SigningKey {
        &self.key
    }

    /// Whether the key signed what has this hash, [`Self::suffix`] included.
    pub fn is_over(&self, hash: &[u8]) -> bool {
        let (_, _, prefix) = HASHES[self.hash];
        let scheme = Pkcs1v15Sign {
            hash_len: Some(prefix[18].into()),
            prefix: prefix.into(),
        };
        // RFC 9580, 3.2: an integer comes without its leading zeros, RSA wants
        // the length of the key.
        let length = self.key.length();
        if self.value.len() > length {
            return false;
        }
        let mut value = vec![0; length - self.value.len()];
        value.extend_from_slice(&self.value);
        self.key.public.verify(scheme, hash, &value).is_ok()
    }
}

/// What both versions say of a signature.
struct Head {
    kind: u8,
    public_key: u8,
    hash: u8,
}

/// Head, what is hashed behind the document, and the key's id.
type Read = (Head, Vec<u8>, Option<u64>);

/// RFC 9580, 5.2.2. Signing servers of old still write it.
fn read_version_3(body: &mut Cursor<'_>) -> Result<Read, String> {
    let length = body.byte()?;
    if length != 5 {
        return Err(format!("expected 5 hashed bytes, found {length}"));
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

/// RFC 9580, 5.2.3 and 5.2.4.
fn read_version_4(body: &mut Cursor<'_>, whole: &[u8]) -> Result<Read, String> {
    let head = Head {
        kind: body.byte()?,
        public_key: body.byte()?,
        hash: body.byte()?,
    };
    let length = body.number(2)? as usize;
    let hashed = subpackets(body.take(length)?)?;
    let mut suffix = whole[..6 + length].to_vec();
    suffix.extend([4, 0xff]);
    // Six bytes and a 16 bit length.
    suffix.extend((6 + length as u32).to_be_bytes());
    let length = body.number(2)? as usize;
    // Not signed, so good for a hint at most: the key decides in the end.
    let not_hashed = subpackets(body.take(length)?)?;
    Ok((head, suffix, hashed.or(not_hashed)))
}

/// The id of the key in subpackets (RFC 9580, 5.2.3.7), if they have it.
///
/// # Errors
/// If one that we do not know must be obeyed.
fn subpackets(area: &[u8]) -> Result<Option<u64>, String> {
    const CRITICAL: u8 = 0x80;
    /// Time, key flags and who signed: what changes nothing here.
    /// Whether it has expired (3) is for who has a clock that is right.
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
            // Version 4 and 20 bytes, of which the last 8 are the id.
            FINGERPRINT if body.byte()? == 4 => {
                body.take(12)?;
                issuer = Some(body.number(8)?);
            }
            known if HARMLESS.contains(&known) => {}
            unknown if kind & CRITICAL != 0 => {
                return Err(format!(
                    "the signature has a critical part of type {unknown}, which is not known"
                ));
            }
            _ => {}
        }
    }
    Ok(issuer)
}

#[cfg(test)]
mod tests;
