//! Tests the whole exchange with Ironic, against HTTP servers and against
//! recordings of the real Ironic.

mod connections;
mod recorded;

use std::future::pending;
use std::time::{Duration, Instant};

use landfall_http_client::fixtures::{Certificate, Reply, Server, dead_url, run};
use landfall_http_client::{HttpOptions, ServiceClient};
use landfall_network::NetworkState;
use landfall_network::lab::{log_lines_during, nic};
use landfall_network::state::NicState;
use landfall_report::status::begin_step;
use landfall_sys::state_file::StateFile;
use tempfile::TempDir;
use tokio::sync::{Notify, watch};

use super::*;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const NEW: &str = r#"{"default_version": {"version": "1.115"}}"#;

fn transport() -> Transport {
    Transport {
        client: ServiceClient::new(&HttpOptions::default()).unwrap(),
        request_id: Some("req-1".to_owned()),
        timeout: Duration::from_secs(5),
    }
}

fn query() -> Query {
    query_of(machine(&["52:54:00:00:00:02"]))
}

fn query_of(state: NetworkState) -> Query {
    Query {
        network: watch::channel(state).1,
        with_bmc_nics: false,
        boot_mac: None,
        node_uuid: None,
    }
}

/// A machine with these NICs.
fn machine(macs: &[&str]) -> NetworkState {
    let nic = |(mac, index): (&&str, u32)| NicState {
        mac: mac.parse().unwrap(),
        ..nic(index, false)
    };
    NetworkState {
        nics: macs.iter().zip(0..).map(nic).collect(),
        ..NetworkState::default()
    }
}

fn known(token: &str) -> Reply {
    Reply::new(
        200,
        format!(
            r#"{{"node": {{"uuid": "6d85"}}, "config": {{"heartbeat_timeout": 300, "agent_token": {token}}}}}"#
        ),
    )
}

const QUICK: RetryPolicy = RetryPolicy {
    interval: Duration::from_millis(1),
    total: Duration::from_secs(20),
};

fn service(ironic: &Server) -> Service {
    Service::new(transport(), std::slice::from_ref(&ironic.base), NEW, None)
}

/// Looks up a machine with one NIC.
fn look_up(service: &Service, retry_policy: RetryPolicy) -> Result<(LookupAnswer, String), NoNode> {
    let dir = TempDir::new().unwrap();
    let mut token = token(&dir);
    let mut query = query();
    run(look_up_until_known(
        service,
        &mut query,
        &mut token,
        retry_policy,
    ))
}

fn post(
    ironic: &Server,
    retry: Retry,
    out_of_date: impl Future<Output = ()>,
) -> Result<Option<String>, NotTaken> {
    let urls = [format!("{}/v1/continue_inspection", ironic.base)];
    run(post_inventory(
        &transport(),
        &urls,
        "{}",
        retry,
        out_of_date,
    ))
}

#[test]
fn an_inventory_that_is_too_large_is_not_posted_again() {
    for retry in [Retry::Limited, Retry::Forever] {
        let ironic = Server::scripted([Reply::new(413, "")]);
        let posted = post(&ironic, retry, pending());
        assert!(matches!(posted, Err(NotTaken::TooLarge(_))), "{posted:?}");
        assert_eq!(ironic.asked().len(), 1);
    }
}

