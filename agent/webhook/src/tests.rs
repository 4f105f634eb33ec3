use landfall_boot_params::argument_value::ArgumentValue as _;
use landfall_http_client::HttpOptions;
use landfall_http_client::fixtures::{Asked, Certificate, Reply, Server, dead_url};
use landfall_network::lab;
use landfall_network::state::NicState;
use serde_json::Value;

use super::*;

fn online() -> watch::Receiver<NetworkState> {
    let address = lab::address(
        "192.0.2.10/24",
        landfall_network::AddressOrigin::RouterAdvertisement,
    );
    let nic = NicState {
        carrier: true,
        addresses: vec![address],
        ..lab::nic(1, false)
    };
    let state = NetworkState {
        nics: vec![nic],
        ..NetworkState::default()
    };
    watch::channel(state).1
}

fn webhook(url: &str, options: &HttpOptions) -> Webhook {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = ServiceClient::new(options).unwrap();
    Webhook::start(WebhookUrl::parse(url).as_ref(), &client, online())
}

/// The events that the server has received, without progress events. Other tests of this
/// process change the status, so progress events may arrive at any time.
fn events(server: &Server) -> Vec<Value> {
    let body = |asked: &Asked| serde_json::from_str::<Value>(&asked.body).unwrap();
    let bodies = server.asked().iter().map(body).collect::<Vec<_>>();
    let is_progress = |body: &Value| body["event"] == "progress";
    bodies
        .into_iter()
        .filter(|body| !is_progress(body))
        .collect()
}

fn names(server: &Server) -> Vec<String> {
    let name = |event: &Value| event["event"].as_str().unwrap().to_owned();
    events(server).iter().map(name).collect()
}

async fn until(condition: impl Fn() -> bool) {
    let met = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(Duration::from_secs(30), met).await.unwrap();
}

/// Waits up to 5 s until the reports are delivered. Returns the duration of the wait.
async fn wait(webhook: &Webhook) -> Duration {
    let since = Instant::now();
    webhook.wait_until_delivered(Duration::from_secs(5)).await;
    since.elapsed()
}

#[tokio::test]
async fn an_installation_is_reported_from_its_start_to_its_end() {
    let server = Server::start(|_| Reply::status(204));
    let url = server.base.replace("http://", "http://user:S3CRET@");
    let webhook = webhook(&format!("{url}/hook?key=1"), &HttpOptions::default());
    webhook.started();
    until(|| names(&server) == ["started"]).await;
    let failure = Failure::image_download("http://u:S3CRET@h/x: status 404").hint("start it");
    webhook.retrying(&failure, Duration::from_secs(5));
    webhook.retrying(&failure, Duration::from_secs(9));
    until(|| names(&server) == ["started", "retrying"]).await;
    status::begin_step("writing the webhook's test");
    until(|| {
        server
            .asked()
            .iter()
            .any(|asked| asked.body.contains("the webhook's test"))
    })
    .await;
    webhook.done();
    webhook.started();
    assert!(wait(&webhook).await < Duration::from_secs(4));
    assert_eq!(names(&server), ["started", "retrying", "done"]);
    for asked in server.asked() {
        assert_eq!(asked.line, "POST /hook?key=1 HTTP/1.1");
        assert_eq!(asked.header("content-type"), Some("application/json"));
        assert!(asked.header("authorization").is_some(), "{asked:?}");
        assert!(!asked.body.contains("S3CRET"), "{}", asked.body);
    }
    let events = events(&server);
    assert_eq!(events[1]["reason"]["remedy"], "start it");
    assert_eq!(events[1]["retry_seconds"], 5);
    assert_eq!(events[0]["boot"], events[2]["boot"]);
    assert!(events[0]["sequence"].as_u64() < events[1]["sequence"].as_u64());
}

#[tokio::test]
async fn without_a_url_nothing_is_reported_and_nothing_waits() {
    let client = ServiceClient::new(&HttpOptions::default()).unwrap();
    let webhook = Webhook::start(None, &client, online());
    webhook.started();
    webhook.done();
    assert!(wait(&webhook).await < Duration::from_millis(500));
}

#[tokio::test]
async fn a_dead_server_delays_the_restart_for_a_short_time_only() {
    let webhook = webhook(&dead_url(), &HttpOptions::default());
    webhook.started();
    webhook.done();
    let waited = wait(&webhook).await;
    assert!((4..8).contains(&waited.as_secs()), "{waited:?}");
}

#[tokio::test]
async fn a_server_that_does_not_answer_delays_the_restart_for_a_short_time_only() {
    let server = Server::start(|_| {
        std::thread::sleep(Duration::from_secs(60));
        Reply::status(200)
    });
    let webhook = webhook(&server.base, &HttpOptions::default());
    webhook.started();
    until(|| !server.asked().is_empty()).await;
    webhook.done();
    let waited = wait(&webhook).await;
    assert!((4..8).contains(&waited.as_secs()), "{waited:?}");
}

#[tokio::test]
async fn a_server_with_an_error_gets_the_report_again() {
    let server = Server::start(|asked| match asked.earlier {
        0 | 1 => Reply::status(500),
        _ => Reply::status(200),
    });
    let webhook = webhook(&server.base, &HttpOptions::default());
    webhook.failed(&Failure::other("no disk"));
    assert!(wait(&webhook).await < Duration::from_secs(5));
    let events = events(&server);
    assert_eq!(names(&server), ["failed", "failed", "failed"]);
    assert_eq!(events[0], events[2], "the same report");
    assert_eq!(events[0]["reason"]["text"], "no disk");
}

#[tokio::test]
async fn a_redirect_and_a_refusal_end_the_report_at_once() {
    let elsewhere = Server::start(|_| Reply::status(200));
    let location = format!("Location: {}", elsewhere.base);
    for status in [302, 307, 404] {
        let reply = Reply::status(status).header(&location);
        let server = Server::start(move |_| reply.clone());
        let webhook = webhook(&server.base, &HttpOptions::default());
        webhook.done();
        assert!(wait(&webhook).await < Duration::from_secs(4), "{status}");
        assert_eq!(names(&server), ["done"], "{status}");
    }
    assert!(elsewhere.asked().is_empty(), "the report went elsewhere");
}

#[tokio::test]
async fn an_endless_answer_is_not_read() {
    let endless = Reply::new(200, vec![b'x'; 1 << 20]).stalled(1 << 20);
    let endless = Reply {
        headers: vec!["Content-Length: 999999999999".to_owned()],
        ..endless
    };
    let server = Server::start(move |_| endless.clone());
    let webhook = webhook(&server.base, &HttpOptions::default());
    webhook.done();
    assert!(wait(&webhook).await < Duration::from_secs(4));
    assert_eq!(names(&server), ["done"]);
}

#[tokio::test]
async fn https_needs_an_authority_that_this_boot_trusts() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let certificate = Certificate::of([127, 0, 0, 1]);
    let server = Server::secure(&certificate, |_| Reply::status(200));
    let unknown = webhook(&server.base, &HttpOptions::default());
    unknown.done();
    wait(&unknown).await;
    assert!(server.asked().is_empty(), "sent to a server without trust");
    let directory = tempfile::tempdir().unwrap();
    let ca_file = directory.path().join("ca.pem");
    std::fs::write(&ca_file, &certificate.pem).unwrap();
    let options = HttpOptions {
        ca_file: Some(ca_file),
        ..HttpOptions::default()
    };
    let known = webhook(&server.base, &options);
    known.done();
    assert!(wait(&known).await < Duration::from_secs(4));
    assert_eq!(names(&server), ["done"]);
}
