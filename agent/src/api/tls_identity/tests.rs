use std::process::Command;

use landfall_sys::skip::skip;

use super::*;

fn advertised(text: &str) -> Advertised {
    Advertised::Address(text.parse().unwrap())
}

#[test]
fn is_kept_for_the_same_address_only() {
    let dir = tempfile::tempdir().unwrap();
    let file = StateFile::new(dir.path(), "identity.pem");
    let made = |address: &str| {
        let address = advertised(address);
        TlsIdentity::restore_or_make(&file, &address, "host", CertificateCurve::P384).unwrap()
    };
    let first = made("192.0.2.5");
    let again = made("192.0.2.5");
    assert!(first.own_certificate().is_some());
    assert_eq!(first.own_certificate(), again.own_certificate());
    again.server_config(&TlsPolicy::default()).unwrap();
    let other = made("2001:db8::5");
    assert_ne!(first.own_certificate(), other.own_certificate());
}

/// Checks the certificate with OpenSSL, which Ironic uses.
#[test]
fn openssl_sees_the_fields_that_ironic_requires() {
    if Command::new("openssl").arg("version").output().is_err() {
        return skip("there is no openssl here");
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agent.pem");
    for (curve, address, host_name, expected) in [
        (
            CertificateCurve::P384,
            "192.0.2.5",
            "node-1.example.org",
            "IP Address:192.0.2.5",
        ),
        (
            CertificateCurve::P256,
            "2001:db8::5",
            "",
            "IP Address:2001:DB8:0:0:0:0:0:5",
        ),
    ] {
        let (certificate, _) = make(&advertised(address), host_name, curve).unwrap();
        std::fs::write(&path, certificate).unwrap();
        let output = Command::new("openssl")
            .args(["x509", "-noout", "-text", "-nameopt", "RFC2253", "-in"])
            .arg(&path)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let common_name = if host_name.is_empty() {
            "landfall"
        } else {
            host_name
        };
        for line in [
            "Version: 3",
            "X509v3 Subject Alternative Name: critical",
            expected,
            &format!("Subject: CN={common_name}"),
            "Not Before: Jan  1 00:00:00 2000 GMT",
            "Not After : Dec 31 00:00:00 2099 GMT",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        assert_eq!(
            text.matches("X509v3").count(),
            2,
            "the header and the name\n{text}"
        );
        let asn1 = match curve {
            CertificateCurve::P256 => "prime256v1",
            _ => "secp384r1",
        };
        assert!(text.contains(asn1), "{text}");
    }
}

#[test]
fn a_name_to_advertise_stands_in_the_certificate() {
    let name = Advertised::Name("agent.example".to_owned());
    let (certificate, key) = make(&name, "host", CertificateCurve::P521).unwrap();
    assert!(Identity::from_pem("x", &certificate, &key).is_ok());
    assert_eq!(common_name(&"n".repeat(100)).len(), COMMON_NAME_LIMIT);
}
