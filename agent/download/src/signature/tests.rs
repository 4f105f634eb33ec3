//! Tests with files made by gpg (`test_data`): `image` was signed in several ways
//! with the key in `key.asc` and with other keys.

use proptest::prelude::*;

use super::*;
use crate::digest::Hasher;

const IMAGE: &[u8] = include_bytes!("test_data/image");
const KEY: &[u8] = include_bytes!("test_data/key.asc");

macro_rules! signature {
    ($name:literal) => {
        include_bytes!(concat!("test_data/", $name, ".sig"))
    };
}

fn keys() -> Vec<SigningKey> {
    SigningKey::read(KEY).unwrap()
}

fn hash(signature: &ImageSignature, image: &[u8]) -> Vec<u8> {
    let mut hasher = Hasher::new(signature.algorithm());
    hasher.update(image);
    hasher.with_suffix(signature.suffix()).to_vec()
}

#[test]
fn only_the_file_that_gpg_signed_is_good() {
    for (file, algorithm) in [
        (&signature!("sha256")[..], Algorithm::Sha256),
        (signature!("sha384"), Algorithm::Sha384),
        (signature!("sha512"), Algorithm::Sha512),
        (signature!("sha224"), Algorithm::Sha224),
        (signature!("armored"), Algorithm::Sha512),
        (signature!("notation"), Algorithm::Sha512),
        (signature!("two-keys"), Algorithm::Sha512),
    ] {
        let signature = ImageSignature::by_known_key(file, &keys()).unwrap();
        assert_eq!(signature.algorithm(), algorithm);
        assert_eq!(signature.key().owner, "Test of images <test@example.org>");
        assert!(signature.is_over(&hash(&signature, IMAGE)), "{algorithm}");
        let mut other = IMAGE.to_vec();
        other[3] ^= 1;
        assert!(!signature.is_over(&hash(&signature, &other)), "{algorithm}");
        assert!(!signature.is_over(&hash(&signature, &IMAGE[1..])));
        assert!(!signature.is_over(&[]));
    }
}

#[test]
fn others_are_refused_with_a_reason() {
    for (file, expected) in [
        (&signature!("sha1")[..], "SHA-2, found hash algorithm 2"),
        (signature!("other-key"), "it is signed by key "),
        (
            signature!("curve"),
            "RSA signature, found public-key algorithm 22",
        ),
        (
            signature!("text"),
            "signature of a file (type 0), found type 1",
        ),
        (signature!("critical"), "a critical part of type 20"),
        (KEY, "expected a signature, found packet 6"),
        (b"", "expected a signature, found none"),
        (b"<html>404", "something else"),
    ] {
        let fault = ImageSignature::by_known_key(file, &keys());
        let fault = fault.unwrap_err().to_string();
        assert!(fault.contains(expected), "{fault}");
    }
    let curve = include_bytes!("test_data/curve.asc");
    assert!(
        SigningKey::read(curve)
            .unwrap_err()
            .to_string()
            .contains("algorithm 22")
    );
    let fault = ImageSignature::by_known_key(signature!("sha256"), &built_in_keys());
    assert!(fault.unwrap_err().to_string().contains("Fedora (43)"));
}

#[test]
fn a_damaged_signature_is_openpgp_and_a_text_is_not() {
    for file in [
        &signature!("sha256")[..],
        &signature!("sha256")[..9],
        signature!("armored"),
        &signature!("armored")[..99],
        signature!("other-key"),
        KEY,
    ] {
        assert!(begins_as_openpgp(file), "{file:?}");
    }
    for file in [&b""[..], b"<html>", b"not found\n", b"{}", b"\x1f\x8b\x08"] {
        assert!(!begins_as_openpgp(file), "{file:?}");
    }
}

#[test]
fn keys_come_with_and_without_armor() {
    let binary = SigningKey::read(include_bytes!("test_data/key.gpg")).unwrap();
    assert_eq!(binary, keys());
}

/// A version 3 signature, as old signing servers write it (RFC 9580, 5.2.2). It
/// contains the value of a version 4 signature, so it can be read but is not valid.
#[test]
fn version_3_has_its_own_suffix() {
    let packet = packet::packets(signature!("sha256")).next().unwrap();
    let value = packet.unwrap().body;
    let value = &value[value.len() - 258..];
    let mut body = vec![3, 5, 0, 1, 2, 3, 4];
    body.extend(keys()[0].id.to_be_bytes());
    body.extend([1, 8, 0, 0]);
    body.extend(value);
    let mut file = vec![0x89];
    file.extend((body.len() as u16).to_be_bytes());
    file.extend(body);
    let signature = ImageSignature::by_known_key(&file, &keys()).unwrap();
    assert_eq!(signature.suffix(), [0, 1, 2, 3, 4]);
    assert!(!signature.is_over(&hash(&signature, IMAGE)));
}

proptest! {
    /// A changed signature never causes a panic. It is valid only if the change is in a
    /// part that is not signed.
    #[test]
    fn a_changed_signature_is_never_good(
        place in any::<proptest::sample::Index>(),
        bit in 0..8_u8,
        keep in any::<proptest::sample::Index>(),
    ) {
        let mut file = signature!("sha256").to_vec();
        let place = place.index(file.len());
        file[place] ^= 1 << bit;
        let original = ImageSignature::by_known_key(signature!("sha256"), &keys()).unwrap();
        if let Ok(signature) = ImageSignature::by_known_key(&file, &keys()) {
            // Parts that are not signed may change without effect: the encoding of lengths
            // and the unhashed subpackets.
            let same = signature.value == original.value && signature.suffix == original.suffix
                && signature.hash == original.hash;
            prop_assert_eq!(signature.is_over(&hash(&signature, IMAGE)), same);
        }
        let cut = &file[..keep.index(file.len())];
        prop_assert!(ImageSignature::by_known_key(cut, &keys()).is_err());
        let _ = SigningKey::read(&file);
    }
}
