//! Accepts connections, with TLS or without, and ends in good order.
//!
//! A connection that nobody speaks on is bounded in time (the handshake, the
//! head of a request, the next one) and gives way to others (`places`).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener as StdListener};
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
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use super::places::{Caller, Places};

const HANDSHAKE_LIMIT: Duration = Duration::from_secs(15);
/// Also the longest pause between two requests on one connection.
const HEAD_LIMIT: Duration = Duration::from_secs(30);
/// Of a request's head, and of what is read ahead of a body. The largest head
/// that a conductor sends has some 300 bytes.
const BUFFER_LIMIT: usize = 64 << 10;
/// After this long without an answer from the peer's TCP it counts as gone.
const PEER_GONE: Duration = Duration::from_secs(60);
/// How long an answer under way may take when the agent ends.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// A running server.
#[derive(Debug)]
pub struct Listening {
    task: JoinHandle<()>,
    stop: Arc<Notify>,
    address: SocketAddr,
}

impl Listening {
    /// Where the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no more connections, lets the answers under way go out, ends.
    pub async fn stop(self) {
        self.stop.notify_one();
        // Both outcomes mean: the server no longer matters.
        let _ = tokio::time::timeout(LAST_ANSWERS, self.task).await;
    }
}

/// Serves these routes on this port, on every address unless one is given.
///
/// # Errors
/// If the port cannot be had.
pub fn listen(
    host: Option<IpAddr>,
    port: u16,
    tls: Option<Arc<ServerConfig>>,
    routes: Router,
) -> io::Result<Listening> {
    let listener = match host {
        Some(host) => StdListener::bind((host, port))?,
        // `::` takes IPv4 too; a kernel without IPv6 has only the other.
        None => StdListener::bind((Ipv6Addr::UNSPECIFIED, port))
            .or_else(|_| StdListener::bind((Ipv4Addr::UNSPECIFIED, port)))?,
    };
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let address = listener.local_addr()?;
    let stop = Arc::new(Notify::new());
    let server = Server {
        tls: tls.map(TlsAcceptor::from),
        routes,
        places: Places::default(),
    };
    let task = tokio::spawn(server.run(listener, Arc::clone(&stop)));
    Ok(Listening {
        task,
        stop,
        address,
    })
}

struct Server {
    tls: Option<TlsAcceptor>,
    routes: Router,
    places: Places,
}

impl Server {
    async fn run(self, listener: TcpListener, stop: Arc<Notify>) {
        let graceful = GracefulShutdown::new();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = stop.notified() => break,
            };
            match accepted {
                Ok((stream, peer)) => self.begin(stream, peer, graceful.watcher()),
                Err(error) => {
                    // Out of descriptors or memory: give them time to come back.
                    tracing::warn!("accepting a connection: {error}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
        drop(listener);
        graceful.shutdown().await;
    }

    /// Serves one connection in a task of its own, so that a client which
    /// stalls in its handshake holds up nobody.
    fn begin(&self, stream: TcpStream, peer: SocketAddr, watcher: Watcher) {
        let place = self.places.take(peer.ip());
        // A conductor that lost its power says nothing any more.
        let _ = setsockopt(&stream, sockopt::KeepAlive, &true);
        let _ = setsockopt(
            &stream,
            sockopt::TcpUserTimeout,
            &(PEER_GONE.as_millis() as u32),
        );
        let (tls, routes) = (self.tls.clone(), self.routes.clone());
        tokio::spawn(async move {
            let caller = place.caller();
            let served = async {
                match tls {
                    None => serve(stream, routes, caller, watcher).await,
                    Some(tls) => match handshake(stream, tls).await {
                        Ok(stream) => serve(stream, routes, caller, watcher).await,
                        Err(error) => Err(error.to_string()),
                    },
                }
            };
            let served = tokio::select! {
                served = served => served,
                () = place.needed() => Err("closed for others".to_owned()),
            };
            if let Err(error) = served {
                tracing::debug!("connection of {peer}: {error}");
            }
        });
    }
}

async fn handshake(
    stream: TcpStream,
    tls: TlsAcceptor,
) -> io::Result<tokio_rustls::server::TlsStream<TcpStream>> {
    tokio::time::timeout(HANDSHAKE_LIMIT, tls.accept(stream))
        .await
        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    routes: Router,
    caller: Caller,
    watcher: Watcher,
) -> Result<(), String> {
    let routes = TowerToHyperService::new(routes);
    let with_caller = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(caller.clone());
        routes.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_LIMIT)
        .max_buf_size(BUFFER_LIMIT)
        .serve_connection(TokioIo::new(stream), with_caller);
    watcher
        .watch(connection)
        .await
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[tokio::test]
    async fn answers_under_way_go_out_before_the_end() {
        let routes = Router::new().route(
            "/",
            get(|| async {
                tokio::time::sleep(Duration::from_millis(200)).await;
                "done"
            }),
        );
        let localhost = IpAddr::from(Ipv4Addr::LOCALHOST);
        let server = listen(Some(localhost), 0, None, routes).unwrap();
        let address = server.address();
        let mut client = TcpStream::connect(address).await.unwrap();
        client
            .write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            .await
            .unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        server.stop().await;
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert!(answer.ends_with("done"), "{answer}");
        assert!(
            TcpStream::connect(address).await.is_err(),
            "still listening"
        );
    }
}
