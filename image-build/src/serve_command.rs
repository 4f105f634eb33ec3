//! Runs the sub-command `landfall-image serve`.

mod content;
mod listeners;
mod watch;

use std::collections::HashMap;

use anyhow::{Context as _, Result};
use landfall_image_service::{HostStore, PublicUrl, ServerTls, Service};
use landfall_sys::service_notify::ServiceNotify;
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::ServeArguments;
use crate::report::{self, Report, counted, megabytes};
use content::{Content, EmptyFiles};
#[cfg(feature = "controller")]
pub(crate) use content::{base_files, common_version, warn_of_ignition_configs};
pub(crate) use listeners::{Running, runtime, tls};
use watch::Watch;

pub(crate) fn run(arguments: &ServeArguments) -> Result<()> {
    runtime(&arguments.service)?.block_on(serve(arguments))
}

async fn serve(arguments: &ServeArguments) -> Result<()> {
    let report = Report::new(false);
    // Install the handlers before anything else: without them these signals end the
    // program.
    let mut hang_up = signal(SignalKind::hangup()).context("cannot wait for SIGHUP")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
    let tls = tls(&arguments.service)?;
    report.stage("reading the base");
    let mut content = Content::new(arguments);
    let store = HostStore::new(content.load_base()?);
    // Start the watch before reading the hosts, so that it notices a change during the
    // read.
    let mut changes = match arguments.no_watch {
        true => None,
        false => Watch::of(content.places())?,
    };
    let hosts = content.hosts(EmptyFiles::AsGiven)?;
    let count = hosts.count();
    content.put(&store, hosts)?;
    store.set_ready(true);
    let running = Running::start(&arguments.service, store.clone(), tls.as_ref(), &report)?;
    let mut urls = Urls::default();
    urls.print(arguments, &store)?;
    let base = megabytes(store.base().size());
    report.stage(&format!("serving {}, base {base}", counted(count, "host")));
    let manager = ServiceNotify::from_environment().unwrap_or_default();
    if let Some(manager) = &manager {
        // Ignore an error: if the message does not arrive, the service manager reports a
        // timeout itself.
        let _ = manager.ready();
    }
    loop {
        let everything = tokio::select! {
            _ = hang_up.recv() => true,
            () = watch::changed(changes.as_mut()) => false,
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
        };
        let service = &running.service;
        let result = reload(&mut content, service, tls.as_ref(), everything);
        service.metrics().reloaded(result.is_ok());
        match result {
            Ok(line) => {
                report.stage(&line);
                if let Err(error) = urls.print(arguments, &store) {
                    report::warn(&format!("{error:#}"));
                }
            }
            Err(error) => report::warn(&format!("{error:#}; all hosts keep their old content")),
        }
    }
    running.stop(&report).await;
    Ok(())
}

/// Reads the hosts again, and with `everything` also the base and the certificate. After
/// an error, hosts, base and certificate are unchanged.
fn reload(
    content: &mut Content<'_>,
    service: &Service,
    tls: Option<&ServerTls>,
    everything: bool,
) -> Result<String> {
    let store = service.store();
    let tls = tls.filter(|_| everything);
    // Reading a base of gigabytes blocks this thread: let other threads take over its
    // clients meanwhile.
    let count = tokio::task::block_in_place(|| -> Result<usize> {
        let certificate = tls.map(|tls| tls.check().map(|files| (tls, files)));
        let certificate = certificate.transpose()?;
        let hosts = content.hosts(match everything {
            true => EmptyFiles::AsGiven,
            false => EmptyFiles::Suspicious,
        })?;
        let count = hosts.count();
        match everything.then(|| content.changed_base()).flatten() {
            Some(base) => content.put_on(store, base?, hosts)?,
            None => content.put(store, hosts)?,
        }
        if let Some((tls, files)) = certificate {
            tls.install(files);
        }
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

/// The URLs on standard output. Each URL contains the id of the host's version, so a
/// BMC that reads the URL always gets that version, even from another copy of the
/// service.
#[derive(Default)]
struct Urls {
    printed: HashMap<String, String>,
}

impl Urls {
    /// Prints a line for each host whose URL is new: its name and its URL.
    fn print(&mut self, arguments: &ServeArguments, store: &HostStore) -> Result<()> {
        let Some(public) = &arguments.service.public_url else {
            return Ok(());
        };
        let mut lines = Vec::new();
        let mut urls = HashMap::new();
        for name in store.names() {
            let Some(paths) = store.paths(&name) else {
                continue;
            };
            let url = public.join(&paths.iso)?;
            if self.printed.get(&name) != Some(&url) {
                if let Some(warning) = PublicUrl::warning(&url) {
                    report::warn(&warning);
                }
                lines.push(format!("{name} {url}"));
            }
            urls.insert(name, url);
        }
        self.printed = urls;
        report::print_lines(&lines)
    }
}
