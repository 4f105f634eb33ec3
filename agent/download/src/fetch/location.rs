//! Parses the URL of an image: its scheme says where the file is.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use percent_encoding::{
    AsciiSet, CONTROLS, percent_decode_str, percent_encode, utf8_percent_encode,
};

/// The characters that must be percent-encoded in a path, because they have another
/// meaning in a URL. Names of devices and files may contain them, for example udev's
/// names in `/dev/disk/by-label`.
const ENCODED: &AsciiSet = &CONTROLS.add(b' ').add(b'#').add(b'%').add(b'?');

/// Where a file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Location {
    /// `http://` or `https://`: on a server.
    Server,
    /// `file:///path`: a regular file of this machine.
    File(PathBuf),
    /// `medium:///dev/sr0#path`: a file in the ISO 9660 image on this device,
    /// which is read without a mount.
    Medium {
        device: PathBuf,
        /// Path of the file in the ISO 9660 image.
        path: String,
    },
}

/// Why a URL names no file. The text does not contain the URL, which may hold a
/// password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum LocationError {
    #[error("expected a URL with http:, https: or file:, found no scheme")]
    NoScheme,
    #[error("expected http:, https: or file:, found {0}:")]
    Scheme(String),
    #[error("expected medium:///DEVICE#PATH, found no path")]
    NoPathOnMedium,
    #[error("expected file:/// and an absolute path")]
    NotAbsolute,
    #[error("expected a path in UTF-8")]
    NotUtf8,
}

impl Location {
    /// # Errors
    /// If the URL is invalid.
    pub(super) fn parse(url: &str) -> Result<Self, LocationError> {
        let (scheme, rest) = url.split_once(':').ok_or(LocationError::NoScheme)?;
        match scheme.to_ascii_lowercase().as_str() {
            "http" | "https" => Ok(Self::Server),
            "file" => Ok(Self::File(local_path(rest)?)),
            "medium" => {
                let (device, path) = rest.split_once('#').ok_or(LocationError::NoPathOnMedium)?;
                Ok(Self::Medium {
                    device: local_path(device)?,
                    path: decoded(path)?.trim_start_matches('/').to_owned(),
                })
            }
            other => Err(LocationError::Scheme(other.to_owned())),
        }
    }
}

/// The URL of a file on a medium, for [`Location::Medium`].
pub fn medium_url(device: &Path, path: &str) -> String {
    let device = percent_encode(device.as_os_str().as_bytes(), ENCODED);
    format!("medium://{device}#{}", utf8_percent_encode(path, ENCODED))
}

/// The devices that the `medium:` URLs among these URLs name.
pub fn media_of(urls: &[String]) -> impl Iterator<Item = PathBuf> {
    urls.iter().filter_map(|url| match Location::parse(url) {
        Ok(Location::Medium { device, .. }) => Some(device),
        Ok(Location::Server | Location::File(_)) | Err(_) => None,
    })
}

/// RFC 8089: `file:///path`, `file://localhost/path` and `file:/path`.
fn local_path(rest: &str) -> Result<PathBuf, LocationError> {
    let path = match rest.strip_prefix("//") {
        Some(rest) => rest.strip_prefix("localhost").unwrap_or(rest),
        None => rest,
    };
    if !path.starts_with('/') {
        return Err(LocationError::NotAbsolute);
    }
    Ok(decoded(path)?.into())
}

fn decoded(text: &str) -> Result<String, LocationError> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded
        .map(std::borrow::Cow::into_owned)
        .map_err(|_| LocationError::NotUtf8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_decides() {
        let file = |path: &str| Ok(Location::File(path.into()));
        for (url, expected) in [
            ("http://host/i", Ok(Location::Server)),
            ("HTTPS://host/i", Ok(Location::Server)),
            ("file:///run/i.raw", file("/run/i.raw")),
            ("file://localhost/run/i.raw", file("/run/i.raw")),
            ("file:/run/i.raw", file("/run/i.raw")),
            ("file:///run/a%20b%23.raw", file("/run/a b#.raw")),
            (
                "medium:///dev/sr0#/landfall/i.raw",
                Ok(Location::Medium {
                    device: "/dev/sr0".into(),
                    path: "landfall/i.raw".into(),
                }),
            ),
        ] {
            assert_eq!(Location::parse(url), expected, "{url}");
        }
    }

    #[test]
    fn an_invalid_url_is_reported_with_the_reason() {
        for (url, part) in [
            ("", "no scheme"),
            ("/run/i.raw", "no scheme"),
            ("file://host/i.raw", "absolute path"),
            ("file:i.raw", "absolute path"),
            ("file:///%ff", "UTF-8"),
            ("medium:///dev/sr0", "no path"),
            ("ftp://host/i", "found ftp:"),
            ("oci://host/i", "found oci:"),
        ] {
            let reason = Location::parse(url).unwrap_err().to_string();
            assert!(reason.contains(part), "{url}: {reason}");
        }
    }

    #[test]
    fn only_files_on_media_have_a_medium() {
        let urls = [
            "http://h/i",
            "file:///i",
            "medium:///dev/sd%62#i",
            "medium:///dev/x",
        ];
        let media: Vec<PathBuf> = media_of(&urls.map(str::to_owned)).collect();
        assert_eq!(media, [PathBuf::from("/dev/sdb")]);
    }

    #[test]
    fn a_medium_is_found_again_by_its_url() {
        for (device, path) in [
            ("/dev/sr0", "landfall/coreos.raw.gz"),
            ("/dev/disk/by-label/a\\x20%41#b", "a%20 #b/n\u{f6}?.raw"),
        ] {
            let url = medium_url(device.as_ref(), path);
            let expected = Location::Medium {
                device: device.into(),
                path: path.into(),
            };
            assert_eq!(Location::parse(&url), Ok(expected), "{url}");
        }
        let plain = medium_url("/dev/sr0".as_ref(), "landfall/coreos.raw.gz");
        assert_eq!(plain, "medium:///dev/sr0#landfall/coreos.raw.gz");
    }
}
