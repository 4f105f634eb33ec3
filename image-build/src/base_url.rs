//! The URL from which a network boot fetches kernel and ramdisk.

use std::str::FromStr;

/// `http://host[:port][/directory]` or the same with `https`, only with characters that
/// GRUB and iPXE scripts do not interpret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BaseUrl {
    scheme: Scheme,
    /// The host and the port. An IPv6 address is in brackets.
    authority: String,
    /// Begins and ends with a slash.
    directory: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Http,
    Https,
}

/// The address under which hosts fetch the files is no URL that firmware and GRUB can
/// use. Correct it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("base URL `{0}`: expected http://HOST[:PORT][/DIRECTORY] or https://...")]
pub(crate) struct BadUrl(String);

impl FromStr for BaseUrl {
    type Err = BadUrl;

    fn from_str(text: &str) -> Result<Self, BadUrl> {
        let bad = || BadUrl(text.escape_default().to_string());
        let (scheme, rest) = if let Some(rest) = text.strip_prefix("http://") {
            (Scheme::Http, rest)
        } else {
            (
                Scheme::Https,
                text.strip_prefix("https://").ok_or_else(bad)?,
            )
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || "-._~:/[]%".contains(c);
        let (authority, directory) = rest.split_once('/').unwrap_or((rest, ""));
        if authority.is_empty()
            || !rest.chars().all(plain)
            || directory.split('/').any(|part| part == "..")
        {
            return Err(bad());
        }
        let directory = directory.trim_matches('/');
        let directory = if directory.is_empty() {
            "/".to_owned()
        } else {
            format!("/{directory}/")
        };
        Ok(Self {
            scheme,
            authority: authority.to_owned(),
            directory,
        })
    }
}

impl BaseUrl {
    /// The whole URL, with a slash at the end.
    pub(crate) fn as_url(&self) -> String {
        let scheme = match self.scheme {
            Scheme::Http => "http",
            Scheme::Https => "https",
        };
        format!("{scheme}://{}{}", self.authority, self.directory)
    }

    /// The directory in GRUB's notation, with a slash at the end. `None` for https,
    /// which GRUB does not support.
    pub(crate) fn as_grub_path(&self) -> Option<String> {
        (self.scheme == Scheme::Http)
            .then(|| format!("(http,{}){}", self.authority, self.directory))
    }

    /// Whether the host is an IPv6 address. It is in brackets then.
    pub(crate) fn is_ipv6(&self) -> bool {
        self.authority.starts_with('[')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        for (text, url, grub) in [
            (
                "http://192.0.2.1",
                "http://192.0.2.1/",
                Some("(http,192.0.2.1)/"),
            ),
            (
                "http://boot.example:8080/a/b/",
                "http://boot.example:8080/a/b/",
                Some("(http,boot.example:8080)/a/b/"),
            ),
            (
                "http://[fd00::1]:80/x",
                "http://[fd00::1]:80/x/",
                Some("(http,[fd00::1]:80)/x/"),
            ),
            ("https://boot.example/x", "https://boot.example/x/", None),
        ] {
            let base: BaseUrl = text.parse().unwrap();
            assert_eq!(
                (base.as_url().as_str(), base.as_grub_path().as_deref()),
                (url, grub)
            );
            assert_eq!(base.is_ipv6(), text.contains('['));
        }
        for text in [
            "",
            "ftp://a",
            "http://",
            "http:///x",
            "http://a b",
            "http://a/${x}",
            "http://a/../b",
            "http://a/;b",
            "http://u@a",
        ] {
            assert!(text.parse::<BaseUrl>().is_err(), "{text}");
        }
    }
}
