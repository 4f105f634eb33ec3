//! `discover`: which service answers, and our address towards it.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use landfall_boot_params::argument_value::ServiceUrls;
use serde_json::json;
use tokio::sync::watch;

use super::command_line_source::CommandLineSource;
use crate::clock::Clock;
use crate::discovery::{self, Found, Place, Wanted};
use crate::failure::{Class, Failure, Result};
use crate::http_client::ServiceClient;
use crate::settings::Settings;
use crate::stages::{http_options, ironic_by_mdns};

/// `discover`
#[derive(Debug, Args)]
pub struct Arguments {
    /// Base URLs of Ironic, tried in order, or mdns [default: see --cmdline]
    #[arg(value_delimiter = ',')]
    urls: Vec<String>,
    #[command(flatten)]
    source: CommandLineSource,
    /// Accept any certificate
    #[arg(long)]
    insecure: bool,
    /// Trust the authorities in this PEM file
    #[arg(long, value_name = "FILE")]
    cafile: Option<PathBuf>,
    /// Give up after so many seconds; the agent itself never does
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints the service that answered first.
///
/// # Errors
/// If none answers in time.
pub fn run(arguments: Arguments) -> Result<()> {
    let settings = arguments.source.settings()?;
    let mut options = http_options(&settings)?;
    options.insecure |= arguments.insecure;
    options.ca_file = arguments.cafile.or(options.ca_file);
    let client = ServiceClient::new(&options)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| fault(error.to_string()))?;
    let place = place(arguments.urls, &settings);
    let places = match &place {
        Place::Urls(urls) => urls.join(", "),
        Place::Mdns(_) => "mdns".to_owned(),
    };
    let limit = Duration::from_secs(arguments.timeout);
    let wanted = Wanted {
        place,
        timeout: Duration::from_secs(10),
    };
    let (found, source) = runtime
        .block_on(async { tokio::time::timeout(limit, search(&client, &wanted)).await })
        .map_err(|_| {
            fault(format!(
                "nothing answered within {} s at {places}",
                limit.as_secs()
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

fn place(given: Vec<String>, settings: &Settings) -> Place {
    match (given.as_slice(), &settings.params.api_url.value) {
        ([], Some(ServiceUrls::Urls(urls))) => Place::Urls(urls.clone()),
        ([], _) => Place::Mdns(ironic_by_mdns(&settings.params)),
        ([word], _) if word == "mdns" => Place::Mdns(ironic_by_mdns(&settings.params)),
        _ => Place::Urls(given),
    }
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
