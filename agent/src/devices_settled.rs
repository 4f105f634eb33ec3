//! When the devices of the boot have their drivers, as init tells the agent.

use std::io::Read as _;
use std::time::{Duration, Instant};

use tokio::sync::watch;

/// When they had; `None` while they have not.
pub type DevicesSettled = watch::Receiver<Option<Instant>>;

/// Watches the end of the agent's standard input, by which init says so (see
/// `early::supervise`).
pub fn devices_settled() -> DevicesSettled {
    let (settled, receiver) = watch::channel(None);
    std::thread::spawn(move || {
        // End of file and a broken pipe both mean that init is done with it.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        settled.send_replace(Some(Instant::now()));
    });
    receiver
}

/// Waits until they have, at most `limit`: a controller that does not answer
/// keeps its driver loading for ever, and the disk may be on another one.
/// Returns since when.
pub async fn wait(mut settled: DevicesSettled, limit: Duration) -> Instant {
    match tokio::time::timeout(limit, settled.wait_for(Option::is_some)).await {
        Ok(Ok(since)) => since.unwrap_or_else(Instant::now),
        // Fails only without a sender: then nothing more will settle.
        Ok(Err(_)) => Instant::now(),
        Err(_) => {
            tracing::warn!(
                "not all devices have their drivers after {} s, going on without them",
                limit.as_secs()
            );
            Instant::now()
        }
    }
}