async fn until_asked(ironic: &Server, times: usize) {
    while ironic.asked().len() < times {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn token(dir: &TempDir) -> AgentToken {
    AgentToken::restore(StateFile::new(dir.path(), "token"), None)
}

#[test]
fn lookup_goes_on_through_everything_that_is_no_node() {
    let ironic = Server::scripted([
        Reply::new(404, r#"{"error_message": {"faultstring": "not yet"}}"#),
        Reply::new(500, "<html>"),
        Reply::new(200, "no JSON"),
        Reply::new(200, r#"{"node": {}, "config": {"heartbeat_timeout": 300}}"#),
        Reply::new(200, r#"{"node": {"uuid": "6d85"}}"#),
        // A missing or too short token, as from an Ironic that is still starting.
        known("null"),
        known("\"short\""),
        known(&format!("\"{TOKEN}\"")),
    ]);
    let service = service(&ironic);
    let (node, secret) = look_up(&service, QUICK).unwrap();
    assert_eq!((node.uuid.as_str(), secret.as_str()), ("6d85", TOKEN));
    let asked = ironic.asked();
    assert_eq!(asked.len(), 8);
    for request in asked {
        assert_eq!(
            request.line,
            "GET /v1/lookup?addresses=52%3A54%3A00%3A00%3A00%3A02 HTTP/1.1"
        );
        assert_eq!(
            request.header("x-openstack-ironic-api-version"),
            Some("1.62")
        );
        assert_eq!(request.header("x-openstack-request-id"), Some("req-1"));
    }
}

/// The pause is a minute long, but the new NIC ends it.
#[test]
fn a_nic_whose_driver_loads_late_is_looked_up_at_once() {
    let ironic = Server::scripted([Reply::new(404, "{}"), known(&format!("\"{TOKEN}\""))]);
    let service = service(&ironic);
    let retry_policy = RetryPolicy {
        interval: Duration::from_secs(60),
        total: Duration::from_secs(300),
    };
    let (sender, network) = watch::channel(machine(&["52:54:00:00:00:02"]));
    let mut query = Query {
        network,
        with_bmc_nics: false,
        boot_mac: None,
        node_uuid: None,
    };
    let dir = TempDir::new().unwrap();
    let since = Instant::now();
    run(async {
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(500)).await;
            sender.send_replace(machine(&["52:54:00:00:00:02", "52:54:00:00:00:03"]));
            sender.closed().await;
        });
        look_up_until_known(&service, &mut query, &mut token(&dir), retry_policy).await
    })
    .unwrap();
    assert!(since.elapsed() < Duration::from_secs(20), "{since:?}");
    let lines: Vec<_> = { ironic.asked().into_iter() }
        .map(|request| request.line)
        .collect();
    let late = "GET /v1/lookup?addresses=52%3A54%3A00%3A00%3A00%3A02%2C52%3A54%3A00%3A00%3A00%3A03";
    assert_eq!(lines.len(), 2, "{lines:#?}");
    assert!(lines[1].starts_with(late), "{lines:#?}");
}

#[test]
fn a_locked_node_is_asked_for_five_seconds_later() {
    let ironic = Server::scripted([Reply::new(409, "{}"), known(&format!("\"{TOKEN}\""))]);
    let service = service(&ironic);
    let since = Instant::now();
    look_up(&service, QUICK).unwrap();
    assert!(since.elapsed() >= Duration::from_secs(5));
}

#[test]
fn lookup_ends_when_its_time_is_over() {
    let ironic = Server::start(|_| Reply::new(404, "{}"));
    let service = service(&ironic);
    let retry_policy = RetryPolicy {
        total: Duration::from_secs(1),
        ..QUICK
    };
    let since = Instant::now();
    let fault = look_up(&service, retry_policy).unwrap_err();
    assert!(matches!(fault, NoNode::NotInTime { .. }), "{fault}");
    assert!(fault.to_string().contains("52:54:00:00:00:02"), "{fault}");
    assert!((1..10).contains(&since.elapsed().as_secs()));
}

/// The message contains one remedy, and it fits the cause.
#[test]
fn a_lookup_that_ends_without_trust_names_the_remedy_last() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let own = Certificate::named([127, 0, 0, 1], "lab");
    let other = Certificate::named([127, 0, 0, 1], "other");
    let ironic = Server::secure(&own, |_| Reply::new(404, "{}"));
    let dir = TempDir::new().unwrap();
    let ca_file = dir.path().join("ca.pem");
    std::fs::write(&ca_file, &other.pem).unwrap();
    let options = HttpOptions {
        ca_file: Some(ca_file),
        ..HttpOptions::default()
    };
    let transport = Transport {
        client: ServiceClient::new(&options).unwrap(),
        ..transport()
    };
    let urls = std::slice::from_ref(&ironic.base);
    let service = Service::new(transport, urls, NEW, None);
    let retry_policy = RetryPolicy {
        total: Duration::from_millis(500),
        ..QUICK
    };
    let fault = look_up(&service, retry_policy).unwrap_err().to_string();
    let (what, remedy) = fault.split_once(" -- ").unwrap();
    assert!(what.contains("signed by \"lab\""), "{fault}");
    assert_eq!(remedy, "add that CA to the CA file", "{fault}");
}

#[test]
fn asterisks_without_a_token_end_the_lookup_at_once() {
    let ironic = Server::scripted([known("\"******\"")]);
    let service = service(&ironic);
    let fault = look_up(&service, QUICK).unwrap_err();
    assert_eq!(fault, NoNode::TokenAlreadySent);
}

#[test]
fn a_version_missing_at_first_is_requested_again() {
    let ironic = Server::scripted([
        Reply::new(503, "<html>starting</html>"),
        Reply::new(404, "{}"),
        Reply::new(200, NEW),
        known(&format!("\"{TOKEN}\"")),
    ]);
    let service = Service::new(
        transport(),
        std::slice::from_ref(&ironic.base),
        "<html>starting</html>",
        None,
    );
    look_up(&service, QUICK).unwrap();
    assert!(service.takes_certificate());
    let asked = ironic.asked();
    let versions: Vec<_> = asked
        .iter()
        .filter(|request| request.line.contains("lookup"))
        .map(|request| request.header("x-openstack-ironic-api-version").unwrap())
        .collect();
    assert_eq!(versions, ["1.31", "1.62"]);
}

#[test]
fn every_request_goes_to_the_next_place_when_one_does_not_answer() {
    let ironic = Server::scripted([
        known(&format!("\"{TOKEN}\"")),
        Reply::new(202, ""),
        Reply::new(202, r#"{"uuid": "6d85"}"#),
    ]);
    let dead = dead_url();
    let urls = [dead.clone(), ironic.base.clone(), dead.clone()];
    let dir = TempDir::new().unwrap();
    let service = Service::new(transport(), &urls, NEW, None);
    run(async {
        look_up_until_known(&service, &mut query(), &mut token(&dir), QUICK)
            .await
            .unwrap();
        assert_eq!(
            service.base(),
            ironic.base,
            "the one that answered comes first"
        );
        let beat = service
            .post_heartbeat("6d85", "{}".to_owned(), false)
            .await
            .unwrap();
        assert_eq!(beat.status, 202);
        let inspection =
            [dead, ironic.base.clone()].map(|url| format!("{url}/v1/continue_inspection"));
        let uuid = post_inventory(&transport(), &inspection, "{}", Retry::Limited, pending())
            .await
            .unwrap();
        assert_eq!(uuid.as_deref(), Some("6d85"));
    });
    let lines: Vec<_> = ironic
        .asked()
        .into_iter()
        .map(|request| request.line)
        .collect();
    assert_eq!(
        lines[1..],
        [
            "POST /v1/heartbeat/6d85 HTTP/1.1",
            "POST /v1/continue_inspection HTTP/1.1"
        ]
    );
}

#[test]
fn a_place_that_falls_silent_is_left_for_the_next() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("http://{}", listener.local_addr().unwrap());
    let ironic = Server::scripted([Reply::new(202, "")]);
    let hasty = Transport {
        timeout: Duration::from_millis(300),
        ..transport()
    };
    let service = Service::new(hasty, &[silent, ironic.base.clone()], NEW, None);
    let beat = run(service.post_heartbeat("6d85", "{}".to_owned(), false)).unwrap();
    assert_eq!(beat.status, 202);
}

/// The first Ironic supported API 1.115; this Ironic supports only 1.68.
#[test]
fn a_version_that_ironic_does_not_accept_is_asked_for_again() {
    let older = NEW.replace("1.115", "1.68");
    let ironic = Server::scripted([
        Reply::new(406, ""),
        Reply::new(200, older.as_str()),
        Reply::new(202, ""),
    ]);
    let service = Service::new(transport(), std::slice::from_ref(&ironic.base), NEW, None);
    run(async {
        let beat = service.post_heartbeat("6d85", "{}".to_owned(), true).await;
        assert_eq!(beat.unwrap().status, 406);
        service.make_version_known().await;
        assert!(!service.takes_status_message());
        let beat = service.post_heartbeat("6d85", "{}".to_owned(), false).await;
        assert_eq!(beat.unwrap().status, 202);
    });
    let asked = ironic.asked();
    let version = asked[2].header("x-openstack-ironic-api-version");
    assert_eq!(version, Some("1.68"));
}

/// If a service never reports its version, the agent requests it once, and once more
/// after the service has rejected a heartbeat.
#[test]
fn heartbeats_ask_once_for_a_version_that_is_not_reported() {
    let ironic = Server::scripted([
        Reply::new(200, "<html>starting</html>"),
        Reply::new(503, "<html>starting</html>"),
        Reply::new(200, "{}"),
        Reply::new(202, ""),
        Reply::new(202, ""),
        Reply::new(404, "{}"),
        Reply::new(200, NEW),
        Reply::new(202, ""),
    ]);
    let service = Service::new(transport(), std::slice::from_ref(&ironic.base), "", None);
    run(async {
        for _ in 0..5 {
            service.make_version_known_once().await;
            let beat = service.post_heartbeat("6d85", "{}".to_owned(), false).await;
            beat.unwrap();
        }
    });
    let asked = ironic.asked();
    let methods: Vec<&str> = asked.iter().map(|asked| &asked.line[..4]).collect();
    assert_eq!(
        methods,
        [
            "GET ", "POST", "GET ", "POST", "POST", "POST", "GET ", "POST"
        ]
    );
    let version = asked[7].header("x-openstack-ironic-api-version");
    assert_eq!(version, Some("1.68"));
}

#[test]
fn an_inspection_stops_on_a_permanent_error() {
    let ironic = Server::scripted([
        Reply::new(409, "{}"),
        Reply::new(404, r#"{"error_message": {"faultstring": "no such node"}}"#),
    ]);
    let fault = post(&ironic, Retry::Limited, async {}).unwrap_err();
    assert!(matches!(fault, NotTaken::NotAsked(_)), "{fault}");
    let fault = fault.to_string();
    assert!(fault.contains("HTTP 404: no such node"), "{fault}");
    let asked = ironic.asked();
    assert_eq!(asked.len(), 2, "locked is worth a second try");
    assert_eq!(asked[0].header("x-openstack-ironic-api-version"), None);
}

#[test]
fn an_agent_with_nothing_else_to_do_posts_the_inventory_until_ironic_takes_it() {
    let ironic = Server::scripted([
        Reply::new(404, r#"{"error_message": {"faultstring": "no such node"}}"#),
        Reply::new(202, r#"{"uuid": "6d85"}"#),
    ]);
    let uuid = post(&ironic, Retry::Forever, pending()).unwrap();
    assert_eq!(uuid.as_deref(), Some("6d85"));
}

/// Only an operator can set the option that makes Ironic serve agents, so the console
/// names the option.
#[test]
fn a_heartbeat_and_an_inventory_that_get_403_name_the_option_of_ironic() {
    let refusal = || Reply::new(403, r#"{"error_message": {"faultstring": "no access"}}"#);
    let ironic = Server::scripted([refusal(), Reply::new(202, "")]);
    let inspector = Server::scripted([refusal(), Reply::new(202, "{}")]);
    let service = service(&ironic);
    let callback = Callback {
        url: "https://192.0.2.5:9999".to_owned(),
        certificate: None,
        token: TOKEN.to_owned(),
    };
    let forced = Notify::new();
    let timeout = Duration::from_secs(3600);
    let lines = log_lines_during(|| {
        run(async {
            let beats = beat_forever(&service, "6d85", &callback, timeout, &forced);
            let until = async {
                let urls = [format!("{}/v1/continue_inspection", inspector.base)];
                let posted =
                    post_inventory(&transport(), &urls, "{}", Retry::Forever, pending()).await;
                posted.unwrap();
                until_asked(&ironic, 2).await;
            };
            tokio::select! {
                _ = beats => unreachable!("for ever"),
                () = until => {}
            }
        });
    });
    assert_eq!(inspector.asked().len(), 2);
    for start in ["ERROR heartbeat to ", "WARN inspection: "] {
        let line = lines.iter().find(|line| line.starts_with(start));
        let line = line.unwrap_or_else(|| panic!("no {start}: {lines:#?}"));
        let (what, remedy) = line.split_once(" -- ").unwrap();
        for part in ["HTTP 403: no access", "[api]enable_ramdisk_endpoints"] {
            assert!(what.contains(part), "{part}: {line}");
        }
        assert!(remedy.starts_with("check ipa-api-url"), "{line}");
    }
}

/// The agent does not post again. It continues with the lookup, which also gets 403.
#[test]
fn an_inventory_that_gets_403_does_not_delay_the_lookup() {
    let ironic = Server::scripted([Reply::new(403, "{}")]);
    let posted = post(&ironic, Retry::Limited, pending());
    assert!(matches!(posted, Err(NotTaken::Failed(_))), "{posted:?}");
    assert_eq!(ironic.asked().len(), 1);
}

#[test]
fn an_inventory_that_is_out_of_date_is_not_posted_again() {
    let ironic = Server::scripted([Reply::new(404, "{}"), Reply::new(202, "{}")]);
    let posted = post(&ironic, Retry::Forever, async {});
    assert!(matches!(posted, Err(NotTaken::OutOfDate)), "{posted:?}");
    assert_eq!(ironic.asked().len(), 1);
}

#[test]
fn heartbeats_go_on_and_a_forced_one_comes_five_seconds_after_the_last() {
    let ironic = Server::scripted([
        Reply::new(202, ""),
        Reply::new(400, r#"{"error_message": {"faultstring": "locked out"}}"#),
        Reply::new(202, ""),
        Reply::new(202, ""),
    ]);
    let service = service(&ironic);
    let callback = Callback {
        url: "https://192.0.2.5:9999".to_owned(),
        certificate: Some("PEM".to_owned()),
        token: TOKEN.to_owned(),
    };
    let forced = Notify::new();
    // Another test of this process may change the status at any time, but there is
    // always a status.
    begin_step("waiting for commands, token=S3CRET");
    run(async {
        let beats = beat_forever(
            &service,
            "6d85",
            &callback,
            Duration::from_secs(3600),
            &forced,
        );
        let until = async {
            until_asked(&ironic, 1).await;
            let since = Instant::now();
            forced.notify_one();
            // Rejected at first, and retried until it is accepted.
            until_asked(&ironic, 3).await;
            assert!(
                (9..=25).contains(&since.elapsed().as_secs()),
                "{:?}",
                since.elapsed()
            );
        };
        tokio::select! {
            _ = beats => unreachable!("for ever"),
            () = until => {}
        }
    });
    for request in ironic.asked() {
        assert_eq!(request.line, "POST /v1/heartbeat/6d85 HTTP/1.1");
        assert_eq!(
            request.header("x-openstack-ironic-api-version"),
            Some("1.72")
        );
        let body: serde_json::Value = serde_json::from_str(&request.body).unwrap();
        let message = body["agent_status_message"].as_str().unwrap();
        assert!(!message.is_empty() && message.len() <= 255, "{message}");
        assert!(!message.contains("S3CRET"), "{message}");
        assert_eq!(
            body.get("agent_status"),
            None,
            "Ironic's anaconda interface acts on it"
        );
        assert_eq!(body["callback_url"], "https://192.0.2.5:9999");
        assert_eq!(body["agent_verify_ca"], "PEM");
    }
}
