//! The lookup stage: asks Ironic which node this machine is.

use std::sync::Arc;

use landfall_discovery::FoundService;
use landfall_ironic::{
    AgentToken, LookupAnswer, NoNode, Query, RetryPolicy, Service, Transport, look_up_until_known,
};
use landfall_report::failure::{Failure, Result};
use landfall_sys::state_file::StateFile;

use super::{Boot, warn_all};

/// The result of a lookup.
pub(super) enum Lookup {
    /// Ironic knows this machine, and the agent has a token.
    Known { node: LookupAnswer, token: String },
    /// Ironic does not send the token again, and only an operator can change this.
    LockDown,
}

impl Boot {
    pub(super) fn service(&self, found: &FoundService) -> Service {
        Service::new(
            self.transport(),
            &found.urls,
            &found.document,
            self.settings.params.ironic_api_version.value,
        )
    }

    pub(super) fn transport(&self) -> Transport {
        let params = &self.settings.params;
        Transport {
            client: self.client.clone(),
            request_id: params.global_request_id.as_ref().map(|id| id.0.clone()),
            timeout: *params.http_request_timeout,
        }
    }

    /// Repeats the lookup until Ironic knows this machine. Fails after the time limit of
    /// the settings. The settings in Ironic's answer override those of the boot.
    pub(super) async fn look_up(
        &mut self,
        service: &Service,
        node_uuid: Option<String>,
    ) -> Result<Lookup> {
        let params = &self.settings.params;
        let given = params.agent_token.as_ref().map(|secret| secret.0.as_str());
        let mut token = AgentToken::restore(StateFile::new(self.state, "token"), given);
        let mut query = Query {
            network: self.network.clone(),
            with_bmc_nics: *params.bmc_nics,
            boot_mac: params.boot_interface.as_ref().map(|nic| nic.mac),
            node_uuid,
        };
        let retry_policy = RetryPolicy {
            interval: *params.lookup_interval,
            total: *params.lookup_timeout,
        };
        match look_up_until_known(service, &mut query, &mut token, retry_policy).await {
            Ok((node, token)) => {
                let settings = Arc::make_mut(&mut self.settings);
                warn_all(&settings.apply_lookup_config(&node.config));
                Ok(Lookup::Known { node, token })
            }
            Err(reason @ NoNode::TokenAlreadySent) => {
                tracing::error!("lookup: {reason}");
                Ok(Lookup::LockDown)
            }
            // The agent exits, and init restarts it.
            Err(reason) => Err(Failure::other(format!("lookup: {reason}"))),
        }
    }
}
