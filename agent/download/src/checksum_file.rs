//! Finds the expected digest of an image whose checksum is given as the URL of a checksum
//! file.
//!
//! This module finds the image's line in such a file. A line may have one of the forms
//! that sha256sum writes (`<hash>  <name>`, `<hash> *<name>`,
//! `SHA256 (<name>) = <hash>`) or the form of `openssl dgst`
//! (`SHA256(<name>)= <hash>`). The file may also hold only the hash.

use std::fmt;

use landfall_boot_params::Checksum;
use landfall_boot_params::digest::{Digest, is_digest};
use landfall_report::failure::{Failure, Result};

use crate::fetch::{self, Request};

/// The size limit of a checksum file in bytes. The SHA256SUMS file for a distribution's
/// whole mirror directory has about 100 KiB.
const FILE_LIMIT: usize = 1 << 20;

/// Returns the expected digest of the image that `image` requests. If the checksum is a
/// URL, this function downloads the checksum file, with the image's time limits and
/// retries. It sends the image's credentials only to a server that also has the image.
///
/// # Errors
/// If the checksum file cannot be downloaded, or if it has no digest of the image or a
/// digest of the wrong length.
pub fn resolve(checksum: &Checksum, image: &Request, client: &reqwest::Client) -> Result<Digest> {
    let (url, algorithm) = match checksum {
        Checksum::Digest(digest) => return Ok(digest.clone()),
        Checksum::File { url, algorithm } => (url, *algorithm),
    };
    let is_theirs = image.urls.iter().any(|image| same_server(image, url));
    let request = Request {
        authorization: image.authorization.clone().filter(|_| is_theirs),
        retry_policy: image.retry_policy.clone(),
        ..Request::new([url])
    };
    let image_url = image.urls.first().map_or("", String::as_str);
    let hex = fetch_checksum(request, image_url, client)?;
    Digest::new(algorithm, &hex).map_err(|fault| Failure::invalid_params(fault.to_string()))
}

/// Whether both URLs have the same origin. The credentials of one server must not reach
/// another server.
fn same_server(one: &str, other: &str) -> bool {
    match (reqwest::Url::parse(one), reqwest::Url::parse(other)) {
        (Ok(one), Ok(other)) => one.origin() == other.origin(),
        _ => false,
    }
}

/// Why a checksum file has no digest of the image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChecksumFileError {
    #[error("expected one checksum, found no hexadecimal digits of a known length")]
    NoDigest,
    /// Holds the name of the image.
    #[error("no line for the file {0:?}")]
    NoLine(String),
    #[error("the line for {0:?} has no checksum")]
    NoDigestInLine(String),
}

fn fetch_checksum(request: Request, image_url: &str, client: &reqwest::Client) -> Result<String> {
    let shown = fetch::shown(request.urls.first().map_or("", String::as_str));
    let unusable =
        |reason: &dyn fmt::Display| Failure::image_download(format!("{shown}: {reason}"));
    let body = fetch::small_file(request, client.clone(), FILE_LIMIT)?;
    let body = String::from_utf8(body)
        .map_err(|_| unusable(&"expected a checksum file, found no text"))?;
    let found = find(&body, image_url).map(str::to_owned);
    found.map_err(|error| unusable(&error))
}

/// Finds the hash of the image that `image_url` names.
///
/// # Errors
/// If no line names the image, if the line contains no hash, or if the file is a single
/// word that is not a hash.
pub fn find<'a>(text: &'a str, image_url: &str) -> std::result::Result<&'a str, ChecksumFileError> {
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    if let [only] = lines[..]
        && !only.contains(char::is_whitespace)
    {
        return if is_digest(only) {
            Ok(only)
        } else {
            Err(ChecksumFileError::NoDigest)
        };
    }
    let name = file_name(image_url);
    let listed = || lines.iter().filter(|line| !line.starts_with('#'));
    listed()
        .find(|line| names(line, |text| !name.is_empty() && text == name))
        .or_else(|| listed().find(|line| names(line, |text| fits(text, name))))
        .ok_or_else(|| ChecksumFileError::NoLine(name.to_owned()))
        .and_then(|line| {
            let mut words = line.split_whitespace();
            let (first, last) = (words.next(), words.next_back());
            [first, last]
                .into_iter()
                .flatten()
                .find(|word| is_digest(word))
                .ok_or_else(|| ChecksumFileError::NoDigestInLine(name.to_owned()))
        })
}

