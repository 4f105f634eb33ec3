//! What is to be done, or said, if nothing happens for a while.

use tokio::time::{Instant, sleep_until};

/// Something to look at when its time has come. Nothing waits for it. Most lead
/// to a line on the console and no more; [`Timer::AdvertisedDns`] forgets what
/// has ended, [`Timer::Duplicate`] asks for an address again, [`Timer::Link`]
/// sets up a link again, and [`Timer::Devices`] ends the wait for the first
/// port of a bond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Timer {
    /// Has every interface of the plan found its device?
    Devices,
    /// Has any interface an address?
    Online,
    /// Has this NIC a carrier?
    Carrier(u32),
    /// Has this NIC heard a router?
    Advertisement(u32),
    /// Does everything that routers have told this NIC still count?
    AdvertisedDns(u32),
    /// Is the machine gone that has a static IPv6 address of this NIC?
    Duplicate(u32),
    /// Is this NIC on, and a port of its controller?
    Link(u32),
}

/// Timers that are running.
#[derive(Debug, Default)]
pub(super) struct Timers {
    list: Vec<(Instant, Timer)>,
}

impl Timers {
    /// Starts a timer, in place of an equal one.
    pub(super) fn start(&mut self, timer: Timer, at: Instant) {
        self.list.retain(|(_, known)| *known != timer);
        self.list.push((at, timer));
    }

    /// Takes a timer back.
    pub(super) fn cancel(&mut self, timer: Timer) {
        self.list.retain(|(_, known)| *known != timer);
    }

    /// Whether this timer has been started and its time has not come.
    pub(super) fn is_running(&self, timer: Timer) -> bool {
        self.list.iter().any(|(_, known)| *known == timer)
    }

    /// Waits for the next timer, for ever if there is none.
    pub(super) async fn next(&mut self) -> Timer {
        let first = self.list.iter().map(|(at, _)| *at).min();
        match first {
            None => std::future::pending().await,
            Some(at) => sleep_until(at).await,
        }
        let index = self.list.iter().position(|(at, _)| Some(*at) == first);
        // There is one, as nothing was taken out in the meantime.
        self.list.swap_remove(index.unwrap_or(0)).1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn the_earliest_comes_first_and_a_new_one_replaces_its_equal() {
        let mut timers = Timers::default();
        let now = Instant::now();
        let after = |millis| now + Duration::from_millis(millis);
        timers.start(Timer::Carrier(1), after(1));
        timers.start(Timer::Devices, after(20));
        timers.start(Timer::Advertisement(1), after(10));
        timers.start(Timer::Carrier(1), after(30));
        assert_eq!(timers.next().await, Timer::Advertisement(1));
        assert_eq!(timers.next().await, Timer::Devices);
        assert_eq!(timers.next().await, Timer::Carrier(1));
        let nothing = tokio::time::timeout(Duration::from_millis(5), timers.next());
        assert!(nothing.await.is_err());
    }
}
