//! Runs the sub-command `landfall-image controller`: the image service, with the
//! hosts of Kubernetes' resources.

mod log;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, Result};
use landfall_controller::{Images, command};
use landfall_image_service::{Base, Endpoints, HostStore, ServerTls, Service};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use crate::cli::ControllerArguments;
use crate::report::{Report, megabytes};
use crate::serve_command::{
    Running, base_files, common_version, runtime, tls, warn_of_ignition_configs,
};

/// The address of the status endpoints if no other one is given. Clients of the images
/// cannot reach this address; they must not, because the status lists all hosts.
const STATUS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8085);
/// The interval at which the reads of removed hosts are dropped from the status.
const UPKEEP: Duration = Duration::from_secs(60);

pub(crate) fn run(arguments: &ControllerArguments) -> Result<()> {
    log::install();
    runtime(&arguments.service)?.block_on(control(arguments))
}

async fn control(arguments: &ControllerArguments) -> Result<()> {
    let report = Report::new(false);
    // Do this first: until then a signal ends the program at once.
    let mut hang_up = signal(SignalKind::hangup()).context("cannot wait for SIGHUP")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
    let mut service = arguments.service.clone();
    service.status_listen.get_or_insert(STATUS);
    let service = &service;
    let public_url = service.public_url.clone();
    let public_url = public_url.context(
        "expected --public-url: the controller writes it into the resources, and BMCs use it",
    )?;
    let tls = tls(service)?;
    report.stage("reading the base");
    let store = HostStore::new(Base::load(&base_files(service))?);
    warn_of_ignition_configs(service)?;
    let base = megabytes(store.base().size());
    let images = Images::new(store.clone(), common_version(service)?, public_url);
    // Do this before a port is open: an error here ends the program.
    let cluster = command::Cluster::find().await?;
    let running = Running::start_as(Endpoints::Versions, service, store, tls.as_ref(), &report)?;
    report.stage(&format!("waiting for the API server, base {base}"));
    let stop = watch::Sender::new(false);
    let mut stops = stop.subscribe();
    let stopped = async move {
        // An error means that the sender was dropped, so the controller stops as well.
        let _ = stops.wait_for(|stop| *stop).await;
    };
    let controlled = command::run(cluster, &arguments.controller, images, stopped);
    tokio::pin!(controlled);
    let mut upkeep = interval(UPKEEP);
    upkeep.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let ended = loop {
        tokio::select! {
            result = &mut controlled => break Some(result),
            _ = terminate.recv() => break None,
            _ = interrupt.recv() => break None,
            _ = hang_up.recv() => renew(tls.as_ref()),
            _ = upkeep.tick() => forget_removed_hosts(&running.service),
        }
    };
    // Stop the controller and the image service at the same time, because Kubernetes
    // kills a pod that takes too long. After an error of the controller, the image
    // service also lets answers in progress finish, because a host may be reading its
    // image.
    stop.send_replace(true);
    let controller = async {
        match ended {
            Some(result) => result,
            None => controlled.await,
        }
    };
    let (result, ()) = tokio::join!(controller, running.stop(&report));
    Ok(result?)
}

/// Reads the certificate and the key again, for new connections.
fn renew(tls: Option<&ServerTls>) {
    match tls.map(ServerTls::reload) {
        Some(Ok(())) => tracing::info!("reloaded the certificate"),
        Some(Err(error)) => tracing::warn!("{error}; the old certificate stays in use"),
        None => {}
    }
}

/// Drops the reads of hosts that the service no longer serves.
fn forget_removed_hosts(service: &Service) {
    let names = service.store().names();
    let is_served = |host: &str| {
        names
            .binary_search_by(|name| name.as_str().cmp(host))
            .is_ok()
    };
    service.reads().retain(is_served);
}
