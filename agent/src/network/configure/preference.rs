//! The NIC over which the service has answered goes before all others.
//!
//! Two NICs may both offer a default route, or even the same network, and the
//! kernel takes the route of the smaller metric whether or not it leads
//! anywhere. So once a NIC has proved itself, each of its routes is made a
//! second time with the smallest metric of all: the image server and all who
//! come later are asked the same way. Routes that only another NIC has keep
//! theirs.

use super::configurator::Configurator;
use crate::network::nic::Nic;
use crate::network::routes::Route;

/// Before every other, those that the plan means in particular included.
const METRIC: u32 = 20;

/// The NIC that is preferred, and the routes that were made for it.
#[derive(Debug, Default)]
pub(super) struct Preference {
    /// The kernel's index.
    pub(super) over: Option<u32>,
    /// Something may have become of the routes.
    pub(super) is_stale: bool,
    copies: Vec<Route>,
}

impl Configurator {
    /// Takes over what discovery has found out.
    pub(super) fn on_reach(&mut self) {
        let over = self.reach.borrow_and_update().over;
        if over != self.preference.over {
            self.preference.over = over;
            self.preference.is_stale = true;
        }
    }

    /// Brings the copies up to the routes that the preferred NIC has now.
    pub(super) async fn renew_preference(&mut self) {
        if !std::mem::take(&mut self.preference.is_stale) {
            return;
        }
        let wanted = match self.preference.over {
            // Alone, it is preferred anyway.
            Some(index) if self.nics.values().filter(|nic| nic.configured).count() > 1 => {
                match self.changes.routes_of(index).await {
                    Ok(routes) => copies(routes),
                    Err(error) => {
                        tracing::warn!("reading the routes: {error}");
                        return;
                    }
                }
            }
            _ => Vec::new(),
        };
        let before = std::mem::take(&mut self.preference.copies);
        for route in &wanted {
            // Again, even if it was there before: the kernel takes a route away
            // with the address that it leaves from.
            if let Err(error) = self.changes.put_route(route).await {
                tracing::warn!("preferring {}: {error}", self.name_of(self.preference.over));
            }
        }
        for route in before.iter().filter(|route| !wanted.contains(route)) {
            if let Err(error) = self.changes.take_route(route).await {
                tracing::debug!("preferring another NIC: {error}");
            }
        }
        if before.is_empty() && !wanted.is_empty() {
            let name = self.name_of(self.preference.over);
            tracing::info!("{name} goes before the other NICs, as the service answers there");
        }
        self.preference.copies = wanted;
    }

    fn name_of(&self, index: Option<u32>) -> String {
        let nic = index.and_then(|index| self.nics.get(&index));
        nic.map_or_else(|| "a NIC that is gone".to_owned(), Nic::title)
    }
}

/// What is preferred of the routes of a device.
fn copies(mut routes: Vec<Route>) -> Vec<Route> {
    routes.retain(|route| route.metric() != Some(METRIC));
    // Of several to one destination the kernel would keep the last that it is
    // given.
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
