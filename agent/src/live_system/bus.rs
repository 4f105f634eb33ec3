//! The system's D-Bus, with limits.

use std::time::Duration;

use zbus::proxy::CacheProperties;
use zbus::{Connection, OwnedObjectPath, Proxy};

use crate::failure::{Class, Failure, Result};

/// Services are started by the first call, and have time for that: systemd
/// gives a unit 90 s, of which a live system on slow media may take a half.
const CALL_LIMIT: Duration = Duration::from_secs(60);

/// A connection to the system's bus.
#[derive(Debug, Clone)]
pub(super) struct Bus(Connection);

/// An object of a service, by one of its interfaces. Properties are read when
/// they are asked for: what matters here changes all the time.
pub(super) type Object = Proxy<'static>;

impl Bus {
    pub(super) async fn connect() -> Result<Self> {
        let connected = zbus::connection::Builder::system()
            .method_timeout(CALL_LIMIT)
            .build();
        match tokio::time::timeout(CALL_LIMIT, connected).await {
            Ok(Ok(connection)) => Ok(Self(connection)),
            Ok(Err(error)) => Err(fault("connecting to the system's D-Bus", &error)),
            Err(_) => Err(failure(format!(
                "the system's D-Bus does not answer within {} s",
                CALL_LIMIT.as_secs()
            ))),
        }
    }

    /// An object. Nothing is asked of it yet.
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

    /// The same for a path that is known.
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

/// What went wrong, for people: `WHAT: org.freedesktop.NAME: TEXT`.
pub(super) fn fault(what: &str, error: &zbus::Error) -> Failure {
    failure(format!("{what}: {error}"))
}

pub(super) fn failure(details: impl Into<String>) -> Failure {
    Failure::new(Class::CommandExecutionError, details)
}
