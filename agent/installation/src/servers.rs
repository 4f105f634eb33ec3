//! The HTTP client of an installation, and whether it verifies servers.

use landfall_http_client::{HttpOptions, image_client};
use landfall_report::failure::Result;

#[derive(Debug, Clone)]
pub struct Servers {
    pub client: reqwest::Client,
    /// Whether servers must prove their identity. With `ipa-insecure` the agent does
    /// not verify their identity. Then https is no better than http: anybody could have
    /// sent the answer.
    pub verified: bool,
}

impl Servers {
    /// # Errors
    /// If a certificate, a key or the URL of a proxy cannot be used. The error names it.
    pub fn new(options: &HttpOptions) -> Result<Self> {
        Ok(Self {
            client: image_client(options)?,
            verified: !options.insecure,
        })
    }
}
