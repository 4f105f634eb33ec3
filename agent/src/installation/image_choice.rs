//! Which image is meant, and by what it is known to be the right one.

use std::path::Path;

use crate::disk::fetch::{self, Request};
use crate::disk::format_policy::FormatPolicy;
use crate::disk::proof::Proof;
use crate::disk::signature::built_in_keys;
use crate::disk::signature_file;
use crate::disk::write_image::ImageSource;
use crate::failure::{Class, Failure, Result};
use crate::installation::options::InstallOptions;
use crate::installation::prepare::operator;
use crate::installation::stream;

/// The stream that is meant where nothing is said.
const DEFAULT_STREAM: &str = "stable";

/// The image for a disk with sectors of this size.
///
/// # Errors
/// If there is none, or nothing that proves it.
pub(super) fn choose(
    options: &InstallOptions,
    sector: u32,
    client: &reqwest::Client,
) -> Result<ImageSource> {
    let (urls, of_metadata) = if !options.image_url.is_empty() {
        (options.image_url.clone(), None)
    } else if let Some(path) = &options.image_file {
        (vec![file_url(path)?], None)
    } else if options.offline {
        return Err(Failure::new(
            Class::InvalidImage,
            "--offline: this boot medium has no image",
        ));
    } else {
        let name = options.stream.as_deref().unwrap_or(DEFAULT_STREAM);
        let found = stream::image(name, options, sector, client)?;
        (vec![found.location], Some(found.sha256))
    };
    let digest = options.image_digest.clone().or(of_metadata);
    tracing::info!("image: {}", shown_all(&urls));
    let proof = match digest {
        Some(digest) => Proof::Digest(digest),
        None => signature(&urls, options, client)?,
    };
    Ok(ImageSource {
        proof,
        urls,
        authorization: None,
        patience: options.patience(),
        formats: FormatPolicy::default(),
    })
}

/// The signature beside the image, wherever it has one. Without it only the
/// operator's word counts; a signature that is there and not good is worse than
/// none.
fn signature(urls: &[String], options: &InstallOptions, client: &reqwest::Client) -> Result<Proof> {
    let keys = built_in_keys();
    let mut missing = None;
    for url in urls {
        let image = Request {
            patience: options.patience(),
            ..Request::small(url.clone())
        };
        match signature_file::fetch(&image, client, &keys) {
            Err(failure) if failure.class == Class::ImageChecksumError => return Err(failure),
            Err(failure) => missing = Some(failure),
            Ok(proof) => return Ok(proof),
        }
    }
    match missing {
        Some(missing) if options.insecure => {
            tracing::warn!("{}; going on, as --insecure asks", missing.details);
            Ok(Proof::Nothing)
        }
        Some(missing) => Err(missing.hint(
            "give the image's digest (--image-digest sha256:...), or accept it without proof (--insecure)",
        )),
        None => Ok(Proof::Nothing),
    }
}

fn shown_all(urls: &[String]) -> String {
    let shown: Vec<String> = urls.iter().map(|url| fetch::shown(url)).collect();
    shown.join(", else ")
}

/// A URL of a file of this machine.
fn file_url(path: &Path) -> Result<String> {
    let wrong = |reason: String| operator(format!("--image-file {}: {reason}", path.display()));
    let absolute = path
        .canonicalize()
        .map_err(|error| wrong(error.to_string()))?;
    reqwest::Url::from_file_path(absolute)
        .map(String::from)
        .map_err(|()| wrong("expected the path of a file".to_owned()))
}
