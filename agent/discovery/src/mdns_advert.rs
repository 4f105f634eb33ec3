//! Turns the mDNS records of a service into a URL.
//!
//! mDNS answers are not authenticated, so every part is checked. Anything that does
//! not form a URL is an error with a reason, never a panic.

use std::cmp::Reverse;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use nix::net::if_::if_nametoindex;
use reqwest::Url;

use super::advertised_address::is_link_local;

/// The maximum length of a URL that is made from an answer.
const URL_LIMIT: usize = 2048;

/// A resolved service, independent of the mDNS library.
#[derive(Debug, Clone)]
pub struct Advert {
    /// The target of the SRV record.
    pub host: String,
    /// The port of the SRV record.
    pub port: u16,
    /// The addresses of the target, in any order.
    pub addresses: Vec<AdvertAddress>,
    /// The keys and values of the TXT record.
    pub txt: Vec<(String, Vec<u8>)>,
}

/// An address. If it is link-local, `interface` is the interface on which the agent
/// received it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdvertAddress {
    pub address: IpAddr,
    pub interface: Option<String>,
}

/// The location of a service according to an mDNS answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The base URL, `http://192.0.2.1:6385/path`. A link-local address has a zone.
    pub url: String,
    /// The TXT entries except `path` and `protocol`. They become settings if they
    /// are allowed.
    pub settings: Vec<(String, String)>,
}

/// Why the records of a service give no URL. Names the record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdvertError {
    /// The service announced itself by mDNS without a port. The agent ignores it; correct the
    /// service's mDNS settings.
    #[error("its SRV record has port 0")]
    NoPort,
    /// Correct the service's mDNS records, or give its URL as a kernel argument.
    #[error("{record}: expected {expected}, found {found:?}")]
    Record {
        record: String,
        expected: &'static str,
        /// At most the first 80 characters.
        found: String,
    },
    /// The service announced itself by mDNS with loopback addresses only. The agent ignores it;
    /// set `interfaces` in the section mdns of Ironic's configuration.
    #[error("it has no address except loopback addresses")]
    NoAddress,
}

impl Advert {
    /// The URL of this service. `has_route` returns whether the kernel has a route
    /// to an address.
    ///
    /// # Errors
    /// If the records do not form a URL.
    pub fn endpoint(
        &self,
        has_route: impl Fn(SocketAddr) -> bool,
    ) -> Result<Endpoint, AdvertError> {
        if self.port == 0 {
            return Err(AdvertError::NoPort);
        }
        let scheme = match self.text("protocol")? {
            Some("") | None if self.port == 80 => "http",
            Some("") | None => "https",
            Some(word) if word.eq_ignore_ascii_case("http") => "http",
            Some(word) if word.eq_ignore_ascii_case("https") => "https",
            Some(other) => return Err(unexpected("protocol", "http or https", other)),
        };
        let path = self.path()?;
        let host = self.host_in_url(has_route)?;
        let url = format!("{scheme}://{host}:{}{path}", self.port);
        let without_zone = landfall_http_client::ZonedUrl::parse(&url).url;
        if url.len() > URL_LIMIT || Url::parse(&without_zone).is_err() {
            return Err(unexpected("SRV and TXT", "the parts of a URL", &url));
        }
        Ok(Endpoint {
            url,
            settings: self.settings(),
        })
    }

    /// The first value of a key in the TXT record (RFC 6763, section 6.4).
    fn text(&self, key: &str) -> Result<Option<&str>, AdvertError> {
        let Some((_, value)) = self
            .txt
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(key))
        else {
            return Ok(None);
        };
        let text = std::str::from_utf8(value)
            .map_err(|_| unexpected(key, "text", &String::from_utf8_lossy(value)))?;
        Ok(Some(text.trim()))
    }

    fn path(&self) -> Result<String, AdvertError> {
        let path = self.text("path")?.unwrap_or_default();
        // A comma would split the URL into two.
        let plain = |byte: u8| byte.is_ascii_graphic() && !b",?#\\\"<>[]{}|^`%".contains(&byte);
        if !path.bytes().all(plain) {
            return Err(unexpected("path", "the path of a URL", path));
        }
        let path = path.trim_matches('/');
        Ok(if path.is_empty() {
            String::new()
        } else {
            format!("/{path}")
        })
    }

    /// A name in `.local` is replaced by an address. Any other name is kept,
    /// because the certificate is issued for it.
    fn host_in_url(&self, has_route: impl Fn(SocketAddr) -> bool) -> Result<String, AdvertError> {
        let name = self.host.trim_end_matches('.');
        if !name.to_ascii_lowercase().ends_with(".local") {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
            if name.is_empty() || name.len() > 253 || !name.bytes().all(plain) {
                return Err(unexpected("its SRV record", "a host name", &self.host));
            }
            return Ok(name.to_owned());
        }
        let mut usable: Vec<&AdvertAddress> = self
            .addresses
            .iter()
            .filter(|known| !known.address.is_loopback() && !known.address.is_unspecified())
            .collect();
        // mdns-sd returns a set, so the order of the records is lost. This sort puts IPv4
        // first, as Ironic's agent does, and within each family link-local addresses
        // last.
        usable.sort_by_key(|known| {
            (
                Reverse(known.address.is_ipv4()),
                known.is_link_local(),
                known.address,
                known.interface.clone(),
            )
        });
        let chosen = usable
            .iter()
            .find(|known| known.socket(self.port).is_some_and(&has_route))
            .or_else(|| usable.first())
            .ok_or(AdvertError::NoAddress)?;
        Ok(chosen.in_url())
    }

    fn settings(&self) -> Vec<(String, String)> {
        let others = self.txt.iter().filter(|(key, _)| {
            !key.eq_ignore_ascii_case("path") && !key.eq_ignore_ascii_case("protocol")
        });
        others
            .filter_map(|(key, value)| {
                let text = std::str::from_utf8(value).ok()?;
                let shown = |c: char| !c.is_control();
                (key.is_ascii() && text.chars().all(shown)).then(|| (key.clone(), text.to_owned()))
            })
            .collect()
    }
}

impl AdvertAddress {
    fn is_link_local(&self) -> bool {
        is_link_local(self.address)
    }

    fn socket(&self, port: u16) -> Option<SocketAddr> {
        match self.address {
            IpAddr::V6(address) if self.is_link_local() => {
                let index = if_nametoindex(self.interface.as_deref()?).ok()?;
                Some(SocketAddrV6::new(address, port, 0, index).into())
            }
            address => Some(SocketAddr::new(address, port)),
        }
    }

    fn in_url(&self) -> String {
        match (self.address, &self.interface) {
            (IpAddr::V4(address), _) => address.to_string(),
            (IpAddr::V6(address), Some(interface)) if self.is_link_local() => {
                format!("[{address}%25{interface}]")
            }
            (IpAddr::V6(address), _) => format!("[{address}]"),
        }
    }
}

fn unexpected(record: &str, expected: &'static str, found: &str) -> AdvertError {
    AdvertError::Record {
        record: record.to_owned(),
        expected,
        found: found.chars().take(80).collect(),
    }
}

#[cfg(test)]
mod tests;
