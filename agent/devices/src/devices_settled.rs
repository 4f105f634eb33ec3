//! Waits until init reports that the devices present at boot have their drivers.

use std::io::Read as _;
use std::time::{Duration, Instant};

use tokio::sync::watch;

/// When the devices got their drivers; `None` before that.
pub type DevicesSettled = watch::Receiver<Option<Instant>>;

/// Watches the agent's standard input. Init closes it when the devices have their
/// drivers (see `supervise` in landfall-init).
pub fn devices_settled() -> DevicesSettled {
    let (settled, receiver) = watch::channel(None);
    std::thread::spawn(move || {
        // An error also means that init has closed the pipe.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        settled.send_replace(Some(Instant::now()));
    });
    receiver
}

/// Waits up to `limit` until the devices have their drivers. Returns the time at which
/// init reported this, or the current time if the limit expires. The limit is necessary
/// because a controller that does not answer keeps its driver loading forever, and the
/// disk may be on another controller.
pub async fn wait(mut settled: DevicesSettled, limit: Duration) -> Instant {
    match tokio::time::timeout(limit, settled.wait_for(Option::is_some)).await {
        Ok(Ok(since)) => since.unwrap_or_else(Instant::now),
        // Fails only if the sender was dropped, so the value cannot change any more.
        Ok(Err(_)) => Instant::now(),
        Err(_) => {
            tracing::warn!(
                "some devices still have no driver after {} s, continuing without them",
                limit.as_secs()
            );
            Instant::now()
        }
    }
}
