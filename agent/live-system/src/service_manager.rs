//! Runs other units through systemd.

use std::time::Duration;

use futures_util::StreamExt as _;
use landfall_report::failure::{Failure, Result};
use zbus::OwnedObjectPath;

use super::bus::{Bus, Object, fault};

const SYSTEMD: &str = "org.freedesktop.systemd1";

/// How often the agent reads the unit's state in addition to waiting for signals. A
/// signal may be missed, for example while systemd reloads its units.
const POLL_INTERVAL: Duration = Duration::from_secs(60);

/// What is known about a unit that was started.
#[derive(Debug, PartialEq, Eq)]
enum Standing {
    Running,
    Ended,
    /// The unit has failed. Contains systemd's name of the reason.
    Failed(String),
}

/// Starts a unit and waits for its end, which may take hours. There is no time limit,
/// because Ironic has a limit for the whole deployment.
pub(super) async fn run_to_end(bus: &Bus, name: &str) -> Result<()> {
    let ended = run(bus, name).await;
    match ended.map_err(|error| fault(name, &error))? {
        // The text is that of OpenShift's hardware manager, because operators search for
        // it.
        Standing::Failed(result) => Err(Failure::deployment(format!(
            "Assisted Installer Agent has failed with result \"{result}\": {name}"
        ))
        .hint("see the journal of the live system; it is among the logs that Ironic collects")),
        Standing::Running | Standing::Ended => Ok(()),
    }
}

async fn run(bus: &Bus, name: &str) -> zbus::Result<Standing> {
    let manager = bus
        .known_object(
            SYSTEMD,
            "/org/freedesktop/systemd1",
            "org.freedesktop.systemd1.Manager",
        )
        .await?;
    subscribe(&manager).await?;
    let path: OwnedObjectPath = manager.call("LoadUnit", &(name,)).await?;
    let unit = Unit::of(bus, path).await?;
    let mut changes = unit.properties.receive_signal("PropertiesChanged").await?;
    let mut jobs = manager.receive_signal("JobRemoved").await?;
    if unit.standing().await? == Standing::Running {
        tracing::warn!("{name} is running already; waiting for it");
    }
    let job: OwnedObjectPath = manager.call("StartUnit", &(name, "fail")).await?;
    tracing::info!("{name} started");
    let mut job_is_over = false;
    loop {
        // While the job is pending, the unit may not be active yet.
        if job_is_over {
            match unit.standing().await? {
                Standing::Running => {}
                ended => return Ok(ended),
            }
        }
        tokio::select! {
            Some(removed) = jobs.next(), if !job_is_over => {
                let body = removed.body();
                let (_, path, _, result): (u32, OwnedObjectPath, String, String) =
                    body.deserialize()?;
                if path == job {
                    job_is_over = true;
                    // If the job's result is `failed`, the unit was started, and the
                    // unit's own state contains the reason.
                    if !matches!(result.as_str(), "done" | "failed") {
                        return Ok(Standing::Failed(result));
                    }
                }
            }
            Some(_) = changes.next() => {}
            () = tokio::time::sleep(POLL_INTERVAL) => {
                // The signal about the job's removal may have been missed.
                job_is_over |= unit.job().await?.as_str() == "/";
            }
        }
    }
}

/// Subscribes to signals, because systemd sends none without a subscriber. One call is
/// enough for the whole connection.
async fn subscribe(manager: &Object) -> zbus::Result<()> {
    match manager.call("Subscribe", &()).await {
        Err(zbus::Error::MethodError(name, ..))
            if name.as_str() == "org.freedesktop.systemd1.AlreadySubscribed" =>
        {
            Ok(())
        }
        other => other,
    }
}

/// A service with the interfaces that this module uses.
struct Unit {
    unit: Object,
    service: Object,
    properties: Object,
}

impl Unit {
    async fn of(bus: &Bus, path: OwnedObjectPath) -> zbus::Result<Self> {
        let interface = |name| bus.object(SYSTEMD, path.clone(), name);
        Ok(Self {
            unit: interface("org.freedesktop.systemd1.Unit").await?,
            service: interface("org.freedesktop.systemd1.Service").await?,
            properties: interface("org.freedesktop.DBus.Properties").await?,
        })
    }

    async fn standing(&self) -> zbus::Result<Standing> {
        let state: String = self.unit.get_property("ActiveState").await?;
        let result: String = self.service.get_property("Result").await?;
        Ok(standing(&state, result))
    }

    /// The unit's pending job; `/` if there is none.
    async fn job(&self) -> zbus::Result<OwnedObjectPath> {
        let (_, path): (u32, OwnedObjectPath) = self.unit.get_property("Job").await?;
        Ok(path)
    }
}

/// The state of the unit according to `ActiveState` and `Result`
/// (org.freedesktop.systemd1(5)).
fn standing(state: &str, result: String) -> Standing {
    match state {
        "failed" => Standing::Failed(result),
        // The unit failed and is not kept (`CollectMode`), or somebody stopped it.
        "inactive" if result != "success" => Standing::Failed(result),
        "inactive" => Standing::Ended,
        _ => Standing::Running,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_has_ended_if_systemd_reports_it() {
        for (state, result, expected) in [
            ("activating", "success", Standing::Running),
            ("active", "success", Standing::Running),
            ("deactivating", "exit-code", Standing::Running),
            ("reloading", "success", Standing::Running),
            // systemd is about to restart the unit (`Restart=`).
            ("activating", "exit-code", Standing::Running),
            ("inactive", "success", Standing::Ended),
            ("inactive", "signal", Standing::Failed("signal".into())),
            ("failed", "exit-code", Standing::Failed("exit-code".into())),
        ] {
            assert_eq!(standing(state, result.to_owned()), expected, "{state}");
        }
    }
}
