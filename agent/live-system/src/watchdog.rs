//! Sends the notifications that systemd expects from a service.

use landfall_sys::service_notify::{ServiceNotify, watchdog_interval};

/// Reports to systemd that the service has started, so that the units after it can start.
/// The agent looks for Ironic only afterwards, because that search may never end.
pub fn report_ready() {
    match ServiceNotify::from_environment() {
        Ok(Some(notify)) => {
            if let Err(error) = notify.ready() {
                tracing::warn!("cannot report to systemd that the agent is ready: {error}");
            }
        }
        Ok(None) => {}
        Err(error) => tracing::warn!("cannot use NOTIFY_SOCKET: {error}"),
    }
}

/// If systemd watches this service (`WatchdogSec=`), reports periodically that the agent
/// is alive. The task runs in the same runtime as all network tasks. So if the runtime
/// hangs, systemd restarts the agent.
pub fn keep_watchdog() {
    let Some(interval) = watchdog_interval() else {
        return;
    };
    let Ok(Some(notify)) = ServiceNotify::from_environment() else {
        return;
    };
    tokio::spawn(async move {
        let mut times = tokio::time::interval(interval);
        loop {
            times.tick().await;
            // If a message is lost, the next one replaces it.
            let _ = notify.alive();
        }
    });
}
