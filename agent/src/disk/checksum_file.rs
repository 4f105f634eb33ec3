//! A checksum that may be in a file beside the image, and finding the image's
//! line in it, in the forms that sha256sum writes: `<hash>  <name>`,
//! `<hash> *<name>`, `SHA256 (<name>) = <hash>`, or the hash alone.

use crate::disk::digest::{Algorithm, ExpectedDigest};
use crate::disk::fetch::{self, Request};
use crate::failure::{Class, Failure, Result};

/// A SHA256SUMS of a distribution's whole mirror directory is some 100 KiB.
const FILE_LIMIT: usize = 1 << 20;

/// A checksum, or where it is to be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChecksumSource {
    /// The algorithm; else the length of the checksum shows it.
    pub algorithm: Option<Algorithm>,
    /// Hexadecimal text, or the URL of a checksum file.
    pub text_or_url: String,
}

impl ChecksumSource {
    /// What to expect of the image at this URL; fetches the checksum file.
    ///
    /// # Errors
    /// If there is no such file, no line of the image in it, or no checksum.
    pub fn resolve(&self, image_url: &str, client: &reqwest::Client) -> Result<ExpectedDigest> {
        let given = &self.text_or_url;
        let hex = if given.contains("://") {
            &fetch_checksum(given, image_url, client)?
        } else {
            given
        };
        match self.algorithm {
            Some(algorithm) => ExpectedDigest::new(algorithm, hex),
            None => ExpectedDigest::from_text(hex),
        }
    }
}

fn fetch_checksum(url: &str, image_url: &str, client: &reqwest::Client) -> Result<String> {
    let request = Request::small(url);
    let unusable = |reason: String| {
        Failure::new(
            Class::ImageDownloadError,
            format!("{}: {reason}", fetch::shown(url)),
        )
    };
    let body = fetch::small_file(request, client.clone(), FILE_LIMIT)?;
    let body = String::from_utf8(body)
        .map_err(|_| unusable("expected a checksum file, found no text".to_owned()))?;
    find(&body, image_url).map(str::to_owned).map_err(unusable)
}

/// Hexadecimal digits of MD5, SHA-1, SHA-224, SHA-256, SHA-384 and SHA-512.
const LENGTHS: [usize; 6] = [32, 40, 56, 64, 96, 128];

/// The hash of the image that `image_url` names.
///
/// # Errors
/// If no line names it, or the line holds no hash.
pub(crate) fn find<'a>(text: &'a str, image_url: &str) -> std::result::Result<&'a str, String> {
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    if let [only] = lines[..]
        && !only.contains(char::is_whitespace)
    {
        return if is_hash(only) {
            Ok(only)
        } else {
            Err("expected one checksum, found no hexadecimal digits of a known length".to_owned())
        };
    }
    let name = file_name(image_url);
    lines
        .into_iter()
        .filter(|line| !line.starts_with('#'))
        .find(|line| names(line, name))
        .ok_or_else(|| format!("no line names {name:?}"))
        .and_then(|line| {
            let mut words = line.split_whitespace();
            let (first, last) = (words.next(), words.next_back());
            [first, last]
                .into_iter()
                .flatten()
                .find(|word| is_hash(word))
                .ok_or_else(|| format!("the line of {name:?} holds no checksum"))
        })
}

/// The last part of the URL's path.
fn file_name(url: &str) -> &str {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    path.rsplit('/').next().unwrap_or_default()
}

fn names(line: &str, name: &str) -> bool {
    if name.is_empty() {
        return false;
    }
    let at_end = line
        .strip_suffix(name)
        .is_some_and(|rest| rest.ends_with([' ', '\t', '*', '/']));
    at_end || line.contains(&format!(" ({name}) "))
}

fn is_hash(word: &str) -> bool {
    LENGTHS.contains(&word.len()) && word.bytes().all(|b| b.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::fixtures::{Reply, Server, http_client};

    const URL: &str = "http://host/path/image.raw.gz?token=1";

    fn hash(digit: char) -> String {
        digit.to_string().repeat(64)
    }

    #[test]
    fn a_text_is_taken_and_a_url_fetched() {
        let client = http_client();
        let resolve = |algorithm, text: &str| {
            let source = ChecksumSource {
                algorithm,
                text_or_url: text.to_owned(),
            };
            source.resolve(URL, &client)
        };
        let expected = ExpectedDigest::new(Algorithm::Sha256, &hash('a')).unwrap();
        assert_eq!(resolve(None, &hash('a')).unwrap(), expected);
        assert!(resolve(Some(Algorithm::Sha512), &hash('a')).is_err());
        let server = Server::start(|_| {
            let file = format!("{}  image.raw.gz\n", "a".repeat(64));
            Reply::whole(file.as_bytes(), "\"1\"")
        });
        assert_eq!(resolve(None, &server.url).unwrap(), expected);
        let server = Server::start(|_| Reply::whole(b"<html>no such file</html>", "\"1\""));
        let failure = resolve(None, &server.url).unwrap_err();
        assert_eq!(failure.class, Class::ImageDownloadError, "{failure}");
    }

    #[test]
    fn every_form_of_a_line() {
        let (a, b) = (hash('a'), hash('b'));
        for text in [
            a.clone(),
            format!("{a}\n"),
            format!("{a}  image.raw.gz\n"),
            format!("{a} *image.raw.gz\n"),
            format!("{a}  ./image.raw.gz\n"),
            format!("SHA256 (image.raw.gz) = {a}\n"),
            format!("# image.raw.gz {b}\n\n{b}  other.raw.gz\n{a}  image.raw.gz\n"),
            format!("{b}  old-image.raw.gz\n{a}  image.raw.gz\n"),
            format!("{a}  image.raw.gz\n{b}  image.raw.gz\n"),
        ] {
            assert_eq!(find(&text, URL), Ok(a.as_str()), "{text}");
        }
    }

    #[test]
    fn what_is_no_checksum_of_the_image() {
        for text in [
            "",
            "deadbeef",
            "<html>",
            "image.raw.gz",
            "nothing image.raw.gz",
            "x (image.raw.gz) = y",
            &format!("{}  other.raw.gz", hash('a')),
            &format!("{}  xximage.raw.gz", hash('a')),
        ] {
            assert!(find(text, URL).is_err(), "{text}");
        }
        assert!(find(&format!("{}  x", hash('a')), "http://host/").is_err());
    }
}
