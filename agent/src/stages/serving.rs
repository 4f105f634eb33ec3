//! The last stage: serves commands and sends heartbeats until a command ends the
//! boot.

use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use landfall_discovery::{Advertised, FoundService};
use landfall_init::Ending;
use landfall_ironic::{Callback, LookupAnswer, Service, beat_forever};
use landfall_report::failure::{Failure, Result};
use landfall_report::status::{self, begin_step};
use landfall_sys::state_file::StateFile;
use tokio::sync::{Notify, watch};

use super::Boot;
use super::remarks::repeat_remarks;
use crate::api::{self, Api, Listening, TlsIdentity};
use crate::commands::{Departure, Dispatcher, Interrupted, Ledger, Machine, Node, WAITING};
use crate::http_options::{image_options, tls_policy};
use crate::rescue;

/// Carries out commands. Stays the same when the agent serves at another address.
struct Work {
    dispatcher: Dispatcher,
    command_ended: Arc<Notify>,
    departure: watch::Receiver<Option<Departure>>,
}

/// What the lookup has returned about this machine.
struct Known<'a> {
    service: &'a Service,
    node: &'a LookupAnswer,
    token: &'a str,
}

impl Boot {
    /// Serves commands and sends heartbeats until a command ends the boot. If the machine
    /// loses its address, the agent serves at another one.
    pub(super) async fn serve(
        mut self,
        service: &Service,
        found: &FoundService,
        node: LookupAnswer,
        token: &str,
    ) -> Result<Ending> {
        tracing::info!("this machine is node {}", node.uuid);
        status::update(|status| status.node = Some(node.uuid.clone()));
        status::retry_succeeded("lookup");
        begin_step(WAITING);
        if let Some(pages) = self.pages.take() {
            pages.stop().await;
        }
        let mut address = self.advertised(found).await?;
        let (mut work, interrupted) = self.work(&node)?;
        if let Some(interrupted) = interrupted {
            work.dispatcher.resume(interrupted);
        }
        let known = Known {
            service,
            node: &node,
            token,
        };
        let departure = loop {
            if let Some(departure) = self.serve_at(&address, &known, &mut work).await? {
                break departure;
            }
            let lost = std::mem::replace(&mut address, self.advertised(found).await?);
            tracing::warn!(
                "this machine has lost the address {lost}: the agent now reports {address}, \
                 which Ironic rejects while it remembers the old address"
            );
        };
        self.clock.save();
        match departure {
            Departure::Boot(ending) => Ok(ending),
            Departure::Rescue => match rescue::leave_to_the_user().await {},
        }
    }

    fn work(&self, node: &LookupAnswer) -> Result<(Work, Option<Interrupted>)> {
        let (ledger, interrupted) = Ledger::restore(self.state);
        let command_ended = Arc::new(Notify::new());
        let (departure_wanted, departure) = watch::channel(None);
        let machine = Machine {
            settings: Arc::clone(&self.settings),
            client: landfall_http_client::image_client(&image_options(&self.settings)?)?,
            http: image_options(&self.settings)?,
            devices_settled: self.devices_settled.clone(),
            departure: departure_wanted,
            live: self.live.clone(),
            node: Mutex::new(Node(node.node.clone())),
            prepared: Mutex::default(),
            written_disk: StateFile::new(self.state, "written-disk"),
        };
        let work = Work {
            dispatcher: Dispatcher::new(ledger, machine.executor(), Arc::clone(&command_ended))
                .md5_enabled(*self.settings.params.md5_enabled),
            command_ended,
            departure,
        };
        Ok((work, interrupted))
    }

    /// Serves at this address until a command ends the boot. `None` if the machine
    /// loses the address.
    async fn serve_at(
        &mut self,
        address: &Advertised,
        known: &Known<'_>,
        work: &mut Work,
    ) -> Result<Option<Departure>> {
        let identity = self.tls_identity(known.service, address)?;
        let server = self.listen(identity.as_ref(), work, known.token)?;
        let callback = self.callback(address, identity.as_ref(), known.token);
        tracing::info!("serving commands at {}", callback.url);
        let heartbeats = beat_forever(
            known.service,
            &known.node.uuid,
            &callback,
            *self.settings.params.heartbeat_timeout,
            &work.command_ended,
        );
        let outcome = tokio::select! {
            wanted = work.departure.wait_for(Option::is_some) => match wanted {
                Ok(departure) => Ok(*departure),
                // An error would mean that all senders were dropped, but the dispatcher
                // keeps a sender.
                Err(_) => Err(Failure::other("the command dispatcher has ended unexpectedly")
                    .hint("report it as a bug of Landfall, with the log archive")),
            },
            fault = heartbeats => match fault {
                Ok(never) => match never {},
                Err(fault) => Err(Failure::other(format!("heartbeat: {fault}"))),
            },
            () = landfall_discovery::address_lost(address, &mut self.network) => Ok(None),
            never = repeat_remarks(&self.remarks) => never,
        };
        server.stop().await;
        outcome
    }

    fn listen(
        &self,
        identity: Option<&TlsIdentity>,
        work: &Work,
        token: &str,
    ) -> Result<Listening> {
        let params = &self.settings.params;
        let policy = tls_policy(&self.settings);
        let tls = identity.map(|identity| identity.server_config(&policy));
        let routes = api::router(Api {
            dispatcher: work.dispatcher.clone(),
            token: token.into(),
            scheme: if identity.is_some() { "https" } else { "http" },
            started: SystemTime::now(),
            status: *params.status,
            refused: Arc::default(),
        });
        let port = *params.listen_port;
        api::listen(params.listen_host.value, port, tls.transpose()?, routes)
            .map_err(|error| Failure::other(format!("cannot listen on port {port}: {error}")))
    }

    fn callback(
        &self,
        address: &Advertised,
        identity: Option<&TlsIdentity>,
        token: &str,
    ) -> Callback {
        Callback {
            url: format!(
                "{}://{}:{}",
                self.advertised_scheme(identity),
                address.in_url(),
                *self.settings.params.advertise_port
            ),
            certificate: identity
                .and_then(TlsIdentity::own_certificate)
                .map(str::to_owned),
            token: token.to_owned(),
        }
    }
}
