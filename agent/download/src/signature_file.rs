//! Downloads the signature of an image. The URL of the signature is the URL of the image
//! with `.sig` appended to the path, as in coreos-installer.

use landfall_report::failure::{Class, Failure, Result};
use reqwest::Url;

use crate::fetch::{Request, shown, small_file_with_place};
use crate::proof::Proof;
use crate::signature::{
    ImageSignature, SIGNATURE_FILE_LIMIT, SigningKey, begins_as_openpgp, is_armored,
};
use crate::web_page::is_web_page;

/// Why no signature proves an image.
#[derive(Debug)]
pub struct NoSignature {
    pub failure: Failure,
    /// Whether there is no signature file: the server does not deliver the file, or it
    /// delivers something else, such as a login page. False if there is a signature that
    /// cannot be used, for example because its key is unknown, and if the download
    /// exceeded its time limit or a URL is invalid.
    pub is_missing: bool,
}

impl NoSignature {
    /// The download worked, but the file proves nothing.
    fn in_file(is_missing: bool, details: String) -> Self {
        let failure = Failure::new(Class::ImageChecksumError, details);
        Self {
            failure: failure.hint("give the digest of the image instead"),
            is_missing,
        }
    }
}

impl From<Failure> for NoSignature {
    /// If the URL is unusable, it is unknown whether there is a signature, so this does
    /// not count as a missing signature.
    fn from(failure: Failure) -> Self {
        Self {
            failure,
            is_missing: false,
        }
    }
}

/// Downloads the signature of the image that `image` requests.
///
/// # Errors
/// If a URL of the image is invalid, if the signature cannot be downloaded, or if no
/// supported signature names one of these keys.
pub fn fetch(
    image: &Request,
    client: &reqwest::Client,
    keys: &[SigningKey],
) -> std::result::Result<Proof, NoSignature> {
    let urls: Vec<String> = image
        .urls
        .iter()
        .map(|url| signature_url(url))
        .collect::<Result<_>>()?;
    let request = Request {
        urls,
        ..image.clone()
    };
    let fetched = small_file_with_place(request, client.clone(), SIGNATURE_FILE_LIMIT);
    let (place, file) = fetched.map_err(|failure| NoSignature {
        is_missing: failure.class == Class::ImageDownloadError,
        failure: Failure {
            details: format!("no signature: {}", failure.details),
            ..failure
        }
        .hint("give the digest of the image instead, or allow an unverified image"),
    })?;
    let place = place.shown_with_redirect();
    let found = match file.is_empty() {
        true => Some("an empty file"),
        // If the file contains an armored signature, verify it, even if other text
        // precedes it.
        false if is_armored(&file) => None,
        false if is_web_page(&file) => Some("a web page"),
        false if !begins_as_openpgp(&file) => Some("something else"),
        false => None,
    };
    if let Some(found) = found {
        let details = format!("no signature: {place}: expected OpenPGP data, found {found}");
        return Err(NoSignature::in_file(true, details));
    }
    let signature = ImageSignature::by_known_key(&file, keys)
        .map_err(|fault| NoSignature::in_file(false, format!("{place}: {fault}")))?;
    tracing::info!("{place}: by key {}", signature.key());
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
    use landfall_http_client::fixtures::{Reply, Server, http_client};

    use super::*;
    use crate::signature::built_in_keys;

    fn none(server: &Server) -> NoSignature {
        let request = Request::new([&server.url]);
        fetch(&request, &http_client(), &built_in_keys()).unwrap_err()
    }

    #[test]
    fn data_other_than_openpgp_counts_as_a_missing_signature() {
        for (file, is_missing, expected) in [
            (&b""[..], true, "expected OpenPGP data, found an empty file"),
            (b"<!DOCTYPE html>", true, "found a web page"),
            (b"\xef\xbb\xbf<!DOCTYPE html>", true, "found a web page"),
            (b"\xff\xfe<\0h\0t\0m\0l\0>\0", true, "found a web page"),
            (b"not found", true, "found something else"),
            (
                b"\n-----BEGIN PGP SIGNATURE-----\n\niAH/\n-----END PGP SIGNATURE-----\n",
                false,
                "version 3 or 4, found 255",
            ),
            (
                b"<html>\n-----BEGIN PGP SIGNATURE-----\n\niAH/\n",
                false,
                "the armor has no end",
            ),
            (b"\x88\x01\x07", false, "version 3 or 4, found 7"),
            (b"\x88\xff", false, "cut off"),
            (
                include_bytes!("signature/test_data/other-key.sig"),
                false,
                "it is signed by key",
            ),
        ] {
            let none = none(&Server::of(file));
            assert_eq!(none.is_missing, is_missing, "{none:?}");
            assert!(none.failure.details.contains(expected), "{none:?}");
            // Not the class of a download error, because a retry would get the same file.
            assert_eq!(none.failure.class, Class::ImageChecksumError);
        }
        let none = none(&Server::start(|_| Reply::status(404)));
        assert!(none.is_missing, "{none:?}");
        assert_eq!(none.failure.class, Class::ImageDownloadError);
    }

    #[test]
    fn a_long_login_page_is_a_missing_signature_for_good() {
        let mut page = b"<!DOCTYPE html>".to_vec();
        page.resize(SIGNATURE_FILE_LIMIT + 1, b' ');
        let none = none(&Server::of(&page));
        assert!(none.is_missing && none.failure.permanent, "{none:?}");
        let expected = "expected at most 65536 bytes, found a web page";
        assert!(none.failure.details.ends_with(expected), "{none:?}");
    }

    #[test]
    fn a_login_page_in_place_of_a_signature_is_called_by_its_url() {
        let server = Server::start(|asked| match asked.path.as_str() {
            "/image.raw.sig" => Reply::status(302).header("Location: /login?next=hidden"),
            _ => Reply::new(200, "<html>"),
        });
        let (url, base) = (&server.url, &server.base);
        let expected = format!(
            "no signature: {url}.sig, redirected to {base}/login?***: expected OpenPGP data, found a web page"
        );
        assert_eq!(none(&server).failure.details, expected);
    }

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
