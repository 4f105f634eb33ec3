//! The addresses on which the image service listens.

use std::net::{Ipv6Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, Result};
use landfall_image_service::{
    Endpoints, HostStore, Limits, Listening, Metrics, ServerTls, Service, listen,
};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::task::{JoinHandle, JoinSet};

use crate::cli::ServiceArguments;
use crate::report::{self, Report};

/// The port for http if none is given.
const PORT: u16 = 8080;
/// How long the service still accepts clients after `/readyz` has begun to report that
/// the service stops. A load balancer that checks `/readyz` every second notices it in
/// this time.
const NOTICE: Duration = Duration::from_secs(2);
const MINUTE: Duration = Duration::from_secs(60);

/// The threads for the service.
pub(crate) fn runtime(arguments: &ServiceArguments) -> Result<tokio::runtime::Runtime> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if let Some(threads) = arguments.threads {
        runtime.worker_threads(threads.into());
    }
    let runtime = runtime.enable_all().build();
    runtime.context("cannot start the threads")
}

/// The certificate, if the service has one.
pub(crate) fn tls(arguments: &ServiceArguments) -> Result<Option<ServerTls>> {
    match (&arguments.tls_cert, &arguments.tls_key) {
        (Some(certificate), Some(key)) => Ok(Some(ServerTls::from_files(
            certificate.clone(),
            key.clone(),
        )?)),
        _ => Ok(None),
    }
}

/// A service that answers.
pub(crate) struct Running {
    pub(crate) service: Service,
    listeners: Vec<Listening>,
    chores: JoinHandle<()>,
}

impl Running {
    pub(crate) fn start(
        arguments: &ServiceArguments,
        store: HostStore,
        tls: Option<&ServerTls>,
        report: &Report,
    ) -> Result<Self> {
        let endpoints = match arguments.status_listen {
            Some(_) => Endpoints::Images,
            None => Endpoints::Everything,
        };
        Self::start_as(endpoints, arguments, store, tls, report)
    }

    /// `endpoints` are the paths that the listeners for http and https serve.
    pub(crate) fn start_as(
        endpoints: Endpoints,
        arguments: &ServiceArguments,
        store: HostStore,
        tls: Option<&ServerTls>,
        report: &Report,
    ) -> Result<Self> {
        let limits = Limits {
            connections: arguments.max_connections as usize,
            ..Limits::default()
        };
        let service = Service::new(store, Metrics::default(), limits)
            .with_public_url(arguments.public_url.clone());
        allow_descriptors(arguments.max_connections.into());
        let listeners = listeners(endpoints, arguments, tls, &service, report)?;
        let chores = tokio::spawn(chores(service.store().clone(), tls.cloned()));
        Ok(Self {
            service,
            listeners,
            chores,
        })
    }

    /// Reports on `/readyz` that the service stops, waits [`NOTICE`], and then lets
    /// answers in progress finish.
    pub(crate) async fn stop(self, report: &Report) {
        report.stage("stopping: answers in progress may finish");
        self.chores.abort();
        self.service.announce_stop();
        tokio::time::sleep(NOTICE).await;
        let mut ends: JoinSet<()> = self.listeners.into_iter().map(Listening::stop).collect();
        while ends.join_next().await.is_some() {}
    }
}

/// What the service does every minute.
async fn chores(store: HostStore, tls: Option<ServerTls>) {
    let mut every = tokio::time::interval(MINUTE);
    loop {
        every.tick().await;
        store.drop_unused();
        // Other programs renew the certificate, and do not notify the service.
        match tls.as_ref().map(ServerTls::reload_if_changed) {
            Some(Ok(true)) => report::say("the new certificate is in use"),
            Some(Err(error)) => report::warn(&format!(
                "{:#}; the old certificate stays in use -- replace certificate and key",
                anyhow::Error::from(error)
            )),
            Some(Ok(false)) | None => {}
        }
    }
}

/// Raises the limit of open files, which shells set to 1024, as far as the system
/// allows.
fn allow_descriptors(connections: u64) {
    let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return;
    };
    // 64 more for the listeners, the runtime and the files of a reload.
    let needed = connections + 64;
    let raised = setrlimit(Resource::RLIMIT_NOFILE, needed.min(hard), hard);
    if raised.is_err() || hard < needed {
        report::warn(&format!(
            "expected {needed} open files for --max-connections {connections}, found at most {hard} -- raise LimitNOFILE or ulimit -n"
        ));
    }
}

fn listeners(
    endpoints: Endpoints,
    arguments: &ServiceArguments,
    tls: Option<&ServerTls>,
    service: &Service,
    report: &Report,
) -> Result<Vec<Listening>> {
    let default = [SocketAddr::from((Ipv6Addr::UNSPECIFIED, PORT))];
    let plain = match arguments.listen.as_slice() {
        [] if arguments.tls_listen.is_empty() => &default[..],
        given => given,
    };
    let plain = plain.iter().map(|address| (*address, None, endpoints));
    let secure = arguments.tls_listen.iter();
    let secure = secure.map(|address| (*address, tls.cloned(), endpoints));
    let status = arguments.status_listen.iter();
    let status = status.map(|address| (*address, None, Endpoints::Status));
    let mut listeners = Vec::new();
    for (address, tls, endpoints) in plain.chain(secure).chain(status) {
        let scheme = if tls.is_some() { "https" } else { "http" };
        let listening = listen(address, tls, service, endpoints)
            .with_context(|| format!("cannot listen on {address}"))?;
        report.stage(&format!("listening on {scheme}://{}", listening.address()));
        listeners.push(listening);
    }
    Ok(listeners)
}
