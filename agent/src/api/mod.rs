//! The agent's own HTTP API: bytes to a request for the dispatcher and its
//! answer back to bytes. Nothing is executed here.

mod documents;
mod listen;
mod routes;
mod tls_identity;

pub use listen::listen;
pub use routes::{Api, router};
pub use tls_identity::TlsIdentity;
