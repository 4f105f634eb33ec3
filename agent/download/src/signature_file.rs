//! Downloads the signature of an image. Its URL is that of the image with `.sig`
//! appended to the path, which is where coreos-installer looks for it, too.

use landfall_report::failure::{Class, Failure, Result};
use reqwest::Url;

use crate::fetch::{Request, shown, small_file};
use crate::proof::Proof;
use crate::signature::{ImageSignature, SIGNATURE_FILE_LIMIT, SigningKey};

/// Downloads the signature of the image that `image` requests.
///
/// # Errors
/// If there is no signature, or none by one of these keys.
pub fn fetch(image: &Request, client: &reqwest::Client, keys: &[SigningKey]) -> Result<Proof> {
    let urls: Vec<String> = image
        .urls
        .iter()
        .map(|url| signature_url(url))
        .collect::<Result<_>>()?;
    let url = urls.first().cloned().unwrap_or_default();
    let request = Request {
        urls,
        ..image.clone()
    };
    let file = small_file(request, client.clone(), SIGNATURE_FILE_LIMIT).map_err(|failure| {
        Failure {
            details: format!("no signature: {}", failure.details),
            ..failure
        }
        .hint("give the digest of the image instead, or allow an unverified image")
    })?;
    let signature = ImageSignature::by_known_key(&file, keys).map_err(|fault| {
        Failure::new(
            Class::ImageChecksumError,
            format!("{}: {fault}", shown(&url)),
        )
        .hint("give the digest of the image instead")
    })?;
    tracing::info!("{}: by key {}", shown(&url), signature.key());
    Ok(Proof::Signature(Box::new(signature)))
}

fn signature_url(image: &str) -> Result<String> {
    let mut url = Url::parse(image).map_err(|error| {
        Failure::invalid_params(format!("{}: expected a URL: {error}", shown(image)))
    })?;
    match url.fragment() {
        // `medium:///DEVICE#PATH`, see `fetch::medium_url`.
        Some(path) if url.scheme() == "medium" => {
            let path = format!("{path}.sig");
            url.set_fragment(Some(&path));
        }
        _ => url.set_path(&format!("{}.sig", url.path())),
    }
    Ok(url.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_next_to_the_image() {
        let signature_url = |url| signature_url(url).unwrap();
        assert_eq!(
            signature_url("http://h/a/i.raw.xz"),
            "http://h/a/i.raw.xz.sig"
        );
        assert_eq!(
            signature_url("https://h/i.gz?a=b#c"),
            "https://h/i.gz.sig?a=b#c"
        );
        assert_eq!(signature_url("file:///i.raw"), "file:///i.raw.sig");
        assert!(super::signature_url("i.raw").is_err());
        assert_eq!(
            signature_url("medium:///dev/sr0#landfall/a%20b.raw"),
            "medium:///dev/sr0#landfall/a%20b.raw.sig"
        );
    }

    #[test]
    fn a_password_is_not_shown() {
        let failure = signature_url("http://user:secret@host:99999/i").unwrap_err();
        assert!(!failure.details.contains("secret"), "{failure}");
    }
}
