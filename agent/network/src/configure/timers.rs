//! Timers of the checks that run when an expected event has not happened in time.

use tokio::time::{Instant, sleep_until};

/// A check at a certain time, which delays no other work. [`Timer::Online`],
/// [`Timer::Carrier`] and [`Timer::Advertisement`] only report. [`Timer::AdvertisedDns`]
/// removes expired servers, [`Timer::Duplicate`] tries an address again, [`Timer::Link`]
/// sets a link up again, and [`Timer::Devices`] reports and ends the wait for the first
/// port of a bond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Timer {
    /// Checks whether every interface of the plan has found its device.
    Devices,
    /// Checks whether any interface has an address.
    Online,
    /// Checks whether this NIC has a carrier.
    Carrier(u32),
    /// Checks whether this NIC has received a router advertisement.
    Advertisement(u32),
    /// Removes DNS servers and domains of this NIC that have expired.
    AdvertisedDns(u32),
    /// Checks whether another machine still has a static IPv6 address of this NIC.
    Duplicate(u32),
    /// Checks whether this NIC is switched on, and a port of its controller.
    Link(u32),
}

#[derive(Debug, Default)]
pub(super) struct Timers {
    list: Vec<(Instant, Timer)>,
}

impl Timers {
    /// Starts a timer. It replaces a running timer for the same check.
    pub(super) fn start(&mut self, timer: Timer, at: Instant) {
        self.list.retain(|(_, known)| *known != timer);
        self.list.push((at, timer));
    }

    pub(super) fn cancel(&mut self, timer: Timer) {
        self.list.retain(|(_, known)| *known != timer);
    }

    pub(super) fn is_running(&self, timer: Timer) -> bool {
        self.list.iter().any(|(_, known)| *known == timer)
    }

    /// Waits for the next timer, forever if there is none.
    pub(super) async fn next(&mut self) -> Timer {
        let first = self.list.iter().map(|(at, _)| *at).min();
        match first {
            None => std::future::pending().await,
            Some(at) => sleep_until(at).await,
        }
        let index = self.list.iter().position(|(at, _)| Some(*at) == first);
        // The index exists: the list cannot change during the wait.
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
