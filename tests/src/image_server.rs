//! An HTTP server for images and boot files, which can simulate faults.

mod tls;
mod transfer;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Uri};
use futures_util::stream;
use rustls::ServerConfig;
use sha2::{Digest, Sha256, Sha512};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::journal::{Journal, Source};
use crate::lab::{Family, HOST_V4, HOST_V6, Lab};
use tls::TlsListener;
use transfer::Transfer;

pub const PORT: u16 = 8080;

#[derive(Debug, Clone)]
pub struct ServedFile {
    /// The path below the root of the server, without the leading slash.
    pub name: String,
    pub content: Bytes,
    pub behaviour: Behaviour,
}

impl ServedFile {
    /// The file at `path`, served as `name` and without faults.
    pub fn read(name: &str, path: &Path) -> Result<Self> {
        let content = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        Ok(Self {
            name: name.to_owned(),
            content: Bytes::from(content),
            behaviour: Behaviour::default(),
        })
    }

    /// The path `name`, at which the server redirects to the URL `to`.
    #[must_use]
    pub fn redirect(name: &str, to: String) -> Self {
        Self {
            name: name.to_owned(),
            content: Bytes::new(),
            behaviour: Behaviour {
                redirects_to: Some(to),
                ..Behaviour::default()
            },
        }
    }

    /// The SHA-512 of the content, in lower-case hexadecimal.
    #[must_use]
    pub fn sha512(&self) -> String {
        hex(&Sha512::digest(&self.content))
    }
}

/// Simulated faults of a file. By default there are none.
#[derive(Debug, Clone, Default)]
pub struct Behaviour {
    /// The number of bytes of the first transfer after which the connection breaks.
    pub dies_after: Option<usize>,
    /// How long the server's port is closed after the break.
    pub stays_dark: Duration,
    /// Instead of breaking the connection, sends nothing more.
    pub stalls: bool,
    /// After the break, the server answers 404 for the file.
    pub gone_after: bool,
    /// Answers a Range request with the whole file, as some servers do.
    pub ignores_ranges: bool,
    /// Answers with status 302 and this URL.
    pub redirects_to: Option<String>,
    /// The maximum rate of the transfer.
    pub bytes_per_second: Option<u64>,
    /// The number of bytes at the start of the file that are sent without this limit.
    pub fast_start: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub method: String,
    /// The path, without the leading slash.
    pub name: String,
    pub range: Option<String>,
    pub if_range: Option<String>,
    /// Whether it had a header `Authorization`.
    pub authorized: bool,
    /// Whether it had a header `Via`.
    pub by_proxy: bool,
    pub status: u16,
}

impl Entry {
    fn new(file: ServedFile) -> Self {
        let etag = format!("\"{:.16}\"", hex(&Sha256::digest(&file.content)));
        Self {
            file,
            etag,
            died: Arc::default(),
        }
    }

    fn is_gone(&self) -> bool {
        self.file.behaviour.gone_after && self.died.load(Ordering::Relaxed)
    }
}

struct Entry {
    file: ServedFile,
    etag: String,
    /// Set when a transfer breaks.
    died: Arc<AtomicBool>,
}

struct Shared {
    journal: Journal,
    files: BTreeMap<String, Entry>,
    /// The folder with further files. A file of this folder is served if `files` has
    /// none with its name.
    root: Option<PathBuf>,
    /// The `Date` of each answer, if it is not that of this machine's clock.
    date: Option<HeaderValue>,
    requests: Mutex<Vec<Request>>,
    /// Makes the listeners close for the time in `dark_for`.
    died: Notify,
    dark_for: Mutex<Duration>,
}

impl Shared {
    fn new(lab: &Lab, files: Vec<ServedFile>, root: Option<PathBuf>) -> Self {
        let files = files
            .into_iter()
            .map(|file| (file.name.clone(), Entry::new(file)));
        Self {
            journal: lab.journal.clone(),
            files: files.collect(),
            root,
            date: None,
            requests: Mutex::default(),
            died: Notify::new(),
            dark_for: Mutex::default(),
        }
    }
}

/// A server that runs until it is dropped.
pub struct ImageServer {
    shared: Arc<Shared>,
    tasks: JoinSet<()>,
}

#[must_use]
pub fn url(family: Family, name: &str) -> String {
    format!("{}/{name}", family.url(PORT))
}

impl ImageServer {
    /// Serves on the lab's host addresses.
    pub async fn start(lab: &Lab, files: Vec<ServedFile>) -> Result<Self> {
        Self::start_over(lab, files, None).await
    }

