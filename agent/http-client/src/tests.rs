//! Tests against OpenSSL's own server, with certificates that OpenSSL made. Only the
//! expired certificate is made by rcgen.

mod proxies;

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use landfall_boot_params::argument_value::TlsVersion;
use landfall_sys::skip::skip;
use reqwest::Method;
use tempfile::TempDir;

use super::why::{is_about_time, why};
use super::{HttpOptions, IdentityFiles, ServiceClient};
use crate::fixtures::Certificate;
use crate::tls::TlsPolicy;

/// A directory in which OpenSSL makes keys and certificates.
struct Authority(TempDir);

impl Authority {
    fn new() -> Option<Self> {
        if Command::new("openssl").arg("version").output().is_err() {
            skip("there is no openssl here");
            return None;
        }
        Some(Self(TempDir::new().unwrap()))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn openssl(&self, arguments: &str) {
        let output = Command::new("openssl")
            .args(arguments.split_whitespace())
            .current_dir(self.0.path())
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "openssl {arguments}: {stderr}");
    }

    /// Makes `NAME.pem` and `NAME.key`, self-signed. OpenSSL marks the certificate as an
    /// authority.
    fn self_signed(&self, name: &str) {
        self.openssl(&format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout {name}.key \
             -out {name}.pem -subj /CN={name} -addext subjectAltName=IP:127.0.0.1"
        ));
    }

    /// Writes a certificate that was valid only in 2020. The crate rcgen makes it,
    /// because the installed OpenSSL cannot make a certificate with such dates.
    fn outdated(&self, name: &str) {
        let old = Certificate::outdated([127, 0, 0, 1]);
        std::fs::write(self.path(&format!("{name}.pem")), old.pem).unwrap();
        std::fs::write(self.path(&format!("{name}.key")), old.key_pem).unwrap();
    }

    /// Makes `NAME.pem` and `NAME.key`, signed by `issuer`.
    fn signed(&self, name: &str, issuer: &str, extensions: &str) {
        self.openssl(&format!(
            "req -newkey rsa:2048 -nodes -keyout {name}.key -out {name}.csr -subj /CN={name}"
        ));
        std::fs::write(self.path("extensions"), extensions).unwrap();
        self.openssl(&format!(
            "x509 -req -in {name}.csr -CA {issuer}.pem -CAkey {issuer}.key -CAcreateserial \
             -days 30 -extfile extensions -out {name}.pem"
        ));
    }

    /// Serves with this certificate until the value is dropped.
    fn serve(&self, name: &str, options: &str) -> Server {
        let mut child = Command::new("openssl")
            .args(["s_server", "-www", "-accept", "127.0.0.1:0"])
            .args([
                "-cert",
                &format!("{name}.pem"),
                "-key",
                &format!("{name}.key"),
            ])
            .args(options.split_whitespace())
            .current_dir(self.0.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.starts_with("ACCEPT") {
            line.clear();
            assert_ne!(lines.read_line(&mut line).unwrap(), 0, "s_server ended");
        }
        let port = line.trim().rsplit(':').next().unwrap();
        Server {
            url: format!("https://127.0.0.1:{port}/"),
            child,
            _lines: lines,
        }
    }
}

