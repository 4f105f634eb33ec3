//! Ironic as a service: what the agent asks of it and tells it.

mod agent_token;
mod heartbeat;
mod inspection_callback;
pub(crate) mod lookup;
pub(crate) mod service;
pub(crate) mod wire;

pub use agent_token::AgentToken;
pub use heartbeat::{AGENT_VERSION, Callback, beat_forever};
pub use inspection_callback::post_inventory;
pub use lookup::{Query, look_up_until_known};
pub use service::Service;
pub use wire::LookupAnswer;
