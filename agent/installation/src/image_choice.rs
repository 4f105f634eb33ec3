//! Chooses the image, and the digest or signature by which it is verified.

use std::path::Path;

use landfall_boot_params::digest::Digest;
use landfall_disk::image::write_image::ImageSource;
use landfall_download::fetch::{self, Request};
use landfall_download::proof::Proof;
use landfall_download::signature::built_in_keys;
use landfall_download::signature_file;
use landfall_report::failure::{Failure, Result};

use crate::Servers;
use crate::options::InstallOptions;
use crate::own_image::{FindOwnImage, OwnImage};
use crate::stream::{self, DEFAULT_STREAM};

/// The image for a disk with sectors of this size in bytes.
///
/// # Errors
/// If no image can be found. If there is neither a digest nor a signature of the image,
/// unless the options allow that. If the signature is bad.
pub(super) fn choose(
    options: &InstallOptions,
    sector: u32,
    servers: &Servers,
    own_image: FindOwnImage<'_>,
) -> Result<ImageSource> {
    let (urls, digest) = find(options, sector, servers, own_image)?;
    tracing::info!("image: {}", shown_all(&urls));
    let request = Request {
        retry_policy: options.retry_policy(),
        ..Request::new(urls)
    };
    let proof = match options.image_digest.clone().or(digest) {
        Some(digest) => Proof::Digest(digest),
        None => signature(&request, options, &servers.client)?,
    };
    Ok(ImageSource::new(request, proof))
}

/// The URLs of the image, and its digest if a trusted source gives it.
fn find(
    options: &InstallOptions,
    sector: u32,
    servers: &Servers,
    own_image: FindOwnImage<'_>,
) -> Result<(Vec<String>, Option<Digest>)> {
    if !options.image_url.is_empty() {
        return Ok((options.image_url.clone(), None));
    }
    if let Some(path) = &options.image_file {
        return Ok((vec![file_url(path)?], None));
    }
    if let Some(own) = of_medium(options, own_image)? {
        return Ok((vec![own.url], Some(own.digest)));
    }
    let name = options.stream.as_deref().unwrap_or(DEFAULT_STREAM);
    let found = stream::image(name, options, sector, &servers.client)?;
    let trusted = options.insecure || stream::is_proven(options, servers.verified);
    if !trusted && options.image_digest.is_none() {
        tracing::warn!(
            "stream {name}: its metadata came from a server whose identity is not verified, so the agent does not trust its digest and looks for a signature"
        );
    }
    Ok((vec![found.location], trusted.then_some(found.sha256)))
}

/// The image of the boot medium, unless the options name another image.
/// coreos-installer also uses the image of its medium by default.
fn of_medium(options: &InstallOptions, own_image: FindOwnImage<'_>) -> Result<Option<OwnImage>> {
    if !options.may_take_own_image() {
        return Ok(None);
    }
    match own_image(options.offline) {
        Ok(None) => {
            tracing::info!("no boot medium has an image, using the stream {DEFAULT_STREAM}");
            Ok(None)
        }
        Ok(own) => Ok(own),
        Err(Failure { details, .. }) if options.offline => {
            Err(Failure::invalid_image(format!("--offline: {details}")))
        }
        // Do not fall back to a stream here: it would install a different system from the
        // one on the medium.
        Err(Failure { details, .. }) => {
            Err(Failure::invalid_image(details).hint("name the image, or remove the other medium"))
        }
    }
}

/// Fetches the signature next to the image, from any of its URLs. If there is no
/// signature, the installation fails without `--insecure`. A file that is not in the
/// format of a signature counts as missing: many servers send a login page in place of a
/// missing file, and an attacker could remove the file as well. A bad signature fails
/// even with `--insecure`, because it shows that the image is not the signed one.
///
/// The remedies name both the options and the kernel arguments, because this function
/// does not know where the options come from.
fn signature(image: &Request, options: &InstallOptions, client: &reqwest::Client) -> Result<Proof> {
    let (failure, is_missing) = match signature_file::fetch(image, client, &built_in_keys()) {
        Ok(proof) => return Ok(proof),
        Err(none) => (none.failure, none.is_missing),
    };
    if is_missing && options.insecure {
        tracing::warn!("{}; continuing because of --insecure", failure.details);
        return Ok(Proof::Nothing);
    }
    Err(match is_missing {
        true => failure.hint(
            "give the image's digest (option --image-digest sha256:..., kernel argument landfall.coreos.inst.image_digest=sha256:...), or accept the image unverified (option --insecure, kernel argument coreos.inst.insecure)",
        ),
        false => failure.hint(
            "give the image's digest (option --image-digest sha256:..., kernel argument landfall.coreos.inst.image_digest=sha256:...)",
        ),
    })
}

