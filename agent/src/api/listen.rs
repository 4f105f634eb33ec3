//! Accepts connections, with TLS or without, and ends in good order.
//!
//! Whoever can reach the port can open connections, token or not. So there is
//! a bound on all of them, on those of one host, and on the time to make a
//! handshake and to send a request's head: the conductor always gets through.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener as StdListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
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

/// A conductor uses two or three at once. One host may not have all of them.
const CONNECTIONS: usize = 128;
const CONNECTIONS_OF_ONE_HOST: usize = 16;
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(15);
/// Also the longest pause between two requests on one connection.
const HEAD_LIMIT: Duration = Duration::from_secs(30);
/// After this long without an answer from the peer's TCP it counts as gone.
const PEER_GONE: Duration = Duration::from_secs(60);
/// How long an answer under way may take when the agent ends.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// A running server.
#[derive(Debug)]
pub struct Listening {
    task: JoinHandle<()>,
    stop: Arc<Notify>,
}

impl Listening {
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
    let stop = Arc::new(Notify::new());
    let server = Server {
        tls: tls.map(TlsAcceptor::from),
        routes,
        places: Arc::default(),
    };
    let task = tokio::spawn(server.run(listener, Arc::clone(&stop)));
    Ok(Listening { task, stop })
}

struct Server {
    tls: Option<TlsAcceptor>,
    routes: Router,
    places: Arc<Mutex<HashMap<IpAddr, usize>>>,
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
        let Some(place) = Place::take(&self.places, peer.ip()) else {
            tracing::debug!("{peer}: too many connections, closed");
            return;
        };
        // A conductor that lost its power says nothing any more.
        let _ = setsockopt(&stream, sockopt::KeepAlive, &true);
        let _ = setsockopt(
            &stream,
            sockopt::TcpUserTimeout,
            &(PEER_GONE.as_millis() as u32),
        );
        let (tls, routes) = (self.tls.clone(), self.routes.clone());
        tokio::spawn(async move {
            let _place = place;
            let served = match tls {
                None => serve(stream, routes, watcher).await,
                Some(tls) => match handshake(stream, tls).await {
                    Ok(stream) => serve(stream, routes, watcher).await,
                    Err(error) => Err(error.to_string()),
                },
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
    watcher: Watcher,
) -> Result<(), String> {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_LIMIT)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes));
    watcher
        .watch(connection)
        .await
        .map_err(|error| error.to_string())
}

/// A connection's place among all and among those of its host.
struct Place {
    places: Arc<Mutex<HashMap<IpAddr, usize>>>,
    host: IpAddr,
}

impl Place {
    fn take(places: &Arc<Mutex<HashMap<IpAddr, usize>>>, host: IpAddr) -> Option<Self> {
        let mut taken = places.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = taken.values().sum();
        let own = taken.entry(host).or_default();
        if all >= CONNECTIONS || *own >= CONNECTIONS_OF_ONE_HOST {
            return None;
        }
        *own += 1;
        drop(taken);
        Some(Self {
            places: Arc::clone(places),
            host,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = taken.get_mut(&self.host) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&self.host);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[test]
    fn one_host_cannot_take_every_place() {
        let places = Arc::default();
        let greedy = IpAddr::from([192, 0, 2, 66]);
        let taken: Vec<Place> = std::iter::from_fn(|| Place::take(&places, greedy)).collect();
        assert_eq!(taken.len(), CONNECTIONS_OF_ONE_HOST);
        assert!(Place::take(&places, IpAddr::from([192, 0, 2, 1])).is_some());
        drop(taken);
        assert!(Place::take(&places, greedy).is_some());
    }

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
        // Port 0 would do, but what was bound is not told: take a free one.
        let free = StdListener::bind((localhost, 0)).unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let server = listen(Some(localhost), address.port(), None, routes).unwrap();
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