    /// Like [`Self::start`], and also serves the current files in the folder
    /// `root`.
    pub async fn start_over(
        lab: &Lab,
        files: Vec<ServedFile>,
        root: Option<PathBuf>,
    ) -> Result<Self> {
        let host = [HOST_V4.into(), HOST_V6.into()];
        Self::start_at(lab, &host, files, root).await
    }

    /// Like [`Self::start_over`], but only on these addresses of the lab.
    pub async fn start_at(
        lab: &Lab,
        addresses: &[IpAddr],
        files: Vec<ServedFile>,
        root: Option<PathBuf>,
    ) -> Result<Self> {
        let shared = Arc::new(Shared::new(lab, files, root));
        let mut tasks = JoinSet::new();
        for &address in addresses {
            let address = SocketAddr::new(address, PORT);
            let listener = TcpListener::bind(address)
                .await
                .with_context(|| format!("listening on {address}"))?;
            tasks.spawn(listen(shared.clone(), address, listener));
        }
        Ok(Self { shared, tasks })
    }

    /// Serves over TLS on the lab's IPv4 address. If a transfer fails, the port stays
    /// open.
    pub async fn start_tls(
        lab: &Lab,
        port: u16,
        config: Arc<ServerConfig>,
        files: Vec<ServedFile>,
    ) -> Result<Self> {
        Self::start_tls_with(lab, port, config, Shared::new(lab, files, None)).await
    }

    /// Like [`Self::start_tls`], but without files, and with this `Date` in each answer
    /// (RFC 9110, 5.6.7), as if the server's clock had stopped.
    pub async fn start_tls_at(
        lab: &Lab,
        port: u16,
        config: Arc<ServerConfig>,
        date: &'static str,
    ) -> Result<Self> {
        let mut shared = Shared::new(lab, Vec::new(), None);
        shared.date = Some(HeaderValue::from_static(date));
        Self::start_tls_with(lab, port, config, shared).await
    }

    async fn start_tls_with(
        lab: &Lab,
        port: u16,
        config: Arc<ServerConfig>,
        shared: Shared,
    ) -> Result<Self> {
        let shared = Arc::new(shared);
        let address = SocketAddr::from((HOST_V4, port));
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("listening on {address}"))?;
        let listener = TlsListener::new(listener, config, lab.journal.clone());
        let router = Router::new().fallback(serve).with_state(shared.clone());
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            // Returns only after an error of accept(), which the agent then
            // notices.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { shared, tasks })
    }

    /// Ends the server. Its addresses are free afterwards.
    pub async fn stop(mut self) {
        self.tasks.shutdown().await;
    }

    /// All requests so far for the file `name`.
    #[must_use]
    pub fn requests(&self, name: &str) -> Vec<Request> {
        let requests = self
            .shared
            .requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        requests
            .iter()
            .filter(|request| request.name == name)
            .cloned()
            .collect()
    }
}

