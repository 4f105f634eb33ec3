//! An HTTP server whose faults a test chooses, its certificate, and a client for it.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::sync::{Arc, Mutex};
use std::thread;

use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::{Answer, HttpOptions, image_client};

/// A client with the agent's default options.
pub fn http_client() -> reqwest::Client {
    // Fails harmlessly if another test of this process has already installed the
    // provider.
    let _ = rustls::crypto::ring::default_provider().install_default();
    image_client(&HttpOptions::default()).unwrap()
}

/// Runs a test on one thread, as the agent does.
pub fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

/// An answer to a request by plain HTTP, without a date or a redirect.
pub fn answer(status: u16, body: &str) -> Answer {
    Answer {
        status,
        date: None,
        redirect: None,
        is_plain_http: true,
        body: body.to_owned(),
    }
}

/// A self-signed certificate, which no client knows.
pub struct Certificate {
    pub pem: String,
    pub key_pem: String,
    pub server: Arc<ServerConfig>,
}

impl Certificate {
    pub fn of(host: impl Into<IpAddr>) -> Self {
        Self::made(host.into(), |_| {})
    }

    /// A certificate whose subject has this common name. It is self-signed, so its issuer
    /// has the same name.
    pub fn named(host: impl Into<IpAddr>, name: &str) -> Self {
        Self::made(host.into(), |parameters| {
            let names = &mut parameters.distinguished_name;
            names.push(rcgen::DnType::CommonName, name);
        })
    }

    /// Only valid in 2020.
    pub fn outdated(host: impl Into<IpAddr>) -> Self {
        Self::made(host.into(), |parameters| {
            parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
            parameters.not_before = rcgen::date_time_ymd(2020, 1, 1);
            parameters.not_after = rcgen::date_time_ymd(2020, 12, 31);
        })
    }

    fn made(host: IpAddr, change: impl Fn(&mut rcgen::CertificateParams)) -> Self {
        let mut parameters = rcgen::CertificateParams::default();
        parameters.subject_alt_names = vec![rcgen::SanType::IpAddress(host)];
        change(&mut parameters);
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = parameters.self_signed(&key).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let server = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::Pkcs8(key.serialize_der().into()),
            );
        Self {
            pem: certificate.pem(),
            key_pem: key.serialize_pem(),
            server: Arc::new(server.unwrap()),
        }
    }
}

/// A request that the server received.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// How many requests came before this one.
    pub earlier: usize,
    /// `GET / HTTP/1.1`
    pub line: String,
    /// The path; the whole URL if the server acts as a proxy.
    pub path: String,
    /// Names are in lower case.
    pub headers: Vec<(String, String)>,
    /// The first byte of a `Range`.
    pub from: Option<u64>,
    pub if_range: Option<String>,
    pub body: String,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// `None` if the client only connected.
    fn read(stream: &mut impl Read) -> Option<Self> {
        let mut stream = BufReader::new(stream);
        let mut line = || {
            let mut line = String::new();
            stream.read_line(&mut line).ok()?;
            Some(line.trim_end().to_owned()).filter(|line| !line.is_empty())
        };
        let mut asked = Self {
            line: line()?,
            ..Self::default()
        };
        asked.path = asked.line.split(' ').nth(1)?.to_owned();
        while let Some((name, value)) = line().as_deref().and_then(|line| line.split_once(": ")) {
            let header = (name.to_ascii_lowercase(), value.to_owned());
            asked.headers.push(header);
        }
        asked.if_range = asked.header("if-range").map(str::to_owned);
        let range = asked.header("range").and_then(|range| {
            let from = range.strip_prefix("bytes=")?;
            from.split('-').next()?.parse().ok()
        });
        asked.from = range;
        let length = asked.header("content-length");
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        stream.read_exact(&mut body).ok()?;
        asked.body = String::from_utf8(body).unwrap();
        Some(asked)
    }
}

/// The answer to a request.
#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    /// The first header is `Content-Length`.
    pub headers: Vec<String>,
    pub body: Vec<u8>,
    /// The server sends only this many bytes of the body, and then closes the connection
    /// unless `stall` is set.
    pub cut: Option<usize>,
    /// The server sends nothing after the last byte, and keeps the connection open
    /// until the client closes it.
    pub stall: bool,
}

