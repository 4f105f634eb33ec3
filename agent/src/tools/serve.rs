//! `serve`: serves the agent's API on any machine, for developers of API clients.
//!
//! The API is the same as in the ramdisk. Commands that only read succeed. Commands that
//! would write to a disk or end the machine fail, because this tool has no permission for
//! that.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime};

use clap::Args;
use landfall_boot_params::CommandLine;
use landfall_boot_params::argument_value::CertificateCurve;
use landfall_discovery::Advertised;
use landfall_http_client::HttpOptions;
use landfall_http_client::tls::TlsPolicy;
use landfall_report::failure::{Failure, Result};
use landfall_settings::media::Media;
use landfall_settings::{ConfigFiles, IgnitionParts, Settings};
use landfall_sys::state_file::StateFile;
use tokio::sync::{Notify, watch};

use crate::api::{self, Api, TlsIdentity};
use crate::commands::{Dispatcher, Ledger, Machine};
use crate::tools::stdout;

/// `serve`
#[derive(Debug, Args)]
pub struct Arguments {
    /// Serve without Ironic; required, because no other mode exists yet
    #[arg(long, required = true)]
    standalone: bool,
    /// Address and port to listen on; port 0 selects a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9999")]
    listen: SocketAddr,
    /// Token that clients must send with their commands
    #[arg(long, value_name = "TOKEN")]
    agent_token: String,
    /// Use HTTP instead of HTTPS with a temporary certificate
    #[arg(long)]
    plain_http: bool,
}

/// Prints the address, then serves until the process is ended. Fails if it cannot listen
/// on the port.
pub fn run(arguments: &Arguments) -> Result<()> {
    if arguments.agent_token.is_empty() {
        return Err(Failure::other(
            "--agent-token: expected a token, found an empty text",
        ));
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::other(error.to_string()))?;
    runtime.block_on(serve(arguments))
}

async fn serve(arguments: &Arguments) -> Result<()> {
    let settings = Arc::new(Settings::from_sources(
        CommandLine::parse(""),
        Media::default(),
        ConfigFiles::default(),
        IgnitionParts::default(),
    ));
    let (departure, mut departs) = watch::channel(None);
    let (_settled, devices_settled) = watch::channel(Some(Instant::now()));
    let machine = Machine {
        client: landfall_http_client::image_client(&HttpOptions::default())?,
        http: HttpOptions::default(),
        settings,
        devices_settled,
        departure,
        live: None,
        node: Mutex::default(),
        prepared: Mutex::default(),
        written_disk: StateFile::nowhere(),
    };
    let ended = Arc::<Notify>::default();
    let dispatcher = Dispatcher::new(Ledger::in_memory(), machine.executor(), ended).standalone();
    let identity = (!arguments.plain_http)
        .then(|| identity(arguments.listen.ip()))
        .transpose()?;
    let scheme = if identity.is_some() { "https" } else { "http" };
    let server = api::listen(
        Some(arguments.listen.ip()),
        arguments.listen.port(),
        identity
            .as_ref()
            .map(|identity| identity.server_config(&TlsPolicy::default()))
            .transpose()?,
        api::router(Api {
            dispatcher,
            token: arguments.agent_token.as_str().into(),
            scheme,
            started: SystemTime::now(),
            status: true,
            refused: Arc::default(),
        }),
    )
    .map_err(|error| Failure::other(format!("cannot listen at {}: {error}", arguments.listen)))?;
    // A program that reads this line can connect to the server.
    stdout::line(format!("serving at {scheme}://{}", server.address()))?;
    // A command ends this server only in the ramdisk, where it is permitted to end the
    // boot.
    let _ = departs.wait_for(Option::is_some).await;
    server.stop().await;
    Ok(())
}

fn identity(address: IpAddr) -> Result<TlsIdentity> {
    TlsIdentity::restore_or_make(
        &StateFile::nowhere(),
        &Advertised::Address(address),
        "localhost",
        CertificateCurve::P384,
    )
}
