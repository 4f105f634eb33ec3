//! Serves each host's own version of a base ISO and of a base ramdisk over HTTP.
//!
//! [`Base`] holds the base files in memory. [`HostStore`] holds what each host has in
//! addition; fill it with [`HostStore::put`]. [`listen`] serves both. Nothing is
//! stored per image: the bytes of a range are looked up when a client asks for them,
//! and any number of copies of the service give the same answers.

mod answer;
mod base;
pub mod byte_range;
pub mod conditions;
mod connection;
mod connections;
mod file_stamp;
mod host_store;
mod image_body;
mod limits;
mod listen;
mod metrics;
mod network_in_words;
mod page;
mod page_readers;
mod public_url;
mod reads;
mod request_path;
mod resource;
mod routes;
mod served_version;
mod tls;

pub use base::{Base, BaseFiles, LoadError, LoadFault};
pub use file_stamp::FileStamp;
pub use host_store::{HostPaths, HostStore, PutError};
pub use limits::Limits;
pub use listen::{Listening, listen, listen_for};
pub use metrics::Metrics;
pub use public_url::{PublicUrl, UrlError};
pub use reads::Reads;
pub use request_path::is_served_name;
pub use routes::{Endpoints, Service};
pub use tls::{ServerTls, TlsError};
