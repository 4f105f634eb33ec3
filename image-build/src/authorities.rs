//! Checks files of certificate authorities before anything is built from them.

use anyhow::{Result, ensure};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

/// The maximum size of a file in bytes. The agent does not read a larger file.
pub(crate) const MAX_PEM_BYTES: u64 = 4 << 20;

/// Checks that the file holds certificates and no private key.
pub(crate) fn check(pem: &[u8]) -> Result<()> {
    // This also finds an encrypted key, because all labels of private keys end with these
    // words.
    ensure!(
        !String::from_utf8_lossy(pem).contains("PRIVATE KEY-----"),
        "expected certificates only, found a private key: whoever gets the ramdisk can read it"
    );
    let certificates = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| {
            anyhow::anyhow!(
                "expected certificates in PEM, found damaged or incomplete text: {error}"
            )
        })?;
    ensure!(
        !certificates.is_empty(),
        "expected certificates in PEM (BEGIN CERTIFICATE), found none"
    );
    for (number, certificate) in (1..).zip(&certificates) {
        ensure!(
            is_sequence(certificate),
            "certificate {number}: expected DER, found damaged or incomplete data"
        );
    }
    Ok(())
}

/// Whether `der` is exactly one DER SEQUENCE, as a certificate is (X.690, 8.1.3).
fn is_sequence(der: &[u8]) -> bool {
    let [0x30, length, rest @ ..] = der else {
        return false;
    };
    if *length < 0x80 {
        return usize::from(*length) == rest.len();
    }
    let digits = usize::from(length & 0x7f);
    if !(1..=4).contains(&digits) || rest.len() < digits {
        return false;
    }
    let (length, content) = rest.split_at(digits);
    let length = length
        .iter()
        .fold(0, |all, byte| all << 8 | usize::from(*byte));
    length == content.len()
}

/// Number of certificates in a PEM text.
pub(crate) fn count(pem: &[u8]) -> usize {
    let text = String::from_utf8_lossy(pem);
    text.matches("-----BEGIN CERTIFICATE-----").count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_der() {
        let long = [&[0x30, 0x82, 1, 0][..], &[0; 256]].concat();
        for (der, expected) in [
            (&[][..], false),
            (&[0x30], false),
            (&[0x30, 0], true),
            (&[0x30, 1, 9], true),
            (&[0x30, 1], false),
            (&[0x31, 0], false),
            (&[0x30, 0x80], false),
            (&[0x30, 0x85, 0, 0, 0, 0, 0], false),
            (&[0x30, 0x82, 1], false),
            (&long, true),
            (&long[..259], false),
        ] {
            assert_eq!(is_sequence(der), expected, "{der:x?}");
        }
    }
}
