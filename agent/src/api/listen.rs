//! Accepts connections, with or without TLS, and shuts the server down in an
//! orderly way.
//!
//! Every wait for an idle client has a time limit: the handshake, the head of a request,
//! the pause before the next request. A connection is also closed if there are too many
//! connections (`places`).

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
/// The time limit for the head of a request. It is also the longest pause
/// between two requests on one connection.
const HEAD_LIMIT: Duration = Duration::from_secs(30);
/// The maximum size in bytes of a request's head, and of the data that is read
/// ahead from a body. The largest head that a conductor sends has about 300 bytes.
const BUFFER_LIMIT: usize = 64 << 10;
/// If the client's TCP stack does not answer for this long, the connection
/// counts as lost.
const PEER_GONE: Duration = Duration::from_secs(60);
/// How long a response in progress may take when the server stops.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub struct Listening {
    task: JoinHandle<()>,
    stop: Arc<Notify>,
    address: SocketAddr,
}

impl Listening {
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops accepting connections, and waits up to 5 s for the responses in progress.
    pub async fn stop(self) {
        self.stop.notify_one();
        // After the limit the port is free all the same, because the task has closed its
        // listener.
        let _ = tokio::time::timeout(LAST_ANSWERS, self.task).await;
    }
}

/// Starts a server with these routes on this port. Without `host` it listens on all
/// addresses.
///
/// # Errors
/// If the address or the port is not available.
pub fn listen(
    host: Option<IpAddr>,
    port: u16,
    tls: Option<Arc<ServerConfig>>,
    routes: Router,
) -> io::Result<Listening> {
    let listener = match host {
        Some(host) => StdListener::bind((host, port))?,
        // `::` accepts IPv4 as well. A kernel without IPv6 has only the IPv4 address.
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
                    // Usually the process has run out of file descriptors or memory: wait
                    // until some are free again.
                    tracing::warn!("cannot accept a connection: {error}; trying again");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
        drop(listener);
        graceful.shutdown().await;
    }

    /// Serves one connection in a separate task, so that a client that stalls in
    /// its handshake blocks no other client.
    fn begin(&self, stream: TcpStream, peer: SocketAddr, watcher: Watcher) {
        let place = self.places.take(peer.ip());
        // A conductor that lost its power sends nothing, so let TCP detect the loss.
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
