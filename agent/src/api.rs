//! The agent's HTTP API and status pages. Commands go to the dispatcher: this module does
//! not execute anything itself.

mod answer;
mod body;
mod documents;
mod endpoint;
mod listen;
mod page;
mod places;
mod query;
mod routes;
mod status;
mod tls_identity;

pub use listen::{Listening, listen};
pub use page::LOGS_PATH;
pub use routes::{Api, router};
pub use status::status_router;
pub use tls_identity::TlsIdentity;