fn shown_all(urls: &[String]) -> String {
    let shown: Vec<String> = urls.iter().map(|url| fetch::shown(url)).collect();
    shown.join(", else ")
}

/// The file URL of a local path.
fn file_url(path: &Path) -> Result<String> {
    let wrong = |reason: String| {
        Failure::invalid_params(format!("--image-file {}: {reason}", path.display()))
    };
    let absolute = path
        .canonicalize()
        .map_err(|error| wrong(error.to_string()))?;
    reqwest::Url::from_file_path(absolute)
        .map(String::from)
        .map_err(|()| wrong("expected the path of a file".to_owned()))
}

#[cfg(test)]
mod tests {
    use landfall_http_client::fixtures::{Reply, Server, http_client};

    use super::*;
    use crate::options::FetchRetries;

    fn servers(verified: bool) -> Servers {
        Servers {
            client: http_client(),
            verified,
        }
    }

    /// If a drive fails, the agent must not install the newest Fedora CoreOS
    /// instead of the image on the medium.
    #[test]
    fn a_medium_that_cannot_be_read_is_not_replaced_by_a_stream() {
        let options = InstallOptions::default();
        let unfit = |_| Err(Failure::other("two media bring different images"));
        let failure = choose(&options, 512, &servers(true), &unfit).unwrap_err();
        assert!(failure.details.contains("two media"), "{failure}");
    }

    /// Without TLS anybody on the network path could name any image and its digest.
    #[test]
    fn a_stream_without_tls_needs_a_signature_or_a_word() {
        const STREAM: &str = r#"{"architectures": {"x86_64": {"artifacts": {"metal": {
            "release": "1", "formats": {"raw.xz": {"disk": {
            "location": "http://127.0.0.1:1/m.raw.xz", "sha256": "SHA"}}}}}}}}"#;
        let text = STREAM.replace("SHA", &"0".repeat(64));
        let server = Server::of(text.as_bytes());
        let mut options = InstallOptions {
            stream: Some("stable".to_owned()),
            stream_base_url: Some(server.url.replace("/image.raw", "/")),
            architecture: Some("x86_64".to_owned()),
            fetch_retries: Some(FetchRetries::Times(0)),
            ..InstallOptions::default()
        };
        let none = |_| Ok(None);
        let failure = choose(&options, 512, &servers(true), &none).unwrap_err();
        assert!(failure.details.contains("no signature"), "{failure}");
        options.insecure = true;
        let chosen = choose(&options, 512, &servers(true), &none).unwrap();
        assert!(matches!(chosen.proof, Proof::Digest(_)));
    }

    const OTHER_KEY: &[u8] = include_bytes!("../../download/src/signature/test_data/other-key.sig");

    #[test]
    fn insecure_is_the_remedy_for_a_missing_signature_only() {
        for (server, may_be_insecure) in [
            (Server::start(|_| Reply::status(404)), true),
            (Server::of(b"not a signature"), true),
            (Server::of(b"<!DOCTYPE html>"), true),
            // A signature of another version, and one by another key.
            (Server::of(b"\x88\x01\x07"), false),
            (Server::of(OTHER_KEY), false),
        ] {
            let mut options = InstallOptions {
                image_url: vec![server.url.clone()],
                fetch_retries: Some(FetchRetries::Times(0)),
                ..InstallOptions::default()
            };
            let none = |_| Ok(None);
            let failure = choose(&options, 512, &servers(true), &none).unwrap_err();
            let hint = failure.hint.unwrap();
            for form in ["--image-digest", "landfall.coreos.inst.image_digest="] {
                assert!(hint.contains(form), "{hint}");
            }
            for form in ["--insecure", "coreos.inst.insecure"] {
                assert_eq!(hint.contains(form), may_be_insecure, "{hint}");
            }
            options.insecure = true;
            let chosen = choose(&options, 512, &servers(true), &none);
            assert_eq!(chosen.is_ok(), may_be_insecure);
        }
    }
}