async fn listen(shared: Arc<Shared>, address: SocketAddr, mut listener: TcpListener) {
    loop {
        let router = Router::new().fallback(serve).with_state(shared.clone());
        tokio::select! {
            _ = async { axum::serve(listener, router).await } => return,
            () = shared.died.notified() => {}
        }
        let dark_for = *shared
            .dark_for
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        sleep(dark_for).await;
        listener = match TcpListener::bind(address).await {
            Ok(listener) => listener,
            Err(error) => {
                shared
                    .journal
                    .record(Source::Images, format!("cannot listen again: {error}"));
                return;
            }
        };
        shared
            .journal
            .record(Source::Images, format!("{address} is back"));
    }
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

async fn serve(
    State(shared): State<Arc<Shared>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Response<Body> {
    let name = uri.path().trim_start_matches('/').to_owned();
    let header = |key: &str| {
        headers
            .get(key)
            .and_then(|value| value.to_str().ok())
            .map(str::to_owned)
    };
    let (range, if_range) = (header("range"), header("if-range"));
    let in_root = in_root(&shared, &name);
    let found = shared.files.get(&name).or(in_root.as_ref());
    let mut response = match found.filter(|entry| !entry.is_gone()) {
        None => plain(StatusCode::NOT_FOUND),
        Some(Entry { file, .. }) if file.behaviour.redirects_to.is_some() => redirect(file),
        Some(entry) => {
            // A Range is valid only while the validator still matches (RFC 9110, 13.1.5).
            let same = if_range.as_ref().is_none_or(|tag| *tag == entry.etag);
            let usable = range
                .as_deref()
                .filter(|_| same && !entry.file.behaviour.ignores_ranges);
            answer(&shared, &name, entry, usable)
        }
    };
    let status = response.status().as_u16();
    let asked = range
        .as_deref()
        .map(|range| format!(" {range}"))
        .unwrap_or_default();
    shared
        .journal
        .record(Source::Images, format!("{method} /{name}{asked} {status}"));
    let mut requests = shared
        .requests
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    requests.push(Request {
        method: method.to_string(),
        name,
        range,
        if_range,
        authorized: headers.contains_key("authorization"),
        by_proxy: headers.contains_key("via"),
        status,
    });
    let headers = response.headers_mut();
    headers.insert("server", HeaderValue::from_static("images"));
    if let Some(date) = &shared.date {
        headers.insert("date", date.clone());
    }
    response
}

/// Reads a file of `root` at each request, so that a test can add or change files.
fn in_root(shared: &Shared, name: &str) -> Option<Entry> {
    let root = shared.root.as_ref()?;
    let path = Path::new(name);
    let inside = path
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    // A test's files are in the page cache, so this does not block other tasks for
    // long.
    let file = ServedFile::read(name, &root.join(path)).ok()?;
    inside.then(|| Entry::new(file))
}

fn plain(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

fn redirect(file: &ServedFile) -> Response<Body> {
    let to = file.behaviour.redirects_to.as_deref().unwrap_or_default();
    let response = Response::builder()
        .status(StatusCode::FOUND)
        .header("location", to)
        .body(Body::empty());
    response.unwrap_or_else(|_| plain(StatusCode::INTERNAL_SERVER_ERROR))
}

fn answer(shared: &Arc<Shared>, name: &str, entry: &Entry, range: Option<&str>) -> Response<Body> {
    let length = entry.file.content.len();
    let mut builder = Response::builder()
        .header("etag", &entry.etag)
        // Ironic logs a warning about servers without this header. The date may be
        // constant, because a changed file has another ETag.
        .header("last-modified", "Sat, 01 Jan 2000 00:00:00 GMT")
        .header("content-type", "application/octet-stream");
    if !entry.file.behaviour.ignores_ranges {
        builder = builder.header("accept-ranges", "bytes");
    }
    let window = match range.map(|range| parse_range(range, length)) {
        None => 0..length,
        Some(Some(window)) => {
            let described = format!("bytes {}-{}/{length}", window.start, window.end - 1);
            builder = builder
                .status(StatusCode::PARTIAL_CONTENT)
                .header("content-range", described);
            window
        }
        Some(None) => {
            let response = builder
                .status(StatusCode::RANGE_NOT_SATISFIABLE)
                .header("content-range", format!("bytes */{length}"))
                .body(Body::empty());
            return response.unwrap_or_else(|_| plain(StatusCode::INTERNAL_SERVER_ERROR));
        }
    };
    let transfer = Transfer {
        shared: shared.clone(),
        name: name.to_owned(),
        left: entry.file.content.slice(window.clone()),
        sent: 0,
        dies_after: entry
            .file
            .behaviour
            .dies_after
            .filter(|_| !entry.died.load(Ordering::Relaxed)),
        died: entry.died.clone(),
        stays_dark: entry.file.behaviour.stays_dark,
        stalls: entry.file.behaviour.stalls,
        bytes_per_second: entry.file.behaviour.bytes_per_second,
        fast: entry.file.behaviour.fast_start.saturating_sub(window.start),
        began: Instant::now(),
    };
    builder
        .header("content-length", window.len())
        .body(Body::from_stream(stream::unfold(transfer, Transfer::next)))
        .unwrap_or_else(|_| plain(StatusCode::INTERNAL_SERVER_ERROR))
}

/// Parses a single range. Several ranges are not supported, as RFC 9110 permits.
fn parse_range(text: &str, length: usize) -> Option<std::ops::Range<usize>> {
    let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    let window = match (first, last) {
        ("", suffix) => length.saturating_sub(suffix.parse().ok()?)..length,
        (first, "") => first.parse().ok()?..length,
        (first, last) => {
            first.parse().ok()?..last.parse::<usize>().ok()?.checked_add(1)?.min(length)
        }
    };
    (window.start < window.end && window.end <= length).then_some(window)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_follow_rfc_9110() {
        let table = [
            ("bytes=0-", Some(0..100)),
            ("bytes=40-", Some(40..100)),
            ("bytes=40-49", Some(40..50)),
            ("bytes=40-400", Some(40..100)),
            ("bytes=-10", Some(90..100)),
            ("bytes=100-", None),
            ("bytes=9-5", None),
            ("bytes=a-b", None),
            ("items=0-1", None),
        ];
        for (text, want) in table {
            assert_eq!(parse_range(text, 100), want, "{text}");
        }
    }
}
