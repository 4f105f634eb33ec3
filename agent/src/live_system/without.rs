//! What an agent without the feature says where a live system starts it.

use std::convert::Infallible;

use landfall_network_plan::NetworkPlan;

use crate::early::Ending;
use crate::failure::{Class, Failure, Result};

/// The services of the live system: none here.
#[derive(Debug, Clone)]
pub struct LiveSystem(Infallible);

impl LiveSystem {
    /// There is no way.
    ///
    /// # Errors
    /// Always.
    pub async fn connect() -> Result<Self> {
        let details =
            "this agent is built for its own ramdisk, without the cargo feature live-system";
        Err(Failure::new(Class::CommandExecutionError, details)
            .hint("make live-agent builds the one for a live system"))
    }

    /// Cannot be called; so for the others.
    ///
    /// # Errors
    /// None.
    pub async fn set_host_name(&self, _: &str) -> Result<()> {
        match self.0 {}
    }

    /// See [`LiveSystem::set_host_name`].
    pub async fn configure_network(&self, _: &NetworkPlan) {
        match self.0 {}
    }

    /// See [`LiveSystem::set_host_name`].
    ///
    /// # Errors
    /// None.
    pub async fn run_unit(&self, _: &str) -> Result<()> {
        match self.0 {}
    }

    /// See [`LiveSystem::set_host_name`].
    pub async fn end(&self, _: Ending) {
        match self.0 {}
    }
}
