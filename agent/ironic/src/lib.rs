//! The client for Ironic's API: inspection, lookup and heartbeats.

mod agent_token;
mod heartbeat;
mod html_text;
mod inspection_callback;
mod lookup;
mod service;
mod transport;
pub mod wire;

#[cfg(test)]
mod tests;

pub use agent_token::AgentToken;
pub use heartbeat::{AGENT_VERSION, Callback, beat_forever};
pub use inspection_callback::{NotTaken, Retry, post_inventory};
pub use lookup::{NoNode, Query, RetryPolicy, look_up_until_known};
pub use service::Service;
pub use transport::Transport;
pub use wire::LookupAnswer;
