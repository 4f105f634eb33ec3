//! Ends the boot through logind.

use std::time::Duration;

use landfall_report::failure::Result;

use super::bus::{Bus, fault};

/// The time limit for the system to stop its services, including the agent. systemd's own
/// limit for one service is 90 s.
const STOP_LIMIT: Duration = Duration::from_secs(180);

/// Calls a method of logind that ends the boot, then waits until systemd stops the agent.
/// Returns only if the call fails or the agent is not stopped in time.
pub(super) async fn end(bus: &Bus, method: &'static str) {
    tracing::info!("asking logind: {method}");
    match ask(bus, method).await {
        Ok(()) => {
            tokio::time::sleep(STOP_LIMIT).await;
            let seconds = STOP_LIMIT.as_secs();
            tracing::error!("{method}: the system still runs after {seconds} s");
        }
        Err(failure) => tracing::error!("{failure}"),
    }
}

async fn ask(bus: &Bus, method: &'static str) -> Result<()> {
    let asked = async {
        let manager = bus
            .known_object(
                "org.freedesktop.login1",
                "/org/freedesktop/login1",
                "org.freedesktop.login1.Manager",
            )
            .await?;
        let interactive = false;
        let answer: () = manager.call(method, &(interactive,)).await?;
        zbus::Result::Ok(answer)
    };
    asked
        .await
        .map_err(|error| fault(&format!("{method} by logind"), &error))
}
