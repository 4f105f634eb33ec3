//! Sends requests that anyone who reaches the agent's port may send, with or
//! without a token. None of them may end the agent, get past the token check,
//! or lock out the conductor.

#![expect(
    clippy::unwrap_used,
    reason = "what a test finds wrong ends it, outside of test functions as well"
)]

mod serve;

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream as StdStream};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use serve::Server;
use tokio::net::{TcpSocket, TcpStream};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// How long the tests wait for a connection or a response: less than the 60 s that a
/// conductor waits.
const TIMEOUT: Duration = Duration::from_secs(10);

fn address(server: &Server) -> SocketAddr {
    server.base.split_once("://").unwrap().1.parse().unwrap()
}

/// A value in KiB from the server's /proc/PID/status.
fn status_kib(server: &Server, key: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(key));
    let figure = line.unwrap().trim_start_matches(':').trim();
    figure.split(' ').next().unwrap().parse().unwrap()
}

/// Sends bytes and returns the response, read until the server closes or is silent
/// for 300 ms.
fn exchange(server: &Server, bytes: &[u8]) -> String {
    let mut stream = StdStream::connect(address(server)).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    // The server may close the connection in the middle of a request that it
    // rejects.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

async fn list(client: &reqwest::Client, server: &Server) -> reqwest::Result<Value> {
    let url = format!("{}/v1/commands/?agent_token={TOKEN}", server.base);
    let request = client.get(url).timeout(TIMEOUT);
    request.send().await?.error_for_status()?.json().await
}

#[tokio::test]
async fn garbage_is_survived() {
    let server = Server::start(TOKEN, &["--plain-http"]);
    let client = serve::client();
    let long = "x".repeat(200_000);
    let many_headers = "a: b\r\n".repeat(5000);
    let request = |head: &str| format!("{head}\r\nhost: x\r\n\r\n");
    let command = format!("POST /v1/commands/?agent_token={TOKEN} HTTP/1.1\r\nhost: x\r\n");
    for bytes in [
        String::new(),
        "\0\0\0\0".into(),
        "\u{16}\u{3}\u{1}\u{2}\u{0}".into(),
        "GET\r\n\r\n".into(),
        "GET / HTTP/9.9\r\n\r\n".into(),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".into(),
        request("GET /\u{0} HTTP/1.1"),
        request(&format!("GET /{long} HTTP/1.1")),
        request(&format!("GET /v1/commands/?agent_token={long} HTTP/1.1")),
        request("GET /%ff%fe%00/../../etc/passwd HTTP/1.1"),
        request("OPTIONS * HTTP/1.1"),
        request("CONNECT x:1 HTTP/1.1"),
        request(&format!("{long} / HTTP/1.1")),
        format!("GET / HTTP/1.1\r\n{many_headers}\r\n"),
        format!("GET / HTTP/1.1\r\nx: {long}\r\n\r\n"),
        format!("{command}content-length: -1\r\n\r\n{{}}"),
        format!("{command}content-length: 99999999999999999999\r\n\r\n{{}}"),
        format!("{command}content-length: 2\r\ncontent-length: 3\r\n\r\n{{}}"),
        format!("{command}transfer-encoding: chunked\r\n\r\nzz\r\n"),
        format!("{command}transfer-encoding: chunked\r\n\r\nffffffffffffffff\r\n"),
        format!("{command}content-length: 100\r\n\r\n{{\"name\":"),
        format!(
            "{command}content-length: 400000\r\n\r\n{}",
            "[".repeat(400_000)
        ),
    ] {
        let answer = exchange(&server, bytes.as_bytes());
        let shown: String = bytes.chars().take(60).collect();
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1."),
            "{shown:?}: {answer}"
        );
        assert!(!answer.contains(" 500 "), "{shown:?}: {answer}");
        assert_eq!(list(&client, &server).await.unwrap()["commands"], json!([]));
    }
}

#[tokio::test]
async fn a_body_has_a_limit_and_none_is_read_without_the_token() {
    let server = Server::start(TOKEN, &["--plain-http"]);
    let client = serve::client();
    let before = status_kib(&server, "VmHWM");
    let head = |token: &str| {
        format!(
            "POST /v1/commands/?agent_token={token} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n",
            200 << 20
        )
    };
    let mut bytes = head("wrong").into_bytes();
    bytes.resize(64 << 20, b' ');
    let answer = exchange(&server, &bytes);
    // The response may be lost if the server resets the connection because of the
    // unread body.
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 401"),
        "{answer}"
    );
    let after = status_kib(&server, "VmHWM");
    assert!(after - before < 4096, "{before} KiB, then {after} KiB");

    let url = format!("{}/v1/commands/?agent_token={TOKEN}", server.base);
    let too_large = vec![b' '; (56 << 20) + 1];
    match client.post(url).body(too_large).send().await {
        Ok(answer) => assert_eq!(answer.status(), 413),
        // This error means that the server closed the connection before it had read the
        // whole body.
        Err(error) => assert!(error.is_request() || error.is_body(), "{error:?}"),
    }
    assert_eq!(list(&client, &server).await.unwrap()["commands"], json!([]));
}