struct Server {
    url: String,
    child: Child,
    _lines: BufReader<std::process::ChildStdout>,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn trusting(ca_file: PathBuf) -> HttpOptions {
    HttpOptions {
        ca_file: Some(ca_file),
        ..HttpOptions::default()
    }
}

/// Returns the status, or the error and whether it is about dates.
fn get(options: &HttpOptions, url: &str) -> Result<u16, (String, bool)> {
    let client = ServiceClient::new(options).unwrap();
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(async {
            let request = client.request(Method::GET, url).unwrap();
            match request.send().await {
                Ok(response) => Ok(response.status().as_u16()),
                Err(error) => Err((why(&error), is_about_time(&error))),
            }
        })
}

#[test]
fn a_server_may_show_the_very_certificate_of_the_ca_file() {
    let Some(ca) = Authority::new() else { return };
    ca.self_signed("ironic");
    let server = ca.serve("ironic", "");
    assert_eq!(get(&trusting(ca.path("ironic.pem")), &server.url), Ok(200));

    ca.self_signed("other");
    let (fault, _) = get(&trusting(ca.path("other.pem")), &server.url).unwrap_err();
    for part in ["signed by \"ironic\", which is not in /", "other.pem"] {
        assert!(fault.contains(part), "{fault}");
    }
    // The error must not depend on the authorities of the machine that runs the
    // test.
    let (fault, _) = get(&HttpOptions::default(), &server.url).unwrap_err();
    for part in ["signed by \"ironic\"", "--ca-file"] {
        assert!(fault.contains(part), "{fault}");
    }
    assert!(!fault.contains("insecure"), "{fault}");
}

#[test]
fn authorities_are_trusted_in_addition_to_those_of_the_system() {
    let Some(ca) = Authority::new() else { return };
    ca.self_signed("site");
    ca.self_signed("ironic");
    ca.signed("server", "site", "subjectAltName=IP:127.0.0.1\n");
    let read = |name: &str| std::fs::read(ca.path(name)).unwrap();
    let options = HttpOptions {
        more_authorities: vec![b"no PEM".to_vec(), read("site.pem")],
        ..HttpOptions::default()
    };
    for name in ["server", "site"] {
        let server = ca.serve(name, "");
        assert_eq!(get(&options, &server.url), Ok(200), "{name}");
    }
    let server = ca.serve("ironic", "");
    let (fault, _) = get(&options, &server.url).unwrap_err();
    let expected = "signed by \"ironic\", which is none of the 1 authorities given in addition";
    assert!(fault.contains(expected), "{fault}");
}

#[test]
fn host_name_and_dates_count_for_such_a_certificate_too() {
    let Some(ca) = Authority::new() else { return };
    ca.openssl(
        "req -x509 -newkey rsa:2048 -nodes -keyout named.key -out named.pem -subj /CN=named \
         -addext subjectAltName=DNS:ironic.example",
    );
    let server = ca.serve("named", "");
    let (fault, dates) = get(&trusting(ca.path("named.pem")), &server.url).unwrap_err();
    let expected =
        "its certificate is for ironic.example, not for 127.0.0.1 -- use a name or address";
    assert!(fault.starts_with(expected), "{fault}");
    assert!(!dates);

    ca.outdated("old");
    let server = ca.serve("old", "");
    let (fault, dates) = get(&trusting(ca.path("old.pem")), &server.url).unwrap_err();
    assert!(
        fault.starts_with(
            "its certificate expired on 2020-12-31 00:00:00 UTC, and this machine's clock says 20"
        ),
        "{fault}"
    );
    assert!(dates);
}

#[test]
fn a_certificate_of_any_authority_in_the_bundle_is_trusted() {
    let Some(ca) = Authority::new() else { return };
    for name in ["one", "two"] {
        ca.self_signed(name);
    }
    // Certificates of version 1 have no extensions. Some old authorities have such
    // certificates.
    ca.openssl("req -newkey rsa:2048 -nodes -keyout v1.key -out v1.csr -subj /CN=v1");
    ca.openssl("x509 -req -in v1.csr -signkey v1.key -days 30 -out v1.pem");
    let read = |name: &str| std::fs::read_to_string(ca.path(name)).unwrap();
    let bundle = format!(
        "# the first\n{}\n{}Bag Attributes\n{}",
        read("one.pem"),
        read("two.pem"),
        read("v1.pem")
    );
    std::fs::write(ca.path("bundle.pem"), bundle).unwrap();
    for issuer in ["two", "v1"] {
        ca.signed("server", issuer, "subjectAltName=IP:127.0.0.1\n");
        let server = ca.serve("server", "");
        let bundle = trusting(ca.path("bundle.pem"));
        assert_eq!(get(&bundle, &server.url), Ok(200), "{issuer}");
        let alone = trusting(ca.path("one.pem"));
        assert!(get(&alone, &server.url).is_err(), "{issuer}");
    }
}

#[test]
fn insecure_accepts_any_certificate() {
    let Some(ca) = Authority::new() else { return };
    let insecure = HttpOptions {
        insecure: true,
        // This CA file does not exist, and must not be needed.
        ca_file: Some(ca.path("missing.pem")),
        ..HttpOptions::default()
    };
    ca.outdated("old");
    ca.openssl(
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-521 -nodes -keyout p521.key -out p521.pem -subj /CN=x",
    );
    for name in ["old", "p521"] {
        assert_eq!(get(&insecure, &ca.serve(name, "").url), Ok(200), "{name}");
    }
}

#[test]
fn a_server_that_asks_gets_the_client_certificate() {
    let Some(ca) = Authority::new() else { return };
    ca.self_signed("ca");
    ca.signed("client", "ca", "extendedKeyUsage=clientAuth\n");
    let server = ca.serve("ca", "-Verify 1 -verify_return_error -CAfile ca.pem");
    let without = trusting(ca.path("ca.pem"));
    let with = HttpOptions {
        identity: IdentityFiles::pair(Some(ca.path("client.pem")), Some(ca.path("client.key")))
            .unwrap(),
        ..without.clone()
    };
    assert_eq!(get(&with, &server.url), Ok(200));
    assert!(get(&without, &server.url).is_err());
}

#[test]
fn versions_and_suites_are_those_of_the_policy() {
    let Some(ca) = Authority::new() else { return };
    ca.self_signed("ca");
    let old = ca.serve("ca", "-tls1_2 -cipher ECDHE-ECDSA-AES128-GCM-SHA256");
    for (oldest, suites, answered) in [
        (TlsVersion::V1_2, None, true),
        (TlsVersion::V1_3, None, false),
        (
            TlsVersion::V1_2,
            Some("ECDHE-ECDSA-AES128-GCM-SHA256"),
            true,
        ),
        (
            TlsVersion::V1_2,
            Some("ECDHE-ECDSA-AES256-GCM-SHA384"),
            false,
        ),
    ] {
        let options = HttpOptions {
            tls: TlsPolicy::new(oldest, suites),
            ..trusting(ca.path("ca.pem"))
        };
        let answer = get(&options, &old.url);
        assert_eq!(answer.is_ok(), answered, "{oldest:?} {suites:?} {answer:?}");
    }
    let new = ca.serve("ca", "-tls1_3");
    let strict = HttpOptions {
        tls: TlsPolicy::new(TlsVersion::V1_3, None),
        ..trusting(ca.path("ca.pem"))
    };
    assert_eq!(get(&strict, &new.url), Ok(200));
}

#[test]
fn unusable_files_are_named() {
    let Some(ca) = Authority::new() else { return };
    ca.self_signed("ca");
    std::fs::write(ca.path("empty.pem"), "no PEM at all").unwrap();
    std::fs::write(
        ca.path("junk.pem"),
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    )
    .unwrap();
    let large = std::fs::File::create(ca.path("large.pem")).unwrap();
    large.set_len(5 << 20).unwrap();
    for (file, expected) in [
        ("missing.pem", "missing.pem: No such file"),
        (
            "empty.pem",
            "empty.pem: expected certificates in PEM (BEGIN CERTIFICATE), found none",
        ),
        ("ca.key", "ca.key: expected certificates in PEM"),
        (
            "junk.pem",
            "junk.pem: expected certificates of authorities, found none that can be read",
        ),
        (
            "large.pem",
            "large.pem: expected at most 4194304 bytes, found more",
        ),
    ] {
        let fault = ServiceClient::new(&trusting(ca.path(file))).unwrap_err();
        assert!(fault.details.contains(expected), "{fault}");
    }
    ca.self_signed("stranger");
    for (certificate, key, expected) in [
        (
            "ca.pem",
            "ca.pem",
            "ca.pem: expected a private key in PEM, not encrypted, found none",
        ),
        ("ca.pem", "stranger.key", "ca.pem: "),
    ] {
        let options = HttpOptions {
            identity: IdentityFiles::pair(Some(ca.path(certificate)), Some(ca.path(key))).unwrap(),
            ..trusting(ca.path("ca.pem"))
        };
        let fault = ServiceClient::new(&options).unwrap_err();
        assert!(fault.details.contains(expected), "{fault}");
    }
    let half = IdentityFiles::pair(None, Some("/x.key".into())).unwrap_err();
    assert_eq!(
        half.details,
        "keyfile /x.key: expected certfile in addition, found none"
    );
}
