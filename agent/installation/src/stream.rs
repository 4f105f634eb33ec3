//! Reads stream metadata, which says where the newest image of a CoreOS stream is,
//! in the format that Fedora and OpenShift publish (coreos/stream-metadata-rust,
//! `src/lib.rs`).

use std::collections::BTreeMap;
use std::env::consts::ARCH;

use landfall_boot_params::digest::{Algorithm, Digest, DigestError};
use landfall_download::fetch::{self, Request};
use landfall_report::failure::{Failure, Result};
use serde::Deserialize;

use crate::options::{InstallOptions, STREAM_BASE_URL};

/// The stream of an installation that names no image.
pub(super) const DEFAULT_STREAM: &str = "stable";

/// The size limit of the metadata in bytes. Fedora's metadata, with four architectures
/// and the images of every cloud, has 70 KB.
const LIMIT: usize = 4 << 20;

/// How the image may be packed, smallest download first.
const PACKINGS: [&str; 4] = ["raw.xz", "raw.zst", "raw.gz", "raw"];

#[derive(Debug, Deserialize)]
struct Stream {
    architectures: BTreeMap<String, Architecture>,
}

#[derive(Debug, Deserialize)]
struct Architecture {
    artifacts: BTreeMap<String, Platform>,
}

#[derive(Debug, Deserialize)]
struct Platform {
    release: String,
    formats: BTreeMap<String, Format>,
}

/// One format of an image. Only some formats have a disk image; others have a kernel with
/// its initrd.
#[derive(Debug, Deserialize)]
struct Format {
    disk: Option<Artifact>,
}

#[derive(Debug, Deserialize)]
struct Artifact {
    location: String,
    sha256: String,
}

#[derive(Debug, PartialEq, Eq)]
pub struct StreamImage {
    pub location: String,
    /// The digest of the file as downloaded.
    pub sha256: Digest,
    /// The version of the operating system in the image.
    pub release: String,
}

/// Why the metadata of a stream has no image for the disk.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The file at the stream's URL is not stream metadata. It may be the page of a
    /// proxy. Check the URL.
    #[error("expected stream metadata: {0}")]
    Json(serde_json::Error),
    /// The stream has no images for this kind of machine. Choose another stream or
    /// architecture.
    #[error("expected architecture {expected}, found {found}")]
    Architecture { expected: String, found: String },
    /// The stream has no images for disks of this architecture. Choose another stream, or name
    /// the image.
    #[error("{0}: expected images for metal, found none")]
    NoMetal(String),
    /// The stream has no image for disks with this sector size. Choose another stream, or name
    /// the image.
    #[error("{architecture}, metal: expected {expected}, found {found}")]
    NoDisk {
        architecture: String,
        expected: String,
        found: String,
    },
    /// The digest of the image is damaged.
    #[error("{location}: {fault}")]
    Digest {
        location: String,
        fault: DigestError,
    },
}

/// The newest image of a stream for a disk with sectors of this size in bytes.
///
/// # Errors
/// If the metadata is not available or lists no such image.
pub(super) fn image(
    name: &str,
    options: &InstallOptions,
    sector: u32,
    client: &reqwest::Client,
) -> Result<StreamImage> {
    let base = options.stream_base_url.as_deref();
    let url = metadata_url(base.unwrap_or(STREAM_BASE_URL), name)?;
    tracing::info!(
        "asking {} for the image of stream {name}",
        fetch::shown(&url)
    );
    let request = Request {
        retry_policy: options.retry_policy(),
        ..Request::new([&url])
    };
    let text = fetch::small_file(request, client.clone(), LIMIT)?;
    let architecture = options.architecture.as_deref().unwrap_or(ARCH);
    let image = find(&text, architecture, sector).map_err(|reason| {
        let url = fetch::shown(&url);
        Failure::invalid_image(format!("stream {name} ({url}): {reason}"))
    })?;
    tracing::info!("stream {name} is at release {}", image.release);
    Ok(image)
}

/// Whether the metadata is authentic: it comes from a local file, or from a server whose
/// identity TLS has verified. Otherwise, anybody could have sent it.
pub(super) fn is_proven(options: &InstallOptions, verified: bool) -> bool {
    let base = options.stream_base_url.as_deref();
    let parsed = reqwest::Url::parse(base.unwrap_or(STREAM_BASE_URL));
    parsed.is_ok_and(|url| match url.scheme() {
        "https" => verified,
        scheme => scheme == "file",
    })
}

fn metadata_url(base: &str, name: &str) -> Result<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || !name.chars().all(plain) {
        return Err(Failure::invalid_params(format!(
            "stream {name:?}: expected a name of letters, digits, -, _ and ."
        )));
    }
    Ok(format!("{}/{name}.json", base.trim_end_matches('/')))
}

/// The URL of the metadata of the stream in these options.
///
/// # Errors
/// If the name of the stream is invalid.
pub fn url_of(options: &InstallOptions) -> Result<String> {
    let base = options.stream_base_url.as_deref();
    let name = options.stream.as_deref();
    metadata_url(
        base.unwrap_or(STREAM_BASE_URL),
        name.unwrap_or(DEFAULT_STREAM),
    )
}