impl Reply {
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        let body = body.into();
        Self {
            status,
            headers: vec![format!("Content-Length: {}", body.len())],
            body,
            cut: None,
            stall: false,
        }
    }

    pub fn status(status: u16) -> Self {
        Self::new(status, "")
    }

    /// The whole file, as a correct server sends it.
    pub fn whole(body: &[u8], etag: &str) -> Self {
        Self::new(200, body).header(&format!("ETag: {etag}"))
    }

    /// What a correct server sends for this request.
    pub fn correct(body: &[u8], etag: &str, asked: &Asked) -> Self {
        let is_other = |tag: &str| tag != etag;
        let Some(from) = asked.from else {
            return Self::whole(body, etag);
        };
        if asked.if_range.as_deref().is_some_and(is_other) {
            return Self::whole(body, etag);
        }
        let len = body.len();
        let rest = match body.get(from as usize..) {
            Some(rest) if !rest.is_empty() => rest,
            _ => {
                return Self::status(416)
                    .header(&format!("Content-Range: bytes */{len}"))
                    .header(&format!("ETag: {etag}"));
            }
        };
        Self::new(206, rest)
            .header(&format!("Content-Range: bytes {from}-{}/{len}", len - 1))
            .header(&format!("ETag: {etag}"))
    }

    #[must_use]
    pub fn header(mut self, header: &str) -> Self {
        self.headers.push(header.to_owned());
        self
    }

    #[must_use]
    pub fn cut(mut self, after: usize) -> Self {
        self.cut = Some(after);
        self
    }

    #[must_use]
    pub fn stalled(mut self, after: usize) -> Self {
        self.stall = true;
        self.cut(after)
    }

    fn send(&self, mut stream: impl Read + Write + Send + 'static) {
        let (status, headers) = (self.status, self.headers.join("\r\n"));
        let head = format!("HTTP/1.1 {status} X\r\nConnection: close\r\n{headers}\r\n\r\n");
        let len = self.cut.unwrap_or(usize::MAX).min(self.body.len());
        // Writing fails if the agent has closed the connection, which it may do at
        // any time.
        let _ = stream.write_all(head.as_bytes());
        let _ = stream.write_all(&self.body[..len]);
        let _ = stream.flush();
        if self.stall {
            thread::spawn(move || stream.read(&mut [0]));
        }
    }
}

/// An HTTP server in a thread. It serves one request per connection.
pub struct Server {
    /// `http://127.0.0.1:PORT`
    pub base: String,
    /// A file of this server.
    pub url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    pub fn start(answer: impl Fn(&Asked) -> Reply + Send + 'static) -> Self {
        Self::on(listener(), None, answer)
    }

    /// Serves this file like a correct server.
    pub fn of(file: &[u8]) -> Self {
        Self::breaking(file, 0, 0)
    }

    /// Like [`Self::of`], but first breaks `breaks` connections, each after `after`
    /// bytes of the file.
    pub fn breaking(file: &[u8], breaks: usize, after: usize) -> Self {
        let file = file.to_vec();
        Self::start(move |asked| match Reply::correct(&file, "\"1\"", asked) {
            reply if asked.earlier < breaks => reply.cut(after),
            reply => reply,
        })
    }

    /// Sends each reply once.
    pub fn scripted(replies: impl IntoIterator<Item = Reply>) -> Self {
        let replies: Vec<Reply> = replies.into_iter().collect();
        Self::start(move |asked| replies[asked.earlier].clone())
    }

    /// Serves over TLS.
    pub fn secure(
        certificate: &Certificate,
        answer: impl Fn(&Asked) -> Reply + Send + 'static,
    ) -> Self {
        Self::on(listener(), Some(Arc::clone(&certificate.server)), answer)
    }

    pub fn on(
        listener: TcpListener,
        tls: Option<Arc<ServerConfig>>,
        answer: impl Fn(&Asked) -> Reply + Send + 'static,
    ) -> Self {
        let scheme = if tls.is_some() { "https" } else { "http" };
        let base = format!("{scheme}://{}", listener.local_addr().unwrap());
        let asked = Arc::<Mutex<Vec<Asked>>>::default();
        let log = Arc::clone(&asked);
        let serve = move |asked: &mut Asked| {
            let mut log = log.lock().unwrap();
            asked.earlier = log.len();
            log.push(asked.clone());
            drop(log);
            answer(asked)
        };
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                if let Some(tls) = &tls {
                    let connection = ServerConnection::new(Arc::clone(tls)).unwrap();
                    let mut stream = StreamOwned::new(connection, stream);
                    // If the client rejects the certificate, it sends no request.
                    if let Some(mut asked) = Asked::read(&mut stream) {
                        serve(&mut asked).send(stream);
                    }
                } else if let Some(mut asked) = Asked::read(&mut stream) {
                    serve(&mut asked).send(stream);
                }
            }
        });
        let url = format!("{base}/image.raw");
        Self { base, url, asked }
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

fn listener() -> TcpListener {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()
}

/// A URL where no server listens.
pub fn dead_url() -> String {
    format!("http://{}", listener().local_addr().unwrap())
}
