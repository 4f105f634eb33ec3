use super::*;
use crate::commands::{Executor, Ledger};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// The API on a loopback port, with a client that behaves like a conductor.
struct Server {
    base: String,
    client: reqwest::Client,
    _state: tempfile::TempDir,
}

impl Server {
    async fn start() -> Self {
        Self::start_with(true).await
    }

    async fn start_with(status: bool) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let state = tempfile::tempdir().unwrap();
        let (ledger, _) = Ledger::restore(state.path());
        let executor: Executor = Arc::new(|_| Box::pin(async { Ok(json!("text")) }));
        let api = Api {
            dispatcher: Dispatcher::new(ledger, executor, Arc::default()),
            token: TOKEN.into(),
            scheme: "http",
            status,
            started: SystemTime::now(),
            refused: Arc::default(),
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router(api)).await });
        Self {
            base,
            client: reqwest::Client::builder()
                .redirect(reqwest::redirect::Policy::none())
                .tls_certs_only([])
                .build()
                .unwrap(),
            _state: state,
        }
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        let response = self.client.get(format!("{}{path}", self.base));
        let response = response.send().await.unwrap();
        assert_eq!(response.headers()["server"], "ironic-python-agent");
        let status = response.status().as_u16();
        (status, response.json().await.unwrap_or_default())
    }

    async fn post(&self, path: &str, body: &str) -> (u16, Value) {
        let request = self.client.post(format!("{}{path}", self.base));
        let response = request.body(body.to_owned()).send().await.unwrap();
        let status = response.status().as_u16();
        (status, response.json().await.unwrap_or_default())
    }
}

#[tokio::test]
async fn token_comes_before_everything_but_the_documents() {
    let server = Server::start().await;
    for path in ["/", "/v1/", "/v1/status", "/status"] {
        assert_eq!(server.get(path).await.0, 200, "{path}");
    }
    let invalid = json!({
        "faultcode": "Client",
        "faultstring": "401 Unauthorized: Token invalid.",
    });
    for query in [
        "",
        "?agent_token=",
        "?agent_token=wrong",
        "?agent_token=0123456789abcdef0123456789abcdeX",
    ] {
        for path in ["/v1/commands/", "/commands/", "/v1/commands/some-id"] {
            let (status, body) = server.get(&format!("{path}{query}")).await;
            assert_eq!((status, &body), (401, &invalid), "{path}{query}");
        }
        let (status, _) = server.post(&format!("/v1/commands/{query}"), "{").await;
        assert_eq!(status, 401, "checked before the body");
    }
}

#[tokio::test]
async fn commands_are_run_and_listed() {
    let server = Server::start().await;
    let with_token = format!("/v1/commands/?agent_token={TOKEN}");
    let sync = r#"{"name":"standby.sync","params":{}}"#;
    let (status, entry) = server.post(&format!("{with_token}&wait=true"), sync).await;
    assert_eq!(status, 200);
    assert_eq!(entry["command_status"], "SUCCEEDED");
    assert_eq!(entry["command_result"], json!({"result": "text"}));
    let (_, list) = server.get(&with_token).await;
    assert_eq!(list["commands"], json!([entry]));
    let id = entry["id"].as_str().unwrap();
    let (_, one) = server
        .get(&format!("/commands/{id}?agent_token={TOKEN}"))
        .await;
    assert_eq!(one, entry);
    let (status, fault) = server
        .get(&format!("/v1/commands/nosuch?agent_token={TOKEN}"))
        .await;
    assert_eq!(status, 404);
    assert_eq!(
        fault["faultstring"],
        "Not found: Command Result with id nosuch not found."
    );
}

#[tokio::test]
async fn other_paths_and_methods_are_faults() {
    let server = Server::start().await;
    let (status, body) = server.get("/nosuch").await;
    assert_eq!((status, &body["faultcode"]), (404, &json!("Client")));
    let (status, _) = server.post("/v1/status", "").await;
    assert_eq!(status, 405);
    let response = server
        .client
        .get(format!(
            "{}/v1/commands?agent_token=x&wait=true",
            server.base
        ))
        .send()
        .await
        .unwrap();
    assert_eq!(response.status().as_u16(), 308);
    assert_eq!(
        response.headers()["location"],
        format!("{}/v1/commands/?agent_token=x&wait=true", server.base)
    );
}

#[tokio::test]
async fn the_status_pages_need_no_token_and_can_be_switched_off() {
    landfall_report::status::update(|status| {
        status.service = Some("https://user:S3CRET@ironic.example.org".to_owned());
    });
    for (status, expected) in [(true, 200), (false, 404)] {
        let server = Server::start_with(status).await;
        for path in ["/status.json", "/metrics", "/log.txt"] {
            let response = server.client.get(format!("{}{path}", server.base));
            let response = response.send().await.unwrap();
            assert_eq!(response.status(), expected, "{path}");
            let body = response.text().await.unwrap();
            assert!(
                !body.contains("S3CRET") && !body.contains(TOKEN),
                "{path}: {body}"
            );
            let posted = server.client.post(format!("{}{path}", server.base));
            assert_ne!(posted.send().await.unwrap().status(), 200, "read-only");
        }
        let page = server.client.get(&server.base);
        let page = page.header("accept", "text/html,*/*;q=0.8").send().await;
        let page = page.unwrap().text().await.unwrap();
        assert_eq!(page.starts_with("<!DOCTYPE html>"), status);
        assert!(!page.contains("S3CRET") && !page.contains(TOKEN), "{page}");
        // A conductor still gets the document of the API.
        assert_eq!(server.get("/").await.1["default_version"]["id"], "v1");
    }
}

#[tokio::test]
async fn before_it_serves_commands_the_agent_shows_its_status_only() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, crate::api::status_router()).await });
    for (path, expected) in [
        ("/", 200),
        ("/status.json", 200),
        ("/metrics", 200),
        ("/log.txt", 200),
        // There was no fatal error.
        ("/logs.tar.gz", 404),
        ("/v1/status", 503),
        ("/v1/commands/?agent_token=x", 503),
    ] {
        let answer = reqwest::get(format!("{base}{path}")).await.unwrap();
        assert_eq!(answer.status(), expected, "{path}");
    }
}
