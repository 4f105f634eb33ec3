//! Runs the sub-command `landfall-image serve`.

mod content;
mod watch;

use std::net::{Ipv6Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, Result};
use landfall_image_service::{
    HostStore, Limits, Listening, Metrics, PublicUrl, ServerTls, Service, Shown, listen,
};
use landfall_sys::service_notify::ServiceNotify;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

use crate::cli::ServeArguments;
use crate::report::{self, Report, counted, megabytes};
use content::Content;

/// The port for http if none is given.
const PORT: u16 = 8080;
/// How long `/readyz` says that the service stops before it accepts no more
/// clients. A load balancer that asks every second then has noticed.
const NOTICE: Duration = Duration::from_secs(2);

pub(crate) fn run(arguments: &ServeArguments) -> Result<()> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if let Some(threads) = arguments.threads {
        runtime.worker_threads(threads.into());
    }
    let runtime = runtime.enable_all().build();
    runtime
        .context("cannot start the threads")?
        .block_on(serve(arguments))
}

async fn serve(arguments: &ServeArguments) -> Result<()> {
    let report = Report::new(false);
    // Before anything else: until then a signal ends the program.
    let mut hang_up = signal(SignalKind::hangup()).context("cannot wait for SIGHUP")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
    let tls = match (&arguments.tls_cert, &arguments.tls_key) {
        (Some(certificate), Some(key)) => {
            Some(ServerTls::from_files(certificate.clone(), key.clone())?)
        }
        _ => None,
    };
    report.stage("reading the base");
    let mut content = Content::new(arguments);
    let store = HostStore::new(content.load_base()?);
    let hosts = content.hosts()?;
    let count = hosts.len();
    content.put(&store, hosts)?;
    store.set_ready(true);
    let service = Service::new(
        store.clone(),
        Metrics::default(),
        Limits {
            connections: arguments.max_connections as usize,
            ..Limits::default()
        },
    );
    allow_descriptors(arguments.max_connections.into());
    let listeners = listeners(arguments, tls.as_ref(), &service, &report)?;
    print_urls(arguments, &store)?;
    let base = megabytes(store.base().size());
    report.stage(&format!("serving {}, base {base}", counted(count, "host")));
    let manager = ServiceNotify::from_environment().unwrap_or_default();
    if let Some(manager) = &manager {
        // Without the message the service manager would wait; it reports that itself.
        let _ = manager.ready();
    }
    let mut changes = match arguments.no_watch {
        true => None,
        false => watch::of(&content.directories())?,
    };
    loop {
        let everything = tokio::select! {
            _ = hang_up.recv() => true,
            () = watch::changed(changes.as_mut()) => false,
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
        };
        let result = reload(&mut content, &service, tls.as_ref(), everything);
        service.metrics().reloaded(result.is_ok());
        match result {
            Ok(line) => report.stage(&line),
            Err(error) => report::warn(&format!("{error:#}; all hosts keep their old content")),
        }
    }
    report.stage("stopping: answers in progress may finish");
    service.announce_stop();
    tokio::time::sleep(NOTICE).await;
    let mut ends: JoinSet<()> = listeners.into_iter().map(Listening::stop).collect();
    while ends.join_next().await.is_some() {}
    Ok(())
}

/// Reads the hosts again, and with `everything` also the base and the certificate.
/// After an error nothing has changed.
fn reload(
    content: &mut Content<'_>,
    service: &Service,
    tls: Option<&ServerTls>,
    everything: bool,
) -> Result<String> {
    let store = service.store();
    let tls = tls.filter(|_| everything);
    // The base may be gigabytes: do not stop the other threads' clients meanwhile.
    let count = tokio::task::block_in_place(|| -> Result<usize> {
        tls.map_or(Ok(()), ServerTls::check)?;
        let hosts = content.hosts()?;
        let count = hosts.len();
        match everything.then(|| content.changed_base()).flatten() {
            Some(base) => content.put_on(store, base?, hosts)?,
            None => content.put(store, hosts)?,
        }
        tls.map_or(Ok(()), ServerTls::reload)?;
        Ok(count)
    })?;
    let names = store.names();
    service.reads().retain(|host| {
        names
            .binary_search_by(|name| name.as_str().cmp(host))
            .is_ok()
    });
    Ok(format!("reloaded: serving {}", counted(count, "host")))
}

/// Raises the limit of open files, which shells set to 1024, as far as the system
/// allows.
fn allow_descriptors(connections: u64) {
    let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return;
    };
    // Some for the listeners, the runtime and the files of a reload.
    let needed = connections + 64;
    let raised = setrlimit(Resource::RLIMIT_NOFILE, needed.min(hard), hard);
    if raised.is_err() || hard < needed {
        report::warn(&format!(
            "expected {needed} open files for --max-connections {connections}, found at most {hard} -- raise LimitNOFILE or ulimit -n"
        ));
    }
}

fn listeners(
    arguments: &ServeArguments,
    tls: Option<&ServerTls>,
    service: &Service,
    report: &Report,
) -> Result<Vec<Listening>> {
    let shown = match arguments.status_listen {
        Some(_) => Shown::Images,
        None => Shown::Everything,
    };
    let default = [SocketAddr::from((Ipv6Addr::UNSPECIFIED, PORT))];
    let plain = match arguments.listen.as_slice() {
        [] if arguments.tls_listen.is_empty() => &default[..],
        given => given,
    };
    let plain = plain.iter().map(|address| (*address, None, shown));
    let secure = arguments.tls_listen.iter();
    let secure = secure.map(|address| (*address, tls.cloned(), shown));
    let status = arguments.status_listen.iter();
    let status = status.map(|address| (*address, None, Shown::Status));
    let mut listeners = Vec::new();
    for (address, tls, shown) in plain.chain(secure).chain(status) {
        let scheme = if tls.is_some() { "https" } else { "http" };
        let listening = listen(address, tls, service, shown)
            .with_context(|| format!("cannot listen on {address}"))?;
        report.stage(&format!("listening on {scheme}://{}", listening.address()));
        listeners.push(listening);
    }
    Ok(listeners)
}

/// One line for each host on standard output: its name and its URL.
fn print_urls(arguments: &ServeArguments, store: &HostStore) -> Result<()> {
    let Some(public) = &arguments.public_url else {
        return Ok(());
    };
    let mut lines = Vec::new();
    for name in store.names() {
        let Some(paths) = store.paths(&name) else {
            continue;
        };
        let url = public.join(&paths.newest_iso)?;
        if let Some(warning) = PublicUrl::warning(&url) {
            report::warn(&warning);
        }
        lines.push(format!("{name} {url}"));
    }
    report::print_lines(&lines)
}
