//! Reads the Ignition config of the installed system from a file or a server, and
//! compares its digest before anything is written.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use landfall_boot_params::digest::Digest;
use landfall_download::digest::Hasher;
use landfall_download::fetch::{self, Request};
use landfall_handover::ignition_file;
use landfall_report::failure::{Class, Failure, Result};

use crate::Servers;
use crate::options::InstallOptions;

/// Size limit of a config in bytes. The config of a cluster's bootstrap host, with all
/// its files inside, has 300 KB; the boot partition has 384 MiB.
const LIMIT: usize = 16 << 20;

/// The bytes of the config; `None` if the options name no config.
///
/// # Errors
/// If the options name two configs, or a digest without a config. If the config cannot be
/// read, is larger than 16 MiB, comes from a server that the agent does not trust, does
/// not match its digest, or is not JSON.
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

/// Fetches the config from a server. The config decides what runs on the machine, so it
/// must be authentic: either the server has proven its identity, or the digest is known,
/// or the operator trusts the network.
fn of_server(url: &str, options: &InstallOptions, servers: &Servers) -> Result<Vec<u8>> {
    let scheme = reqwest::Url::parse(url)
        .map_err(|error| {
            Failure::invalid_params(format!("Ignition URL {}: {error}", fetch::shown(url)))
        })?
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
        retry_policy: options.retry_policy(),
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
    use landfall_http_client::fixtures::{Reply, Server, http_client};

    use super::*;
    use crate::options::FetchRetries;

    const CONFIG: &[u8] = b"{ \"ignition\" : {\"version\":\"3.2.0\"} }\n";

    fn of_file(path: &Path) -> InstallOptions {
        InstallOptions {
            ignition_file: Some(path.to_owned()),
            ..InstallOptions::default()
        }
    }

    fn of_url(url: &str) -> InstallOptions {
        InstallOptions {
            ignition_url: Some(url.to_owned()),
            fetch_retries: Some(FetchRetries::Times(0)),
            ..InstallOptions::default()
        }
    }

    fn with_hash_of(config: &[u8], options: InstallOptions) -> InstallOptions {
        InstallOptions {
            ignition_hash: Some(Hasher::digest(Algorithm::Sha512, config)),
            ..options
        }
    }

    fn insecure(options: InstallOptions) -> InstallOptions {
        InstallOptions {
            insecure_ignition: true,
            ..options
        }
    }

    /// Fails unless the error contains `reason`. An empty reason stands for
    /// success.
    fn assert_outcome(options: &InstallOptions, verified: bool, reason: &str) {
        let servers = Servers {
            client: http_client(),
            verified,
        };
        match read(options, &servers) {
            Ok(config) => {
                assert_eq!((config.as_deref(), reason), (Some(CONFIG), ""));
            }
            Err(failure) => assert!(
                !reason.is_empty() && failure.details.contains(reason),
                "{reason}: {failure}"
            ),
        }
    }

    #[test]
    fn a_file_keeps_its_bytes_and_is_what_its_digest_says() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, content: &[u8]| {
            let path = directory.path().join(name);
            fs::write(&path, content).unwrap();
            of_file(&path)
        };
        let both = InstallOptions {
            ignition_url: Some("https://h/".to_owned()),
            ..file("a.ign", CONFIG)
        };
        for (options, reason) in [
            (file("a.ign", CONFIG), ""),
            (with_hash_of(CONFIG, file("a.ign", CONFIG)), ""),
            (
                with_hash_of(b"other", file("a.ign", CONFIG)),
                "sha512 expected ",
            ),
            (file("b.ign", b"ignition:\n"), "expected JSON"),
            (file("c.ign", &vec![b' '; LIMIT + 1]), "found more"),
            (of_file("/none.ign".as_ref()), "/none.ign: No such file"),
            (both, "found both"),
            (
                with_hash_of(CONFIG, InstallOptions::default()),
                "found none",
            ),
        ] {
            assert_outcome(&options, true, reason);
        }
        let servers = Servers {
            client: http_client(),
            verified: true,
        };
        let none = read(&InstallOptions::default(), &servers).unwrap();
        assert_eq!(none, None);
    }

    #[test]
    fn a_server_needs_verified_tls_or_a_digest_or_a_word() {
        let server = Server::of(CONFIG);
        let missing = Server::start(|_| Reply::status(404));
        let http = || of_url(&server.url);
        // If the agent trusts this URL, it connects, but no server listens on this port.
        let https = || of_url("https://127.0.0.1:1/w.ign");
        for (options, verified, reason) in [
            (http(), true, "--insecure-ignition"),
            (insecure(http()), true, ""),
            (with_hash_of(CONFIG, http()), true, ""),
            (
                with_hash_of(b"other", insecure(http())),
                true,
                "nothing was written",
            ),
            (insecure(of_url(&missing.url)), true, "404"),
            // Without verification, https is no better than http.
            (https(), false, "ipa-insecure"),
            (https(), true, "connection refused"),
            (insecure(https()), false, "connection refused"),
            (with_hash_of(CONFIG, https()), false, "connection refused"),
            (insecure(of_url("ftp://h/a.ign")), true, "Ignition URL"),
            (insecure(of_url("file:///a.ign")), true, "Ignition URL"),
            (insecure(of_url("a.ign")), true, "Ignition URL"),
        ] {
            assert_outcome(&options, verified, reason);
        }
        assert_eq!(
            server.asked().len(),
            3,
            "not asked without a reason to trust"
        );
    }

    #[test]
    fn a_password_in_a_wrong_url_is_not_shown() {
        let options = of_url("https://user:secret@host:99999/a.ign");
        let servers = Servers {
            client: http_client(),
            verified: true,
        };
        let failure = read(&options, &servers).unwrap_err();
        assert!(failure.details.starts_with("Ignition URL "), "{failure}");
        assert!(!failure.details.contains("secret"), "{failure}");
    }
}
