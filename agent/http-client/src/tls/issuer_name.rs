//! Reads the name of a certificate's issuer, so that the operator can find the CA's file.

/// The maximum length of a name on the console, in characters.
const LIMIT: usize = 80;

/// The last common name of a certificate's issuer, or its organization if there is no
/// common name. `None` if the issuer has neither, or if these bytes are not a
/// certificate.
pub fn issuer_name(certificate: &[u8]) -> Option<String> {
    // RFC 5280, 4.1: Certificate, TBSCertificate, then version, serial number, algorithm
    // and issuer.
    let (_, certificate, _) = element(certificate)?;
    let (_, mut rest, _) = element(certificate)?;
    if rest.first() == Some(&0xa0) {
        rest = element(rest)?.2;
    }
    for _ in ["serial number", "algorithm"] {
        rest = element(rest)?.2;
    }
    let (_, issuer, _) = element(rest)?;
    attribute(issuer, COMMON_NAME).or_else(|| attribute(issuer, ORGANIZATION))
}

const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];

/// The last value of this type in a name.
fn attribute(mut name: &[u8], kind: &[u8]) -> Option<String> {
    let mut last = None;
    while let Some((_, set, rest)) = element(name) {
        name = rest;
        let pair = element(set).map(|(_, pair, _)| pair);
        let Some((_, identifier, value)) = pair.and_then(element) else {
            continue;
        };
        if identifier == kind {
            last = element(value).and_then(|(_, text, _)| shown(text)).or(last);
        }
    }
    last
}

/// Removes control characters and everything after [`LIMIT`] characters, so that a name
/// from a certificate is one harmless line. `None` if nothing is left.
fn shown(text: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(text);
    let shown: String = text
        .chars()
        .filter(|c| !c.is_control())
        .take(LIMIT)
        .collect();
    (!shown.trim().is_empty()).then_some(shown)
}

/// Tag and content of the first DER element, and the bytes after it (X.690, 8.1).
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let [tag, length, rest @ ..] = der else {
        return None;
    };
    let (length, rest) = match usize::from(*length) {
        short @ 0..0x80 => (short, rest),
        long => {
            let (digits, rest) = rest.split_at_checked(long & 0x7f)?;
            if digits.is_empty() || digits.len() > 4 {
                return None;
            }
            let length = digits
                .iter()
                .fold(0, |all, byte| all << 8 | usize::from(*byte));
            (length, rest)
        }
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((*tag, content, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signed_by(issuer: &[(rcgen::DnType, &str)]) -> Vec<u8> {
        let mut parameters = rcgen::CertificateParams::default();
        parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        parameters.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, text) in issuer {
            parameters.distinguished_name.push(kind.clone(), *text);
        }
        let key = rcgen::KeyPair::generate().unwrap();
        let issuer = rcgen::Issuer::from_params(&parameters, &key);
        let server = rcgen::CertificateParams::new(vec!["server".to_owned()]).unwrap();
        server.signed_by(&key, &issuer).unwrap().der().to_vec()
    }

    #[test]
    fn the_issuer_is_named() {
        use rcgen::DnType::{CommonName, CountryName, OrganizationName};
        for (issuer, expected) in [
            (
                &[
                    (CountryName, "DE"),
                    (OrganizationName, "Example Corp"),
                    (CommonName, "Corp\n CA 3"),
                ][..],
                Some("Corp CA 3"),
            ),
            (&[(OrganizationName, "Example Corp")], Some("Example Corp")),
            (&[(CountryName, "DE")], None),
        ] {
            assert_eq!(issuer_name(&signed_by(issuer)).as_deref(), expected);
        }
    }
}
