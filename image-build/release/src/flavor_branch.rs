//! The names under which the ramdisk of the Ironic Python Agent is published.

use std::fmt;
use std::str::FromStr;

/// A name such as `centos9-master` or `debian-stable-2026.1`: metal3's
/// `IPA_FLAVOR` and `IPA_BRANCH`, Bifrost's `ipa_download_distro` and
/// `ipa_upstream_release`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlavorBranch(String);

/// The name of the release does not have the form that Ironic's builds use for their
/// file names. Give another name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "name `{0}`: expected FLAVOR-BRANCH of letters, digits, `.`, `_` and `-`, such as centos9-master or debian-stable-2026.1"
)]
pub struct BadName(String);

impl FromStr for FlavorBranch {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        let is_good = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let parts = text.split_once('-');
        let both = parts.is_some_and(|(flavor, branch)| !flavor.is_empty() && !branch.is_empty());
        // The longest file name of a file system is 255 bytes, and the name gets a
        // beginning and an ending.
        if both && text.len() <= 200 && !text.starts_with('.') && text.chars().all(is_good) {
            return Ok(Self(text.to_owned()));
        }
        Err(BadName(text.to_owned()))
    }
}

impl fmt::Display for FlavorBranch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FlavorBranch {
    /// The common start of the file names: `ipa-centos9-master`.
    #[must_use]
    pub fn stem(&self) -> String {
        format!("ipa-{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        for (text, good) in [
            ("centos9-master", true),
            ("debian-stable-2026.1", true),
            ("landfall-0.1.0", true),
            ("master", false),
            ("-master", false),
            ("debian-", false),
            ("debian-stable/2026.1", false),
            ("../x-y", false),
            (".a-b", false),
            ("a b-c", false),
            ("", false),
        ] {
            assert_eq!(text.parse::<FlavorBranch>().is_ok(), good, "{text}");
        }
        let name: FlavorBranch = "centos9-master".parse().unwrap();
        assert_eq!(name.stem(), "ipa-centos9-master");
    }
}
