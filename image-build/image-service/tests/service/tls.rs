//! The service over TLS.

use std::sync::Arc;

use landfall_host_media::fixtures::Layout;
use landfall_image_service::{Limits, ServerTls};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tempfile::TempDir;

use crate::client::Client;
use crate::fixture::Fixture;

fn write_identity(directory: &TempDir) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    std::fs::write(directory.path().join("cert.pem"), cert.pem()).unwrap();
    std::fs::write(
        directory.path().join("key.pem"),
        signing_key.serialize_pem(),
    )
    .unwrap();
}

fn server(directory: &TempDir) -> ServerTls {
    write_identity(directory);
    let file = |name| directory.path().join(name);
    ServerTls::from_files(file("cert.pem"), file("key.pem")).unwrap()
}

type Secure = StreamOwned<ClientConnection, std::net::TcpStream>;

fn client(fixture: &Fixture) -> Client<Secure> {
    let mut roots = RootCertStore::empty();
    let file = fixture.directory.path().join("cert.pem");
    roots
        .add(CertificateDer::from_pem_file(file).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let stream = std::net::TcpStream::connect(fixture.address()).unwrap();
    Client::over(StreamOwned::new(connection, stream))
}

#[test]
fn images_over_tls() {
    let layout = Layout {
        kernel_size: 3 << 20,
        ..Layout::default()
    };
    let fixture = Fixture::with(layout, Limits::default(), Some(server));
    let whole = fixture.expected_iso(1);
    let mut client = client(&fixture);
    assert!(client.get("/node1.iso", &[]).body == whole);
    let part = client.get("/node1.iso", &[("Range", "bytes=1000000-2999999")]);
    assert!(part.body == whole[1_000_000..3_000_000]);
    // A client that sends plain HTTP to the port for TLS gets no HTTP answer.
    let mut plain = fixture.client();
    plain.send(b"GET /node1.iso HTTP/1.1\r\nHost: x\r\n\r\n");
    let mut buffer = [0; 100];
    let len = plain.read_some(&mut buffer);
    assert!(!buffer[..len].starts_with(b"HTTP"));
}

#[test]
fn a_new_certificate_is_for_new_connections() {
    let fixture = Fixture::with(Layout::default(), Limits::default(), Some(server));
    let tls = fixture.tls.clone().unwrap();
    let mut old = client(&fixture);
    assert_eq!(old.get("/healthz", &[]).status, 200);
    write_identity(&fixture.directory);
    let files = tls.check().unwrap();
    tls.install(files);
    // The client trusts the new certificate only.
    assert_eq!(client(&fixture).get("/healthz", &[]).status, 200);
    assert_eq!(old.get("/healthz", &[]).status, 200);
    for (file, text, expected) in [
        ("key.pem", "x", "expected a private key in PEM"),
        (
            "key.pem",
            "-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n",
            "expected a private key of type RSA, ",
        ),
        (
            "cert.pem",
            "",
            "expected a certificate chain in PEM, found none",
        ),
        (
            "cert.pem",
            "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n",
            "expected an X.509 certificate, found other or damaged data",
        ),
    ] {
        std::fs::write(fixture.directory.path().join(file), text).unwrap();
        let error = tls.reload().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        write_identity(&fixture.directory);
    }
    for file in ["key.pem", "cert.pem"] {
        let path = fixture.directory.path().join(file);
        std::fs::remove_file(&path).unwrap();
        let error = tls.reload().unwrap_err().to_string();
        assert_eq!(error, format!("cannot read {}", path.display()));
        write_identity(&fixture.directory);
    }
    // `reload_if_changed` reads the files only if they have changed.
    let _ = tls.reload_if_changed();
    assert!(!tls.reload_if_changed().unwrap());
    write_identity(&fixture.directory);
    assert!(tls.reload_if_changed().unwrap());
    assert_eq!(client(&fixture).get("/healthz", &[]).status, 200);
    std::fs::write(fixture.directory.path().join("key.pem"), "x").unwrap();
    assert!(tls.reload_if_changed().is_err());
    assert!(
        !tls.reload_if_changed().unwrap(),
        "one report for each change"
    );
    assert_eq!(client(&fixture).get("/healthz", &[]).status, 200);
    write_identity(&fixture.directory);
    assert!(tls.reload_if_changed().unwrap());
    let other = tempfile::tempdir().unwrap();
    write_identity(&other);
    let pair = ServerTls::from_files(
        fixture.directory.path().join("cert.pem"),
        other.path().join("key.pem"),
    );
    assert!(
        pair.unwrap_err()
            .to_string()
            .contains("do not belong together")
    );
}
