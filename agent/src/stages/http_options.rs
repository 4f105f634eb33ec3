//! How requests are made in this boot.

use crate::failure::Result;
use crate::http_client::{HttpOptions, IdentityFiles, Proxies};
use crate::settings::Settings;
use crate::tls::TlsPolicy;

/// How requests are made in this boot.
///
/// # Errors
/// If only half of the client's identity is given.
pub fn http_options(settings: &Settings) -> Result<HttpOptions> {
    let params = &settings.params;
    let path = |value: &Option<String>| value.as_ref().map(Into::into);
    Ok(HttpOptions {
        insecure: *params.insecure,
        ca_file: path(&params.cafile),
        identity: IdentityFiles::pair(path(&params.certfile), path(&params.keyfile))?,
        tls: tls_policy(settings),
        proxies: Proxies {
            http: params.http_proxy.as_ref().map(|url| url.0.clone()),
            https: params.https_proxy.as_ref().map(|url| url.0.clone()),
            none_for: params.no_proxy.value.clone(),
        },
        timeout: Some(*params.http_request_timeout),
    })
}

/// The same for images, with the patience that was set for them.
///
/// # Errors
/// As [`http_options`].
pub(super) fn image_options(settings: &Settings) -> Result<HttpOptions> {
    Ok(HttpOptions {
        timeout: Some(*settings.params.image_download_connection_timeout),
        ..http_options(settings)?
    })
}

/// What TLS may look like in this boot.
pub(super) fn tls_policy(settings: &Settings) -> TlsPolicy {
    let params = &settings.params;
    TlsPolicy::new(*params.tls_min_version, params.tls_cipher_suites.as_deref())
}
