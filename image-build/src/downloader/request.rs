//! The settings in the environment of the container.

use std::ffi::OsString;
use std::path::PathBuf;

/// Variables of the downloader that say what to download, and how. They have no
/// effect here.
const IGNORED: [&str; 17] = [
    "IPA_BASEURI",
    "IPA_BRANCH",
    "IPA_FLAVOR",
    "IPA_FILENAME",
    "EXTENSIONS",
    "CACHEURL",
    "CURL_VERBOSE",
    "CURL_INSECURE",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "IPA_HTTP_PROXY",
    "IPA_HTTPS_PROXY",
    "IPA_NO_PROXY",
];
/// The names of the image's architecture: the kernel's and Debian's.
const ARCHITECTURES: [&str; 2] = ["x86_64", "amd64"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    /// The volume whose directory `html` Ironic's web server serves.
    pub(super) shared: PathBuf,
    /// The text between the name of a link and its ending: `_x86_64`, or nothing. If
    /// any link has this suffix, ironic-image names the files by architecture, and its
    /// iPXE over TLS does not serve files with such names. So these links are made only
    /// on request.
    pub(super) suffix: String,
    /// The names of variables that are set and have no effect.
    pub(super) ignored: Vec<&'static str>,
}

/// The container has files for one architecture only. Use the image for the other
/// architecture.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("IPA_ARCH: expected {}, the architecture of this image, found `{found}`", ARCHITECTURES.join(" or "))]
pub(super) struct OtherArchitecture {
    found: String,
}

impl Request {
    pub(super) fn read(
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, OtherArchitecture> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let architecture = set("IPA_ARCH").unwrap_or_default();
        let architecture = architecture.to_string_lossy();
        let suffix = match &*architecture {
            "" => String::new(),
            known if ARCHITECTURES.contains(&known) => format!("_{known}"),
            other => {
                return Err(OtherArchitecture {
                    found: other.escape_debug().to_string(),
                });
            }
        };
        Ok(Self {
            shared: set("SHARED_DIR").unwrap_or("/shared".into()).into(),
            suffix,
            ignored: IGNORED
                .into_iter()
                .filter(|name| set(name).is_some())
                .collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        for (variables, expected) in [
            (&[][..], Ok(("/shared", "", &[][..]))),
            (
                &[("SHARED_DIR", "/x"), ("IPA_ARCH", "")],
                Ok(("/x", "", &[])),
            ),
            (&[("IPA_ARCH", "x86_64")], Ok(("/shared", "_x86_64", &[]))),
            (&[("IPA_ARCH", "amd64")], Ok(("/shared", "_amd64", &[]))),
            (
                &[
                    ("IPA_BASEURI", "http://a"),
                    ("NO_PROXY", ""),
                    ("HTTP_PORT", "1"),
                ],
                Ok(("/shared", "", &["IPA_BASEURI"])),
            ),
            (
                &[("IPA_ARCH", "aarch64")],
                Err(
                    "IPA_ARCH: expected x86_64 or amd64, the architecture of this image, found `aarch64`",
                ),
            ),
            (
                &[("IPA_ARCH", "x/../../y\n")],
                Err(
                    "IPA_ARCH: expected x86_64 or amd64, the architecture of this image, found `x/../../y\\n`",
                ),
            ),
        ] {
            let request = Request::read(|name| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| value.into())
            });
            let expected = match expected {
                Ok((shared, suffix, ignored)) => Ok(Request {
                    shared: shared.into(),
                    suffix: suffix.to_owned(),
                    ignored: ignored.to_vec(),
                }),
                Err(text) => Err(text.to_owned()),
            };
            assert_eq!(request.map_err(|error| error.to_string()), expected);
        }
    }
}
