//! An HTTP server that misbehaves as a test tells it to, and a client for it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use landfall_http_client::{HttpOptions, image_client};

/// A client with the agent's default options.
pub fn http_client() -> reqwest::Client {
    // Fails harmlessly if another test of this process has already installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    image_client(&HttpOptions::default()).unwrap()
}

/// A request that the server received.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// How many requests came before this one.
    pub earlier: usize,
    /// The path; the whole URL if the server acts as a proxy.
    pub path: String,
    /// The first byte of a `Range`.
    pub from: Option<u64>,
    pub if_range: Option<String>,
}

/// The answer to a request.
#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<String>,
    pub body: Vec<u8>,
    /// The server closes the connection after this many bytes of the body.
    pub cut: Option<usize>,
    /// The server keeps the connection open for 20 s after the last byte, and sends
    /// nothing.
    pub stall: bool,
}

impl Reply {
    /// The whole file, as a correct server sends it.
    pub fn whole(body: &[u8], etag: &str) -> Self {
        Self {
            status: 200,
            headers: vec![
                format!("Content-Length: {}", body.len()),
                format!("ETag: {etag}"),
            ],
            body: body.to_vec(),
            cut: None,
            stall: false,
        }
    }

    /// What a correct server sends for this request.
    pub fn correct(body: &[u8], etag: &str, asked: &Asked) -> Self {
        let Some(from) = asked.from else {
            return Self::whole(body, etag);
        };
        if asked.if_range.as_deref().is_some_and(|tag| tag != etag) {
            return Self::whole(body, etag);
        }
        let rest = &body[from as usize..];
        Self {
            status: 206,
            headers: vec![
                format!("Content-Length: {}", rest.len()),
                format!(
                    "Content-Range: bytes {from}-{}/{}",
                    body.len() - 1,
                    body.len()
                ),
                format!("ETag: {etag}"),
            ],
            ..Self::whole(rest, etag)
        }
    }

    pub fn status(status: u16) -> Self {
        Self {
            status,
            headers: vec!["Content-Length: 0".into()],
            ..Self::whole(b"", "\"x\"")
        }
    }

    #[must_use]
    pub fn cut(mut self, after: usize) -> Self {
        self.cut = Some(after);
        self
    }
}

/// An HTTP server in a thread. It serves one request per connection.
pub struct Server {
    pub url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    pub fn start(answer: impl Fn(&Asked) -> Reply + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/image.raw", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                let mut request = read_request(&stream);
                let mut log = log.lock().unwrap();
                request.earlier = log.len();
                log.push(request.clone());
                drop(log);
                send(stream, answer(&request));
            }
        });
        Self { url, asked }
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

fn read_request(stream: &TcpStream) -> Asked {
    let mut asked = Asked::default();
    for line in BufReader::new(stream).lines() {
        let line = line.unwrap_or_default();
        if line.is_empty() {
            break;
        }
        if asked.path.is_empty() {
            asked.path = line.split(' ').nth(1).unwrap_or_default().to_owned();
        }
        if let Some((name, value)) = line.split_once(": ") {
            match name.to_ascii_lowercase().as_str() {
                "range" => {
                    let from = value.strip_prefix("bytes=").unwrap();
                    asked.from = Some(from.strip_suffix('-').unwrap().parse().unwrap());
                }
                "if-range" => asked.if_range = Some(value.to_owned()),
                _ => {}
            }
        }
    }
    asked
}

fn send(mut stream: TcpStream, reply: Reply) {
    let mut head = format!("HTTP/1.1 {} X\r\nConnection: close\r\n", reply.status);
    for header in &reply.headers {
        head.push_str(header);
        head.push_str("\r\n");
    }
    head.push_str("\r\n");
    let body = &reply.body[..reply.cut.unwrap_or(reply.body.len()).min(reply.body.len())];
    // Writing fails if the agent has closed the connection, which it may do at any
    // time.
    let _ = stream.write_all(head.as_bytes());
    let _ = stream.write_all(body);
    if reply.stall {
        thread::spawn(move || {
            thread::sleep(Duration::from_secs(20));
            drop(stream);
        });
    }
}
