//! Sets the host name through hostnamed.

use landfall_report::failure::Result;

use super::bus::{Bus, fault};

/// Sets the static and the transient host name, as `hostnamectl set-hostname --static
/// --transient` in OpenShift's agent does. If only the transient name is set,
/// NetworkManager replaces it.
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
            // Disable interactive authorisation, because nobody is there to enter a
            // password.
            let interactive = false;
            let _: () = host.call(method, &(name, interactive)).await?;
        }
        zbus::Result::Ok(())
    };
    set.await.map_err(|error| {
        fault(
            &format!("hostnamed cannot set the host name {name}"),
            &error,
        )
    })
}
