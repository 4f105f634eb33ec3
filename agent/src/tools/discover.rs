//! `discover`: prints which service answers, over which NIC, and the address of this
//! machine that the service sees. If no service answers, it prints how far each NIC came.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use landfall_boot_params::argument_value::{ArgumentValue as _, HttpUrl, ServiceUrls};
use landfall_discovery::clock::Clock;
use landfall_discovery::{Expected, FoundService, NicWay, Place, Wanted};
use landfall_http_client::ServiceClient;
use landfall_network::NetworkState;
use landfall_network::reach::Reach;
use landfall_report::failure::{Failure, Result};
use landfall_settings::Settings;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::command_line_source::CommandLineSource;
use crate::http_options::http_options;
use crate::mdns_question::ironic_by_mdns;
use crate::tools::stdout;

/// `discover`
#[derive(Debug, Args)]
pub struct Arguments {
    /// Base URLs of Ironic, tried in order, or mdns [default: see --cmdline]
    #[arg(value_delimiter = ',', value_parser = place_of_service)]
    urls: Vec<String>,
    #[command(flatten)]
    source: CommandLineSource,
    /// Accept any certificate
    #[arg(long)]
    insecure: bool,
    /// Trust the CA certificates in this PEM file
    #[arg(long, value_name = "FILE")]
    cafile: Option<PathBuf>,
    /// Seconds until this command gives up; the agent itself never does
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints the service that answered first. If no service answers in time, prints the
/// reasons and fails.
pub fn run(arguments: Arguments) -> Result<()> {
    let settings = arguments.source.settings()?;
    let mut options = http_options(&settings)?;
    options.insecure |= arguments.insecure;
    options.ca_file = arguments.cafile.or(options.ca_file);
    let client = ServiceClient::new(&options)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::other(error.to_string()))?;
    let place = place(arguments.urls, &settings);
    let places = match &place {
        Place::Urls(urls) => urls.join(", "),
        Place::Mdns(_) => "mdns".to_owned(),
    };
    let limit = Duration::from_secs(arguments.timeout);
    let wanted = Wanted {
        what: landfall_discovery::PROVISIONING_SERVICE,
        place,
        expected: Expected::Ironic,
        timeout: Duration::from_secs(10),
        must_be_trusted: false,
    };
    let report = runtime.block_on(look(&client, &wanted, limit))?;
    if arguments.json {
        stdout::line(report.json())?;
    } else {
        report.lines(&places).iter().try_for_each(stdout::line)?;
    }
    match report.found {
        Some(_) => Ok(()),
        None => Err(Failure::other(format!(
            "no provisioning service answered within {} s at {places}",
            limit.as_secs()
        ))),
    }
}

/// The result of a search.
struct Report {
    network: NetworkState,
    reach: Reach,
    /// The service that answered, and the address from which this machine reaches it. An
    /// error says why the service cannot call back.
    found: Option<(FoundService, Result<String>)>,
}

async fn look(client: &ServiceClient, wanted: &Wanted, limit: Duration) -> Result<Report> {
    let state = landfall_network::observe().await.map_err(|error| {
        Failure::other(format!(
            "cannot read the network of this machine by netlink: {error}"
        ))
    })?;
    // Nothing configures the network during this run, so there are no changes to
    // report.
    let (_, mut network) = watch::channel(state);
    let (reach, _) = watch::channel(Reach::default());
    let mut clock = Clock::of_another_system();
    let search = async {
        let found =
            landfall_discovery::find(client, wanted, &mut network, &reach, &mut clock).await?;
        let source = landfall_discovery::source_towards(&found.urls).await;
        Ok::<_, Failure>((found, source.map(|source| source.to_string())))
    };
    let found = match tokio::time::timeout(limit, search).await {
        Ok(found) => Some(found?),
        Err(_) => None,
    };
    Ok(Report {
        network: network.borrow().clone(),
        reach: reach.borrow().clone(),
        found,
    })
}

impl Report {
    fn json(&self) -> Value {
        let (found, source) = self.found.as_ref().map_or((None, None), |(found, source)| {
            (Some(found), source.as_ref().ok())
        });
        let settings = found.into_iter().flat_map(|found| &found.settings);
        let settings: serde_json::Map<_, _> = settings
            .map(|(key, value)| (key.clone(), value.as_str().into()))
            .collect();
        let ways = landfall_discovery::ways(&self.network, &self.reach);
        let ways: Vec<_> = ways.iter().map(NicWay::json).collect();
        json!({
            "base": found.and_then(|found| found.urls.first()),
            "source": source,
            "settings": settings,
            "interfaces": ways,
        })
    }

    fn lines(&self, places: &str) -> Vec<String> {
        let Some((found, source)) = &self.found else {
            return landfall_discovery::screen(places, &self.network, &self.reach);
        };
        let base = found.urls.first().map_or("", String::as_str);
        let answer = match source {
            Ok(source) => format!("{base} answers, reached from {source}"),
            Err(why) => format!("{base} answers, but cannot call back: {why}"),
        };
        let settings = found.settings.iter();
        let settings = settings.map(|(key, value)| format!("  it says {key}={value}"));
        [answer].into_iter().chain(settings).collect()
    }
}

fn place(given: Vec<String>, settings: &Settings) -> Place {
    match (given.as_slice(), &settings.params.api_url.value) {
        ([], Some(ServiceUrls::Urls(urls))) => Place::Urls(urls.clone()),
        ([], _) => Place::Mdns(ironic_by_mdns(&settings.params)),
        ([word], _) if word == "mdns" => Place::Mdns(ironic_by_mdns(&settings.params)),
        _ => Place::Urls(given),
    }
}

/// Checks that `text` is one URL, or `mdns`.
fn place_of_service(text: &str) -> std::result::Result<String, String> {
    if ServiceUrls::parse(text).is_some() {
        return Ok(text.to_owned());
    }
    let with_scheme = format!("http://{text}");
    let advice = match HttpUrl::parse(&with_scheme) {
        Some(_) if !text.contains("://") => format!("; did you mean {with_scheme}?"),
        _ => String::new(),
    };
    Err(format!("expected mdns or {}{advice}", HttpUrl::EXPECTED))
}
