//! The system's D-Bus, with time limits.

use std::time::Duration;

use landfall_report::failure::{Failure, Result};
use zbus::proxy::CacheProperties;
use zbus::{Connection, OwnedObjectPath, Proxy};

/// The time limit of a call. The first call to a service also starts the service, which
/// may take 45 s in a live system on slow media. (systemd's limit for the start of a unit
/// is 90 s.)
const CALL_LIMIT: Duration = Duration::from_secs(60);

#[derive(Debug, Clone)]
pub(super) struct Bus(Connection);

/// An object of a service with one of its interfaces. The agent does not cache the
/// properties, because those that it reads change all the time.
pub(super) type Object = Proxy<'static>;

impl Bus {
    pub(super) async fn connect() -> Result<Self> {
        let connected = zbus::connection::Builder::system()
            .method_timeout(CALL_LIMIT)
            .build();
        match tokio::time::timeout(CALL_LIMIT, connected).await {
            Ok(Ok(connection)) => Ok(Self(connection)),
            Ok(Err(error)) => Err(fault("cannot connect to the system's D-Bus", &error)),
            Err(_) => Err(Failure::other(format!(
                "the system's D-Bus does not answer within {} s",
                CALL_LIMIT.as_secs()
            ))),
        }
    }

    /// Makes a proxy for an object. Does not call the object yet.
    pub(super) async fn object(
        &self,
        service: &'static str,
        path: OwnedObjectPath,
        interface: &'static str,
    ) -> zbus::Result<Object> {
        zbus::proxy::Builder::new(&self.0)
            .destination(service)
            .path(path)
            .interface(interface)
            .cache_properties(CacheProperties::No)
            .build()
            .await
    }

    /// Like [`Bus::object`], for a constant path.
    pub(super) async fn known_object(
        &self,
        service: &'static str,
        path: &'static str,
        interface: &'static str,
    ) -> zbus::Result<Object> {
        self.object(service, OwnedObjectPath::try_from(path)?, interface)
            .await
    }
}

/// A failure with a text for people: `WHAT: org.freedesktop.NAME: TEXT`.
pub(super) fn fault(what: &str, error: &zbus::Error) -> Failure {
    Failure::other(format!("{what}: {error}"))
}
