//! hostnamed: what the host is called.

use super::bus::{Bus, fault};
use crate::failure::Result;

/// Both names, as `hostnamectl set-hostname --static --transient`, which is
/// what OpenShift's agent calls: NetworkManager replaces a transient one alone.
pub(super) async fn set(bus: &Bus, name: &str) -> Result<()> {
    let set = async {
        let host = bus
            .known_object(
                "org.freedesktop.hostname1",
                "/org/freedesktop/hostname1",
                "org.freedesktop.hostname1",
            )
            .await?;
        for method in ["SetStaticHostname", "SetHostname"] {
            // Nobody is there to be asked for a password.
            let interactive = false;
            let _: () = host.call(method, &(name, interactive)).await?;
        }
        zbus::Result::Ok(())
    };
    set.await.map_err(|error| {
        fault(
            &format!("setting the host name {name} by hostnamed"),
            &error,
        )
    })
}
