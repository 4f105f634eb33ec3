//! Reads the Ignition config of the installed system from a file or a server, and
//! compares its digest before anything is written.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use landfall_boot_params::digest::Digest;

use crate::disk::digest::Hasher;
use crate::disk::fetch::{self, Request};
use crate::failure::{Class, Failure, Result};
use crate::handover::ignition_file;
use crate::installation::Servers;
use crate::installation::options::InstallOptions;

/// In bytes. The config of a cluster's bootstrap host, with all its files inside,
/// has 300 KB; the boot partition has 384 MiB.
const LIMIT: usize = 16 << 20;

/// The bytes of the config; `None` if the options name no config.
///
/// # Errors
/// If the config cannot be read, does not match its digest, or is not JSON.
pub(super) fn read(options: &InstallOptions, servers: &Servers) -> Result<Option<Vec<u8>>> {
    let (name, config) = match (&options.ignition_file, &options.ignition_url) {
        (Some(path), None) => (path.display().to_string(), of_file(path)?),
        (None, Some(url)) => (fetch::shown(url), of_server(url, options, servers)?),
        (None, None) if options.ignition_hash.is_some() => {
            return Err(Failure::invalid_params(
                "--ignition-hash: expected also --ignition-file or --ignition-url, found none",
            ));
        }
        (None, None) => return Ok(None),
        (Some(_), Some(_)) => {
            return Err(Failure::invalid_params(
                "expected one of --ignition-file and --ignition-url, found both",
            ));
        }
    };
    if let Some(expected) = &options.ignition_hash {
        compare(&name, &config, expected)?;
    }
    ignition_file::check(&config).map_err(|failure| Failure {
        details: format!("{name}: {}", failure.details),
        ..failure
    })?;
    Ok(Some(config))
}

fn of_file(path: &Path) -> Result<Vec<u8>> {
    let mut config = Vec::new();
    File::open(path)
        .and_then(|file| file.take(LIMIT as u64 + 1).read_to_end(&mut config))
        .map_err(|error| {
            Failure::invalid_params(format!("Ignition config {}: {error}", path.display()))
        })?;
    if config.len() > LIMIT {
        return Err(Failure::invalid_params(format!(
            "Ignition config {}: expected at most {LIMIT} bytes, found more",
            path.display()
        )));
    }
    Ok(config)
}

/// Whoever writes the config controls the machine. So one of these must hold: the
/// server has proven its identity, the digest is known, or the operator trusts the
/// network.
fn of_server(url: &str, options: &InstallOptions, servers: &Servers) -> Result<Vec<u8>> {
    let scheme = reqwest::Url::parse(url)
        .map_err(|error| Failure::invalid_params(format!("Ignition URL {url}: {error}")))?
        .scheme()
        .to_owned();
    match &scheme[..] {
        "https" if servers.verified => {}
        "http" | "https" if options.ignition_hash.is_some() || options.insecure_ignition => {}
        "https" => {
            return Err(Failure::invalid_params(format!(
                "Ignition URL {}: expected a server whose certificate is verified, found ipa-insecure, which turns verification off",
                fetch::shown(url)
            ))
            .hint("give the CA of the server as CA file (cafile) instead of ipa-insecure, or give --ignition-hash or --insecure-ignition"));
        }
        "http" => {
            return Err(Failure::invalid_params(format!(
                "Ignition URL {}: expected https, or http with --ignition-hash or --insecure-ignition",
                fetch::shown(url)
            )));
        }
        _ => {
            return Err(Failure::invalid_params(format!(
                "Ignition URL {}: expected http or https, found {scheme}",
                fetch::shown(url)
            )));
        }
    }
    tracing::info!("fetching the Ignition config {}", fetch::shown(url));
    let request = Request {
        patience: options.patience(),
        ..Request::new([url])
    };
    fetch::small_file(request, servers.client.clone(), LIMIT)
}

