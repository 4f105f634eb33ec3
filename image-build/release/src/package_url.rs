//! Package URLs (purl), which name a package in an SBOM.

use std::fmt::Display;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'.')
    .remove(b'-')
    .remove(b'_')
    .remove(b'~');

/// A crate from crates.io.
#[must_use]
pub fn of_crate(name: &str, version: &str) -> String {
    format!("pkg:cargo/{}@{}", encoded(name), encoded(version))
}

/// A binary package of Debian.
#[must_use]
pub fn of_debian_package(name: &str, version: &str, architecture: &str) -> String {
    format!(
        "pkg:deb/debian/{}@{}?arch={}",
        encoded(name),
        encoded(version),
        encoded(architecture)
    )
}

/// Percent-encodes all but letters, digits and `.-_~`, as the purl specification
/// requires.
fn encoded(text: &str) -> impl Display + '_ {
    utf8_percent_encode(text, ENCODED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        assert_eq!(
            of_crate("serde_json", "1.0.154"),
            "pkg:cargo/serde_json@1.0.154"
        );
        for (version, expected) in [
            ("1:1.2+b1", "1%3A1.2%2Bb1"),
            ("6.1.192-2", "6.1.192-2"),
            ("2.06-13+deb12u1~x", "2.06-13%2Bdeb12u1~x"),
        ] {
            assert_eq!(
                of_debian_package("grub-common", version, "amd64"),
                format!("pkg:deb/debian/grub-common@{expected}?arch=amd64")
            );
        }
        assert_eq!(
            of_debian_package("libstdc++6", "12", "amd64"),
            "pkg:deb/debian/libstdc%2B%2B6@12?arch=amd64"
        );
    }
}
