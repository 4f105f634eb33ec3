//! The `LiveSystem` of an agent without the feature: connecting fails with a hint.

use std::convert::Infallible;

use landfall_init::Ending;
use landfall_network_plan::NetworkPlan;
use landfall_report::failure::{Failure, Result};

/// A type without values, so that no method can be called.
#[derive(Debug, Clone)]
pub struct LiveSystem(Infallible);

impl LiveSystem {
    /// Fails always, with a hint to the cargo feature.
    pub async fn connect() -> Result<Self> {
        let details =
            "this agent is built for its own ramdisk, without the cargo feature live-system";
        Err(Failure::other(details).hint("build an agent for a live system with `make live-agent`"))
    }

    /// No code can call this method or the methods below, because no value of this type
    /// exists.
    pub async fn set_host_name(&self, _: &str) -> Result<()> {
        match self.0 {}
    }

    pub async fn configure_network(&self, _: &NetworkPlan) {
        match self.0 {}
    }

    pub async fn run_unit(&self, _: &str) -> Result<()> {
        match self.0 {}
    }

    pub async fn end(&self, _: Ending) {
        match self.0 {}
    }
}