fn compare(name: &str, config: &[u8], expected: &Digest) -> Result<()> {
    let found = Hasher::digest(expected.algorithm(), config);
    if found == *expected {
        return Ok(());
    }
    Err(Failure::new(
        Class::ImageChecksumError,
        format!(
            "Ignition config {name}: {} expected {}, found {} over {} bytes; nothing was written",
            expected.algorithm(),
            expected.hex(),
            found.hex(),
            config.len()
        ),
    ))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use landfall_boot_params::digest::Algorithm;

    use super::*;
    use crate::disk::fixtures::{Reply, Server, http_client};
    use crate::installation::options::FetchRetries;

    const CONFIG: &[u8] = b"{ \"ignition\" : {\"version\":\"3.2.0\"} }\n";

    fn hash_of(bytes: &[u8]) -> Digest {
        Hasher::digest(Algorithm::Sha512, bytes)
    }

    fn of_url(url: &str) -> InstallOptions {
        InstallOptions {
            ignition_url: Some(url.to_owned()),
            fetch_retries: Some(FetchRetries::Times(0)),
            ..InstallOptions::default()
        }
    }

    fn servers() -> Servers {
        Servers {
            client: http_client(),
            verified: true,
        }
    }

    fn refused(options: &InstallOptions, reason: &str) {
        let failure = read(options, &servers()).unwrap_err();
        assert!(failure.details.contains(reason), "{failure}");
    }

    #[test]
    fn a_file_keeps_its_bytes_and_is_what_its_digest_says() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), CONFIG).unwrap();
        let mut options = InstallOptions {
            ignition_file: Some(file.path().to_owned()),
            ..InstallOptions::default()
        };
        let servers = servers();
        assert_eq!(read(&options, &servers).unwrap().as_deref(), Some(CONFIG));
        options.ignition_hash = Some(hash_of(CONFIG));
        assert_eq!(read(&options, &servers).unwrap().as_deref(), Some(CONFIG));
        options.ignition_hash = Some(hash_of(b"other"));
        refused(&options, "sha512 expected ");
        options.ignition_hash = None;
        fs::write(file.path(), "ignition:\n").unwrap();
        refused(&options, "expected JSON");
        fs::write(file.path(), vec![b' '; LIMIT + 1]).unwrap();
        refused(&options, "found more");
        options.ignition_file = Some("/nonexistent.ign".into());
        refused(&options, "/nonexistent.ign: No such file");
        options.ignition_url = Some("https://h/".to_owned());
        refused(&options, "found both");
        let none = InstallOptions::default();
        assert_eq!(read(&none, &servers).unwrap(), None);
        let hash_alone = InstallOptions {
            ignition_hash: Some(hash_of(CONFIG)),
            ..InstallOptions::default()
        };
        refused(&hash_alone, "found none");
    }

    #[test]
    fn a_server_without_tls_needs_a_digest_or_a_word() {
        let server = Server::start(|_| Reply::whole(CONFIG, "\"1\""));
        let servers = servers();
        refused(&of_url(&server.url), "--insecure-ignition");
        assert!(server.asked().is_empty(), "not even asked");
        let allowed = InstallOptions {
            insecure_ignition: true,
            ..of_url(&server.url)
        };
        assert_eq!(read(&allowed, &servers).unwrap().as_deref(), Some(CONFIG));
        let hashed = InstallOptions {
            ignition_hash: Some(hash_of(CONFIG)),
            ..of_url(&server.url)
        };
        assert_eq!(read(&hashed, &servers).unwrap().as_deref(), Some(CONFIG));
        let other = InstallOptions {
            ignition_hash: Some(hash_of(b"other")),
            ..allowed
        };
        refused(&other, "nothing was written");
    }

    #[test]
    fn https_without_verification_is_no_better_than_http() {
        let url = "https://127.0.0.1:1/w.ign";
        let insecure = Servers {
            verified: false,
            ..servers()
        };
        let of = |options: &InstallOptions| read(options, &insecure).unwrap_err();
        let failure = of(&of_url(url));
        assert!(failure.details.contains("ipa-insecure"), "{failure}");
        for allowed in [
            InstallOptions {
                insecure_ignition: true,
                ..of_url(url)
            },
            InstallOptions {
                ignition_hash: Some(hash_of(CONFIG)),
                ..of_url(url)
            },
        ] {
            // The agent asks, but no server listens on this port.
            assert_eq!(of(&allowed).class, Class::ImageDownloadError);
        }
    }

    #[test]
    fn only_http_and_https() {
        for url in [
            "ftp://h/a.ign",
            "file:///a.ign",
            "data:,{}",
            "tftp://h/a",
            "a.ign",
        ] {
            let insecure = InstallOptions {
                insecure_ignition: true,
                ..of_url(url)
            };
            refused(&insecure, "Ignition URL");
        }
        let missing = Server::start(|_| Reply::status(404));
        let options = InstallOptions {
            insecure_ignition: true,
            ..of_url(&missing.url)
        };
        refused(&options, "404");
    }
}
