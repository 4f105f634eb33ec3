//! One address family of an interface, as the document describes it.

use crate::plan::{Automatic, IpPlan, Method};

/// NetworkManager's value for no time limit, which nmstate sets for DHCP.
pub(super) const FOREVER: u32 = i32::MAX as u32;

#[derive(Clone)]
pub(super) struct Family {
    pub(super) enabled: bool,
    pub(super) plan: IpPlan,
}

impl Default for Family {
    /// A family without any configuration: off.
    fn default() -> Family {
        Family {
            enabled: false,
            plan: IpPlan {
                automatic: Automatic {
                    timeout: Some(FOREVER),
                    ..Automatic::default()
                },
                ..IpPlan::new(Method::Disabled)
            },
        }
    }
}

impl Family {
    /// True if the family gets its addresses from the network.
    pub(super) fn is_automatic(&self) -> bool {
        self.plan.method.is_automatic()
    }

    /// True if the family's profile can keep name servers.
    pub(super) fn is_configured(&self) -> bool {
        self.is_automatic() || !self.plan.addresses.is_empty()
    }

    /// True if the family is configured and gets no name servers from the network, so
    /// that the configured servers are the only ones.
    pub(super) fn prefers_given_dns(&self) -> bool {
        self.is_configured() && (!self.is_automatic() || self.plan.automatic.ignore_dns)
    }

    pub(super) fn set(&mut self, key: &str, value: impl ToString) {
        self.plan.settings.insert(key.to_owned(), value.to_string());
    }
}
