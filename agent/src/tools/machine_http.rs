//! The HTTP options of a sub-command: the settings of this boot. For a setting that is
//! not given, it uses the environment variables that other programs use (`SSL_CERT_FILE`,
//! proxies).

use std::env;
use std::path::PathBuf;

use landfall_http_client::{HttpOptions, Proxies};
use landfall_report::failure::{Failure, Result};
use landfall_settings::Settings;

use crate::http_options::http_options;

/// The HTTP options of this machine. `cafile`, if given, overrides the CA file in the
/// settings and in `SSL_CERT_FILE`.
///
/// # Errors
/// If the running kernel's command line cannot be read.
pub fn of_this_machine(cafile: Option<PathBuf>) -> Result<HttpOptions> {
    let settings = Settings::of_this_boot().map_err(|error| {
        let details = format!("cannot read /proc/cmdline: {error}");
        Failure::other(details)
    })?;
    let mut options = http_options(&settings)?;
    // `SSL_CERT_FILE` is OpenSSL's own variable.
    let named = || env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    options.ca_file = cafile.or(options.ca_file).or_else(named);
    if options.proxies == Proxies::default() {
        options.proxies = proxies(|name| env::var(name).ok());
    }
    Ok(options)
}

/// Reads the variables that most programs use for proxies. A name in lower case takes
/// precedence over the same name in upper case. `all_proxy` applies to a scheme without
/// its own proxy.
fn proxies(variable: impl Fn(&str) -> Option<String>) -> Proxies {
    let either = |name: &str| {
        variable(name)
            .or_else(|| variable(&name.to_ascii_uppercase()))
            .filter(|value| !value.is_empty())
    };
    let all = either("all_proxy");
    Proxies {
        http: either("http_proxy").or_else(|| all.clone()),
        https: either("https_proxy").or(all),
        none_for: either("no_proxy")
            .iter()
            .flat_map(|list| list.split(','))
            .map(|host| host.trim().to_owned())
            .filter(|host| !host.is_empty())
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_names_proxies() {
        let read = |pairs: &[(&str, &str)]| {
            proxies(|name| {
                let pair = pairs.iter().find(|pair| pair.0 == name);
                pair.map(|pair| pair.1.to_owned())
            })
        };
        assert_eq!(read(&[]), Proxies::default());
        assert_eq!(
            read(&[("http_proxy", ""), ("no_proxy", "")]),
            Proxies::default()
        );
        let found = read(&[
            ("http_proxy", "http://a:1"),
            ("HTTP_PROXY", "http://b:1"),
            ("HTTPS_PROXY", "http://c:1"),
            ("NO_PROXY", "localhost, .example,"),
        ]);
        assert_eq!(found.http.as_deref(), Some("http://a:1"));
        assert_eq!(found.https.as_deref(), Some("http://c:1"));
        assert_eq!(found.none_for, ["localhost", ".example"]);
        let found = read(&[("ALL_PROXY", "http://d:1"), ("http_proxy", "http://a:1")]);
        assert_eq!(found.http.as_deref(), Some("http://a:1"));
        assert_eq!(found.https.as_deref(), Some("http://d:1"));
    }
}
