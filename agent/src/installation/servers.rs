//! How the servers of an installation are asked.

use crate::failure::Result;
use crate::http_client::{HttpOptions, image_client};

/// A client for every server that an installation names.
#[derive(Debug, Clone)]
pub struct Servers {
    /// Asks them.
    pub client: reqwest::Client,
    /// Servers have to prove who they are. Without that (`ipa-insecure`) https is
    /// no better than http: what anybody may have sent proves nothing.
    pub verified: bool,
}

impl Servers {
    /// Servers that are asked with these options.
    ///
    /// # Errors
    /// Which certificate or key cannot be used.
    pub fn new(options: &HttpOptions) -> Result<Self> {
        Ok(Self {
            client: image_client(options)?,
            verified: !options.insecure,
        })
    }
}