/// The last part of the URL's path.
fn file_name(url: &str) -> &str {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    path.rsplit('/').next().unwrap_or_default()
}

/// Whether the line names a file whose name without directories passes `is_it`.
fn names(line: &str, is_it: impl Fn(&str) -> bool) -> bool {
    let base = |text: &str| is_it(text.rsplit('/').next().unwrap_or(text));
    let at_end = line
        .split_once([' ', '\t'])
        .is_some_and(|(_, rest)| base(rest.trim_start().trim_start_matches('*')));
    let in_brackets = line
        .split_once('(')
        .and_then(|(_, rest)| rest.rsplit_once(')'))
        .is_some_and(|(text, rest)| base(text) && rest.trim_start().starts_with('='));
    at_end || in_brackets
}

/// Compares a file name in the same way as ironic-python-agent, which uses `name` as a
/// regular expression: a dot in `name` matches any character. Some mirrors rely on this
/// and write `image-raw.gz` for `image.raw.gz`.
fn fits(text: &str, name: &str) -> bool {
    let same = |(a, b): (char, char)| a == b || b == '.';
    !name.is_empty()
        && text.chars().count() == name.chars().count()
        && text.chars().zip(name.chars()).all(same)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use landfall_report::failure::Class;

    use super::*;
    use landfall_http_client::fixtures::{Reply, Server, http_client};

    const URL: &str = "http://host/path/image.raw.gz?token=1";

    fn hash(digit: char) -> String {
        digit.to_string().repeat(64)
    }

    #[test]
    fn a_digest_is_taken_and_a_url_fetched() {
        let client = http_client();
        let resolve = |text: &str| {
            let checksum = Checksum::parse(text).unwrap();
            resolve(&checksum, &Request::new([URL]), &client)
        };
        let expected = Digest::new(None, &hash('a')).unwrap();
        assert_eq!(resolve(&hash('a')).unwrap(), expected);
        let server = Server::of(format!("{}  image.raw.gz\n", hash('a')).as_bytes());
        assert_eq!(resolve(&server.url).unwrap(), expected);
        let failure = resolve(&format!("sha512:{}", server.url)).unwrap_err();
        assert!(failure.details.contains("expected 128"), "{failure}");
        let server = Server::of(b"<html>no such file</html>");
        let failure = resolve(&server.url).unwrap_err();
        assert_eq!(failure.class, Class::ImageDownloadError, "{failure}");
    }

    #[test]
    fn the_limits_of_the_image_apply_to_its_checksum_file() {
        let server = Server::start(|asked| match asked.earlier {
            0 => Reply::status(503),
            _ => Reply::new(200, hash('a')),
        });
        let mut image = Request::new([URL]);
        image.retry_policy.give_up = Duration::ZERO;
        let checksum = Checksum::parse(&server.url).unwrap();
        let failure = resolve(&checksum, &image, &http_client()).unwrap_err();
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
            format!("SHA256 (./image.raw.gz) = {a}\r\n"),
            format!("SHA2-256(image.raw.gz)= {a}\n"),
            format!("{a}\timage.raw.gz\n"),
            format!("{b}  my image.raw.gz\n{a}  path/to/image.raw.gz\n"),
            format!("{b}  image-raw-gz\n{a}  image.raw.gz\n"),
            format!("{b}  other.raw.gz\n{a}  image-raw-gz\n"),
            format!("# image.raw.gz {b}\n\n{b}  other.raw.gz\n{a}  image.raw.gz\n"),
            format!("{b}  old-image.raw.gz\n{a}  image.raw.gz\n"),
            format!("{a}  image.raw.gz\n{b}  image.raw.gz\n"),
        ] {
            assert_eq!(find(&text, URL), Ok(a.as_str()), "{text}");
        }
    }

    #[test]
    fn a_file_without_a_checksum_of_the_image_is_rejected() {
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
