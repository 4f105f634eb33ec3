//! Prefers the NIC over which the service has answered.
//!
//! Two NICs may both offer a default route, or even the same network. The kernel uses
//! the route with the smaller metric, even if that route does not reach the service. So
//! once the service has answered over a NIC, the agent adds a copy of each route of
//! that NIC with a smaller metric. All later connections, such as those to the image
//! server, then use the same NIC. The agent does not change routes that only another
//! NIC has.

use super::configurator::Configurator;
use crate::nic::Nic;
use crate::routes::Route;

/// The metric of the copies. It is smaller than the agent's own metrics,
/// including those of NICs that the plan names.
const METRIC: u32 = 20;

impl Configurator {
    pub(super) fn on_reach(&mut self) {
        let over = self.reach.borrow_and_update().over;
        if over != self.preference.over {
            self.preference.over = over;
            self.preference.is_stale = true;
        }
    }

    /// Updates the copies to the current routes of the preferred NIC.
    pub(super) async fn renew_preference(&mut self) {
        if !std::mem::take(&mut self.preference.is_stale) {
            return;
        }
        let wanted = match self.preference.over {
            // If only one NIC is configured, no preference is needed.
            Some(index) if self.nics.values().filter(|nic| nic.configured).count() > 1 => {
                match self.changes.routes_of(index).await {
                    Ok(routes) => copies(routes),
                    Err(error) => {
                        tracing::warn!(
                            "cannot read the routes: {error}; no NIC takes precedence over the others"
                        );
                        return;
                    }
                }
            }
            _ => Vec::new(),
        };
        let before = std::mem::take(&mut self.preference.copies);
        for route in &wanted {
            // Add each route again even if it existed before, because the kernel removes
            // a route together with its source address.
            if let Err(error) = self.changes.put_route(route).await {
                tracing::warn!(
                    "cannot give {} precedence over the other NICs: {error}",
                    self.name_of(self.preference.over)
                );
            }
        }
        for route in before.iter().filter(|route| !wanted.contains(route)) {
            if let Err(error) = self.changes.take_route(route).await {
                tracing::debug!("cannot remove the precedence of a NIC: {error}");
            }
        }
        if before.is_empty() && !wanted.is_empty() {
            let name = self.name_of(self.preference.over);
            tracing::info!(
                "{name} takes precedence over the other NICs: the service answers there"
            );
        }
        self.preference.copies = wanted;
    }

    fn name_of(&self, index: Option<u32>) -> String {
        let nic = index.and_then(|index| self.nics.get(&index));
        nic.map_or_else(|| "a NIC that is gone".to_owned(), Nic::title)
    }
}

/// The copies that make the routes of one device take precedence: the same routes with a
/// smaller metric. Does not copy the copies of an earlier call.
fn copies(mut routes: Vec<Route>) -> Vec<Route> {
    routes.retain(|route| route.metric() != Some(METRIC));
    // For each destination, copy only the route with the smallest metric. All copies have
    // the same metric, so the kernel would otherwise keep the last copy.
    routes.sort_by_key(Route::metric);
    let mut copies: Vec<Route> = Vec::new();
    for route in routes {
        let is_known = |known: &Route| known.destination() == route.destination();
        if !copies.iter().any(is_known) {
            copies.push(route.with_metric(METRIC));
        }
    }
    copies
}
