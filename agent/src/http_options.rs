//! The HTTP and TLS options of this boot.

use landfall_http_client::tls::{TlsPolicy, pem_files};
use landfall_http_client::{HttpOptions, IdentityFiles, Proxies};
use landfall_report::failure::Result;
use landfall_settings::Settings;

/// The HTTP options from the settings. Fails if the settings name a client's
/// certificate without its key, or the key without the certificate.
pub fn http_options(settings: &Settings) -> Result<HttpOptions> {
    let params = &settings.params;
    let path = |value: &Option<String>| value.as_ref().map(Into::into);
    Ok(HttpOptions {
        insecure: *params.insecure,
        ca_file: path(&params.cafile),
        more_authorities: settings.authorities(),
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

/// Reports each file of certificate authorities that the agent ignores because it has an
/// invalid certificate or none.
pub fn report_authorities(settings: &Settings) {
    for (source, file) in settings.files_of_authorities() {
        if let Err(failure) = pem_files::certificates_of(&file.path, &file.content) {
            tracing::warn!("{source}: {failure}; ignored");
        }
    }
}

/// The options for image downloads, which have their own timeout.
pub fn image_options(settings: &Settings) -> Result<HttpOptions> {
    Ok(HttpOptions {
        timeout: Some(*settings.params.image_download_connection_timeout),
        ..http_options(settings)?
    })
}

/// The TLS versions and cipher suites that this boot allows.
pub fn tls_policy(settings: &Settings) -> TlsPolicy {
    let params = &settings.params;
    TlsPolicy::new(*params.tls_min_version, params.tls_cipher_suites.as_deref())
}
