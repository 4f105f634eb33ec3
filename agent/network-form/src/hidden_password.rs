//! Hides the password of a URL while an operator types it: the output of a serial console
//! is often kept.

/// The URL with `*` for each character of its password. A password is hidden as soon as
/// it cannot be a port number.
pub(super) fn hide_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    // Hide a password that contains a slash too. Such a URL does not work, but the
    // operator can type it.
    let end = match rest.rfind('@') {
        Some(at) if authority.contains('@') || !is_host(authority) => at,
        None if !is_host(authority) => rest.len(),
        _ => return url.to_owned(),
    };
    let Some((user, password)) = rest[..end].split_once(':') else {
        return url.to_owned();
    };
    let stars = "*".repeat(password.chars().count());
    format!("{scheme}://{user}:{stars}{}", &rest[end..])
}

/// Whether this can be a host with its port.
fn is_host(authority: &str) -> bool {
    let port = match authority.strip_prefix('[') {
        Some(address) => address.split_once(']').map_or("", |(_, port)| port),
        None => authority.find(':').map_or("", |at| &authority[at..]),
    };
    let digits = port.strip_prefix(':').unwrap_or(port);
    digits.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_the_password_is_hidden() {
        for (url, shown) in [
            ("", ""),
            ("http:/", "http:/"),
            ("http://", "http://"),
            ("http://192.0.2.1:6385/x", "http://192.0.2.1:6385/x"),
            ("http://[2001:db8::1]:6385", "http://[2001:db8::1]:6385"),
            ("http://[2001:db8::", "http://[2001:db8::"),
            ("http://host/a@b", "http://host/a@b"),
            ("http://user@host", "http://user@host"),
            ("http://user:p", "http://user:*"),
            ("http://user:pass@", "http://user:****@"),
            ("http://user:pass@host:6385/", "http://user:****@host:6385/"),
            ("http://user:1234@host", "http://user:****@host"),
            ("http://user:p/s@host/", "http://user:***@host/"),
            ("http://user:p@s@host/", "http://user:***@host/"),
            ("http://user:p/s", "http://user:***"),
        ] {
            assert_eq!(hide_password(url), shown);
        }
    }

    proptest! {
        #[test]
        fn no_password_is_seen_while_it_is_typed(
            user in "[a-z]{0,8}", odd in "[!-~]{0,4}", host in "[a-z]{1,8}",
        ) {
            let url = format!("http://{user}:S3CRET{odd}@{host}:6385/x");
            for length in 0..=url.len() {
                let shown = hide_password(&url[..length]);
                prop_assert!(!shown.contains("S3") && !shown.contains("CRET"), "{shown}");
            }
        }

        #[test]
        fn a_url_without_a_password_stays(host in "[a-z0-9.]{1,20}", port: u16, path in "[a-z/]{0,9}") {
            let url = format!("http://{host}:{port}/{path}");
            prop_assert_eq!(hide_password(&url), url);
        }

        #[test]
        fn never_panics(url in "(http://)?\\PC{0,40}") {
            let _ = hide_password(&url);
        }
    }
}
