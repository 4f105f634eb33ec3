//! Accepts connections, with or without TLS, and shuts the service down in an
//! orderly way.
//!
//! A connection is closed if its client takes no byte for
//! [`Limits::quiet`](crate::Limits::quiet), whether it reads slowly, sends a request
//! slowly or is idle. A BMC may pause for minutes while its host does not read from the
//! medium.

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use nix::sys::socket::{setsockopt, sockopt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::connection::{Transport, Watched};
use crate::connections::{Connection, Connections, Place};
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::routes::{Endpoints, Service};
use crate::tls::ServerTls;

const HANDSHAKE_LIMIT: Duration = Duration::from_secs(15);
/// The maximum size in bytes of a request's head. A BMC sends about 300 bytes.
const HEAD_LIMIT: usize = 16 << 10;
/// The maximum number of headers of a request.
const MAX_HEADERS: usize = 64;

#[derive(Debug)]
pub struct Listening {
    task: JoinHandle<()>,
    stop: Arc<Notify>,
    address: SocketAddr,
    last_answers: Duration,
}

impl Listening {
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops accepting connections, lets answers in progress finish for up to
    /// [`Limits::last_answers`], and ends the listener.
    pub async fn stop(self) {
        self.stop.notify_one();
        let mut task = self.task;
        if tokio::time::timeout(self.last_answers, &mut task)
            .await
            .is_err()
        {
            // The remaining clients are too slow. Their connections end with the
            // runtime.
            task.abort();
        }
    }
}

/// Listens on an address. Must be called in a Tokio runtime.
///
/// # Errors
/// If the address is not available.
pub fn listen(
    address: SocketAddr,
    tls: Option<ServerTls>,
    service: &Service,
    endpoints: Endpoints,
) -> io::Result<Listening> {
    let server = Server {
        tls,
        routes: service.router(endpoints),
        connections: Arc::clone(&service.connections),
        limits: service.limits,
    };
    server.start(address)
}

/// Serves the routes of another service, under limits for the connections and for the
/// time and size of a request. Must be called in a Tokio runtime.
///
/// # Errors
/// If the address is not available.
pub fn listen_for(address: SocketAddr, routes: Router, limits: Limits) -> io::Result<Listening> {
    let server = Server {
        tls: None,
        routes,
        connections: Arc::new(Connections::new(limits.connections, Metrics::default())),
        limits,
    };
    server.start(address)
}

struct Server {
    tls: Option<ServerTls>,
    routes: Router,
    connections: Arc<Connections>,
    limits: Limits,
}

impl Server {
    fn start(self, address: SocketAddr) -> io::Result<Listening> {
        let listener = StdListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let address = listener.local_addr()?;
        let stop = Arc::new(Notify::new());
        let last_answers = self.limits.last_answers;
        let task = tokio::spawn(self.run(listener, Arc::clone(&stop)));
        Ok(Listening {
            task,
            stop,
            address,
            last_answers,
        })
    }

    async fn run(self, listener: TcpListener, stop: Arc<Notify>) {
        let graceful = GracefulShutdown::new();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = stop.notified() => break,
            };
            match accepted {
                Ok((stream, peer)) => {
                    if let Some(place) = self.connections.enter(peer.ip()) {
                        self.begin(stream, place, graceful.watcher());
                    }
                }
                Err(error) => {
                    // Descriptors or memory have run out: wait until some are free
                    // again.
                    tracing::warn!("cannot accept a connection: {error}; trying again");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
        drop(listener);
        graceful.shutdown().await;
    }

    /// Serves one connection in a separate task, so that a client that stalls blocks
    /// no other client.
    fn begin(&self, stream: TcpStream, place: Place, watcher: Watcher) {
        // A client that has lost its power sends nothing more, so let TCP detect that.
        // TCP_USER_TIMEOUT also ends a connection whose client reads nothing for `quiet`
        // (tcp(7)).
        let quiet = self.limits.quiet;
        let millis = u32::try_from(quiet.as_millis()).unwrap_or(u32::MAX);
        let _ = setsockopt(&stream, sockopt::KeepAlive, &true);
        let _ = setsockopt(&stream, sockopt::TcpUserTimeout, &millis);
        let _ = stream.set_nodelay(true);
        let tls = self.tls.as_ref().map(|tls| TlsAcceptor::from(tls.config()));
        let routes = self.routes.clone();
        let metrics = self.connections.metrics().clone();
        tokio::spawn(async move {
            let connection = Arc::clone(&place.connection);
            let served = async {
                match tls {
                    None => serve(stream, routes, Arc::clone(&connection), quiet, watcher).await,
                    Some(tls) => {
                        let stream = tokio::time::timeout(HANDSHAKE_LIMIT, tls.accept(stream))
                            .await
                            .map_err(|_| "no TLS handshake in time".to_owned())?
                            .map_err(|error| error.to_string())?;
                        serve(stream, routes, Arc::clone(&connection), quiet, watcher).await
                    }
                }
            };
            let served = tokio::select! {
                served = served => served,
                () = place.connection.must_close() => Err("closed for others".to_owned()),
                () = has_been_quiet(&place.connection, quiet) => {
                    metrics.closed("quiet");
                    Err(format!("took no byte for {} s", quiet.as_secs()))
                }
            };
            if let Err(error) = served {
                tracing::debug!("connection of {}: {error}", place.connection.client);
            }
        });
    }
}

/// Returns when the client has taken no byte for this long.
async fn has_been_quiet(connection: &Connection, limit: Duration) {
    loop {
        let left = limit.saturating_sub(connection.quiet());
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left).await;
    }
}

async fn serve(
    stream: impl Transport + Send + 'static,
    routes: Router,
    connection: Arc<Connection>,
    quiet: Duration,
    watcher: Watcher,
) -> Result<(), String> {
    let stream = Watched::new(stream, Arc::clone(&connection));
    let routes = TowerToHyperService::new(routes);
    let with_connection = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Arc::clone(&connection));
        routes.call(request)
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        // This is also the longest pause between two requests.
        .header_read_timeout(quiet)
        .max_buf_size(HEAD_LIMIT)
        .max_headers(MAX_HEADERS)
        // nbdkit's curl plugin compares `Accept-Ranges` case-sensitively, and the
        // script of metal3's downloader image does so with `ETag`.
        .title_case_headers(true)
        .serve_connection(TokioIo::new(stream), with_connection);
    watcher
        .watch(served)
        .await
        .map_err(|error| error.to_string())
}
