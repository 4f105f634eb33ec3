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
        let _ = rustls::crypto::ring::default_provider().install_default();
        let state = tempfile::tempdir().unwrap();
        let (ledger, _) = Ledger::restore(state.path());
        let executor: Executor = Arc::new(|_| Box::pin(async { Ok(json!("text")) }));
        let api = Api {
            dispatcher: Dispatcher::new(ledger, executor, Arc::default()),
            token: TOKEN.into(),
            scheme: "http",
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
