//! The agent's own HTTP API: bytes to a request for the dispatcher and its
//! answer back to bytes. Nothing is executed here.

mod answer;
mod body;
mod documents;
mod endpoint;
mod listen;
mod places;
mod query;
mod routes;
mod tls_identity;

pub use listen::{Listening, listen};
pub use routes::{Api, router};
pub use tls_identity::TlsIdentity;
