//! What systemd wants to hear from a service.

use crate::sys::service_notify::{ServiceNotify, watchdog_interval};

/// Tells systemd that the service has started: units that are ordered after it
/// go on. Ironic is looked for after that, which may take for ever.
pub fn tell_ready() {
    match ServiceNotify::from_environment() {
        Ok(Some(notify)) => {
            if let Err(error) = notify.ready() {
                tracing::warn!("telling systemd that the agent is ready: {error}");
            }
        }
        Ok(None) => {}
        Err(error) => tracing::warn!("NOTIFY_SOCKET: {error}"),
    }
}

/// Tells systemd again and again that the agent is alive, if it wants to hear
/// it. A task of the runtime that all conversations run on: where that hangs,
/// systemd starts the agent anew.
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
            // One that is lost is made up for by the next.
            let _ = notify.alive();
        }
    });
}
