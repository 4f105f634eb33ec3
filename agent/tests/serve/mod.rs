//! Runs `landfall-agent serve` as a child process of a test.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

/// A server on a free loopback port. Dropping it kills the process.
pub struct Server {
    pub child: Child,
    /// `https://127.0.0.1:PORT`, or `http://127.0.0.1:PORT` with `--plain-http`.
    pub base: String,
}

impl Server {
    /// Starts the server with this token and waits until it listens.
    pub fn start(token: &str, arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_landfall-agent"))
            .args(["serve", "--standalone", "--listen", "127.0.0.1:0"])
            .args(["--agent-token", token])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let output = child.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        let base = line.trim_end().strip_prefix("serving at ").unwrap();
        Self {
            child,
            base: base.to_owned(),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have ended on its own. The test reports that, not this
        // destructor.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client that accepts the server's self-signed certificate.
pub fn client() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .tls_danger_accept_invalid_certs(true)
        .tls_certs_only([])
        .build()
        .unwrap()
}
