//! `discover`: which service answers, and our address towards it.

use std::time::Duration;

use clap::Args;
use serde_json::json;
use tokio::sync::watch;

use crate::clock::Clock;
use crate::discovery::{self, Found, Place, Question, Wanted};
use crate::failure::{Class, Failure, Result};
use crate::http_client::{HttpOptions, ServiceClient};

/// How long the tool looks: the agent itself never gives up, a person does.
const DISCOVERY_LIMIT: Duration = Duration::from_secs(60);

/// `discover`
#[derive(Debug, Args)]
pub struct Arguments {
    /// Base URLs of Ironic, without /v1, tried in order; or the word mdns
    #[arg(required = true, value_delimiter = ',')]
    urls: Vec<String>,
    /// Accept any certificate
    #[arg(long)]
    insecure: bool,
    /// Trust the authorities in this PEM file
    #[arg(long, value_name = "FILE")]
    cafile: Option<std::path::PathBuf>,
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
        ca_file: arguments.cafile,
        ..HttpOptions::default()
    })?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| fault(error.to_string()))?;
    let places = arguments.urls.join(", ");
    let place = match arguments.urls.as_slice() {
        [word] if word == "mdns" => Place::Mdns(Question {
            instances: &["baremetal"],
            attempts: 3,
            interfaces: Vec::new(),
        }),
        _ => Place::Urls(arguments.urls),
    };
    let wanted = Wanted {
        place,
        timeout: Duration::from_secs(10),
    };
    let (found, source) = runtime
        .block_on(async { tokio::time::timeout(DISCOVERY_LIMIT, search(&client, &wanted)).await })
        .map_err(|_| {
            fault(format!(
                "nothing answered within {} s at {places}",
                DISCOVERY_LIMIT.as_secs()
            ))
        })?;
    let base = found.urls.first().cloned().unwrap_or_default();
    if arguments.json {
        let told: serde_json::Map<_, _> = found
            .settings
            .into_iter()
            .map(|(key, value)| (key, value.into()))
            .collect();
        println!(
            "{}",
            json!({"base": base, "source": source.as_ref().ok(), "settings": told})
        );
    } else {
        match &source {
            Ok(source) => println!("{base} answers, reached from {source}"),
            Err(why) => println!("{base} answers, but cannot call back: {why}"),
        }
        for (key, value) in &found.settings {
            println!("  it says {key}={value}");
        }
    }
    Ok(())
}

/// What answers, and our address towards it if another host can name it.
async fn search(
    client: &ServiceClient,
    wanted: &Wanted,
) -> (Found, std::result::Result<String, String>) {
    let (_never_changes, mut network) = watch::channel(());
    let mut clock = Clock::of_somebody();
    let found = discovery::find(client, wanted, &mut network, &mut clock).await;
    let source = discovery::source_towards(&found.urls).await;
    (found, source.map(|source| source.to_string()))
}

fn fault(text: String) -> Failure {
    Failure::new(Class::CommandExecutionError, text)
}