#[tokio::test]
async fn no_token_but_the_right_one_gets_in() {
    let server = Server::start(TOKEN, &["--plain-http"]);
    let client = serve::client();
    let mut wrong: Vec<String> = (0..TOKEN.len())
        .map(|end| TOKEN[..end].to_owned())
        .collect();
    wrong.extend([
        TOKEN.to_uppercase(),
        format!("{TOKEN}0"),
        format!("%20{TOKEN}"),
        format!("{TOKEN}%00"),
        format!("x&agent_token={TOKEN}"),
        "*".repeat(TOKEN.len()),
        "null".into(),
    ]);
    for token in wrong {
        for method in ["GET", "POST"] {
            let url = format!("{}/v1/commands/?agent_token={token}", server.base);
            let request = client.request(method.parse().unwrap(), url);
            let command = r#"{"name":"standby.sync","params":{}}"#;
            let answer = request.body(command).send().await.unwrap();
            assert_eq!(answer.status(), 401, "{token}");
            let body: Value = answer.json().await.unwrap();
            assert_eq!(
                body,
                json!({"faultcode": "Client", "faultstring": "401 Unauthorized: Token invalid."})
            );
        }
    }
    assert_eq!(list(&client, &server).await.unwrap()["commands"], json!([]));
}

/// Connects from `host`, one of the loopback's many addresses.
async fn connect_from(host: Ipv4Addr, server: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((host, 0).into())?;
    socket.connect(server).await
}

/// Raises this process's limit of open files. Returns false if the hard limit is lower,
/// or if prlimit cannot be started.
fn raise_file_limit(wanted: usize) -> bool {
    let raised = Command::new("prlimit")
        .args(["--pid", &std::process::id().to_string()])
        .arg(format!("--nofile={wanted}:"))
        .status();
    raised.is_ok_and(|status| status.success())
}

#[tokio::test]
async fn slow_clients_delay_no_other_client() {
    let server = Server::start(TOKEN, &["--plain-http"]);
    let client = serve::client();
    let mut slow = Vec::new();
    for number in 0..300_u32 {
        let host = Ipv4Addr::from(0x7f00_0100 + number % 50);
        let stream = connect_from(host, address(&server)).await.unwrap();
        stream.writable().await.unwrap();
        // Half a request header, or half a body without a token.
        let part: &[u8] = if number % 2 == 0 {
            b"GET /v1/status HTTP/1.1\r\nhost:"
        } else {
            b"POST /v1/commands/ HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{"
        };
        // If the server closed this connection to make room for others, the write
        // fails.
        let _ = stream.try_write(part);
        slow.push(stream);
    }
    for _ in 0..20 {
        let start = Instant::now();
        list(&client, &server).await.unwrap();
        assert!(
            start.elapsed() < Duration::from_secs(2),
            "{:?}",
            start.elapsed()
        );
    }
    drop(slow);
}

/// Repeats a request with the token until one succeeds. Before a conductor has shown the
/// token, the agent cannot tell it from the flood and may close its connection before the
/// TLS handshake completes. Like Ironic's conductor, this client then retries. Once it
/// has shown the token, the flood can no longer displace its connections.
async fn introduce(client: &reqwest::Client, server: &Server) {
    for _ in 0..10 {
        if list(client, server).await.is_ok() {
            return;
        }
    }
    panic!("ten connections in a row were closed for others");
}

/// Ten thousand silent connections to the TLS port, while a conductor keeps sending
/// requests.
#[tokio::test]
async fn ten_thousand_connections_do_not_keep_the_conductor_out() {
    const CONNECTIONS: u32 = 10_000;
    const HOSTS: u32 = 200;
    assert!(
        raise_file_limit(CONNECTIONS as usize + 1000),
        "this test needs {CONNECTIONS} open files"
    );
    let server = Server::start(TOKEN, &[]);
    let to = address(&server);
    let flood = tokio::spawn(async move {
        let mut held = Vec::new();
        for number in 0..CONNECTIONS {
            let host = Ipv4Addr::from(0x7f00_0200 + number % HOSTS);
            // The kernel's accept queue may be full for a moment.
            let connecting = tokio::time::timeout(TIMEOUT, connect_from(host, to));
            if let Ok(Ok(stream)) = connecting.await {
                held.push(stream);
            }
        }
        held
    });
    introduce(&serve::client(), &server).await;
    let (mut answers, mut longest) = (0_u32, Duration::ZERO);
    while !flood.is_finished() || answers < 20 {
        // Each request opens a new connection, as after a restart of the conductor.
        let start = Instant::now();
        list(&serve::client(), &server).await.unwrap();
        longest = longest.max(start.elapsed());
        answers += 1;
    }
    let held = flood.await.unwrap();
    let peak = status_kib(&server, "VmHWM");
    println!(
        "{} connections held, {answers} answers in between, the slowest after {longest:?}, \
         peak memory {peak} KiB",
        held.len()
    );
    assert!(
        held.len() >= CONNECTIONS as usize * 9 / 10,
        "{}",
        held.len()
    );
    assert!(longest < TIMEOUT, "{longest:?}");
    assert!(peak < 40 << 10, "{peak} KiB");
}
