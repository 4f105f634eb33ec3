//! `discover`: which service answers, and our address towards it.

use std::time::Duration;

use clap::Args;
use serde_json::json;
use tokio::sync::watch;

use crate::discovery::{self, Wanted};
use crate::failure::{Class, Failure, Result};
use crate::http_client::{HttpOptions, ServiceClient};

/// How long the tool looks: the agent itself never gives up, a person does.
const DISCOVERY_LIMIT: Duration = Duration::from_secs(60);

/// `discover`
#[derive(Debug, Args)]
pub struct Arguments {
    /// Base URL of Ironic, without /v1; several are tried in order
    #[arg(required = true)]
    urls: Vec<String>,
    /// Accept any certificate
    #[arg(long)]
    insecure: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints the service that answered first.
///
/// # Errors
/// If none answers in time.
pub fn run(arguments: Arguments) -> Result<()> {
    let client = ServiceClient::new(&HttpOptions {
        insecure: arguments.insecure,
        ..HttpOptions::default()
    })?;
    let fault = |text: String| Failure::new(Class::CommandExecutionError, text);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| fault(error.to_string()))?;
    let places = arguments.urls.join(", ");
    let wanted = Wanted {
        urls: arguments.urls,
        timeout: Duration::from_secs(10),
    };
    let (_never_changes, mut network) = watch::channel(());
    let search = discovery::find(&client, &wanted, &mut network);
    let found = runtime
        .block_on(async { tokio::time::timeout(DISCOVERY_LIMIT, search).await })
        .map_err(|_| {
            fault(format!(
                "nothing answered within {} s at {places}",
                DISCOVERY_LIMIT.as_secs()
            ))
        })?;
    if arguments.json {
        println!("{}", json!({"base": found.base, "source": found.source}));
    } else {
        println!("{} answers, reached from {}", found.base, found.source);
    }
    Ok(())
}