/// Finds the image for a disk with sectors of `sector` bytes in the metadata.
///
/// # Errors
/// If the metadata has another format, lists no such image, or has an invalid digest.
pub fn find(
    text: &[u8],
    architecture: &str,
    sector: u32,
) -> std::result::Result<StreamImage, StreamError> {
    let stream: Stream = serde_json::from_slice(text).map_err(StreamError::Json)?;
    let known = |names: Vec<&String>| {
        let names: Vec<&str> = names.into_iter().map(String::as_str).collect();
        names.join(", ")
    };
    let of_architecture =
        stream
            .architectures
            .get(architecture)
            .ok_or_else(|| StreamError::Architecture {
                expected: architecture.to_owned(),
                found: known(stream.architectures.keys().collect()),
            })?;
    let metal = of_architecture
        .artifacts
        .get("metal")
        .ok_or_else(|| StreamError::NoMetal(architecture.to_owned()))?;
    let prefix = if sector == 4096 { "4k." } else { "" };
    let disk = PACKINGS
        .iter()
        .filter_map(|packing| metal.formats.get(&format!("{prefix}{packing}")))
        .find_map(|format| format.disk.as_ref())
        .ok_or_else(|| StreamError::NoDisk {
            architecture: architecture.to_owned(),
            expected: format!("{prefix}{}", PACKINGS[0]),
            found: known(metal.formats.keys().collect()),
        })?;
    let sha256 =
        Digest::new(Algorithm::Sha256, &disk.sha256).map_err(|fault| StreamError::Digest {
            location: disk.location.clone(),
            fault,
        })?;
    Ok(StreamImage {
        location: disk.location.clone(),
        sha256,
        release: metal.release.clone(),
    })
}

#[cfg(test)]
mod tests {
    use landfall_http_client::fixtures::{Server, http_client};

    use super::*;

    const FEDORA: &[u8] = include_bytes!("../test_data/stream/fedora.json");
    const OPENSHIFT: &[u8] = include_bytes!("../test_data/stream/openshift.json");

    #[test]
    fn the_image_for_the_sectors_of_the_disk() {
        for (text, architecture, sector, file, sha256) in [
            (
                FEDORA,
                "x86_64",
                512,
                "fedora-coreos-44.1-metal.x86_64.raw.xz",
                "07",
            ),
            (
                FEDORA,
                "x86_64",
                4096,
                "fedora-coreos-44.1-metal4k.x86_64.raw.xz",
                "02",
            ),
            (
                FEDORA,
                "aarch64",
                512,
                "fedora-coreos-44.1-metal.aarch64.raw.xz",
                "20",
            ),
            (
                OPENSHIFT,
                "x86_64",
                512,
                "rhcos-9.8-metal.x86_64.raw.gz",
                "0b",
            ),
            (
                OPENSHIFT,
                "x86_64",
                4096,
                "rhcos-9.8-metal4k.x86_64.raw.gz",
                "09",
            ),
        ] {
            let found = find(text, architecture, sector).unwrap();
            assert!(found.location.ends_with(&format!("/{file}")), "{found:?}");
            assert_eq!(found.sha256.hex(), sha256.repeat(32));
        }
        assert_eq!(find(FEDORA, "x86_64", 512).unwrap().release, "44.1");
    }

    #[test]
    fn missing_parts_of_the_stream_are_named() {
        let fedora = std::str::from_utf8(FEDORA).unwrap();
        let of = |text: &str| {
            let error = find(text.as_bytes(), "x86_64", 512).unwrap_err();
            error.to_string()
        };
        assert_eq!(
            find(FEDORA, "ppc64le", 512).unwrap_err().to_string(),
            "expected architecture ppc64le, found aarch64, x86_64"
        );
        assert_eq!(
            find(FEDORA, "aarch64", 4096).unwrap_err().to_string(),
            "aarch64, metal: expected 4k.raw.xz, found raw.xz"
        );
        let found = of(&fedora.replace("\"metal\"", "\"openstack\""));
        assert_eq!(found, "x86_64: expected images for metal, found none");
        let found = of(&fedora.replace("0707", "07"));
        assert!(found.contains("expected 64 hexadecimal digits"), "{found}");
        for text in ["", "[]", "{}", "<html>", &fedora[..500]] {
            assert!(of(text).contains("expected stream metadata"), "{text}");
        }
    }

    #[test]
    fn without_verified_tls_no_server_is_trusted() {
        for (base, expected) in [
            (None, true),
            (Some("https://h/streams/"), true),
            (Some("file:///srv/streams"), true),
            (Some("http://h/streams/"), false),
            (Some("HTTP://h/"), false),
            (Some("h/streams"), false),
        ] {
            let options = InstallOptions {
                stream_base_url: base.map(str::to_owned),
                ..InstallOptions::default()
            };
            assert_eq!(is_proven(&options, true), expected, "{base:?}");
            let is_file = base.is_some_and(|base| base.starts_with("file:"));
            assert_eq!(is_proven(&options, false), is_file, "{base:?} unverified");
        }
    }

    #[test]
    fn a_stream_is_a_file_below_the_base() {
        let server = Server::of(FEDORA);
        let options = InstallOptions {
            stream_base_url: Some(server.url.replace("/image.raw", "/streams/")),
            architecture: Some("x86_64".to_owned()),
            ..InstallOptions::default()
        };
        let found = image("stable", &options, 512, &http_client()).unwrap();
        assert_eq!(found, find(FEDORA, "x86_64", 512).unwrap());
        for (base, name, expected) in [
            ("https://h/streams/", "next", "https://h/streams/next.json"),
            ("https://h/s", "rhcos-4.21", "https://h/s/rhcos-4.21.json"),
        ] {
            assert_eq!(metadata_url(base, name).unwrap(), expected);
        }
        for name in ["", "a/b", "a?b", "a b", "\u{e9}"] {
            assert!(metadata_url("https://h/", name).is_err(), "{name:?}");
        }
    }
}
