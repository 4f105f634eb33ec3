//! Accepts connections, with TLS or without, and ends in good order.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener as StdListener};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::serve::Listener;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// A conductor uses two or three at once; the rest of the network gets no more
/// of our memory than this many connections.
const CONNECTIONS: usize = 64;
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(15);
/// How long an answer under way may take when the agent ends.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// A running server.
#[derive(Debug)]
pub struct Listening {
    task: JoinHandle<io::Result<()>>,
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
    let listener = Handshaken::start(TcpListener::from_std(listener)?, tls);
    let stop = Arc::new(Notify::new());
    let stopped = Arc::clone(&stop);
    let task = tokio::spawn(async move {
        axum::serve(listener, routes)
            .with_graceful_shutdown(async move { stopped.notified().await })
            .await
    });
    Ok(Listening { task, stop })
}

/// Connections whose TLS handshake is done. Handshakes run beside each other,
/// so that a client which stalls in one holds up nobody.
struct Handshaken {
    ready: mpsc::Receiver<(Connection, SocketAddr)>,
    address: SocketAddr,
}

impl Handshaken {
    fn start(listener: TcpListener, tls: Option<Arc<ServerConfig>>) -> Self {
        let address = listener
            .local_addr()
            .unwrap_or_else(|_| SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)));
        let (done, ready) = mpsc::channel(CONNECTIONS);
        let tls = tls.map(TlsAcceptor::from);
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        tokio::spawn(async move {
            loop {
                // Closed only with the semaphore, which lives as long as we do.
                let Ok(place) = Arc::clone(&places).acquire_owned().await else {
                    return;
                };
                let accepted = tokio::select! {
                    accepted = listener.accept() => accepted,
                    () = done.closed() => return,
                };
                let (stream, peer) = match accepted {
                    Ok(accepted) => accepted,
                    Err(error) => {
                        // Out of descriptors or memory: give them time to come back.
                        tracing::warn!("accepting a connection: {error}");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                        continue;
                    }
                };
                let (tls, done) = (tls.clone(), done.clone());
                tokio::spawn(async move {
                    match handshake(stream, tls).await {
                        Ok(stream) => {
                            let connection = Connection {
                                stream,
                                _place: place,
                            };
                            // Nobody receives once the server has stopped.
                            let _ = done.send((connection, peer)).await;
                        }
                        Err(error) => {
                            tracing::debug!("TLS handshake with {peer}: {error}");
                        }
                    }
                });
            }
        });
        Self { ready, address }
    }
}

async fn handshake(stream: TcpStream, tls: Option<TlsAcceptor>) -> io::Result<Stream> {
    let Some(tls) = tls else {
        return Ok(Stream::Plain(stream));
    };
    let stream = tokio::time::timeout(HANDSHAKE_LIMIT, tls.accept(stream))
        .await
        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    Ok(Stream::Tls(Box::new(stream)))
}

impl Listener for Handshaken {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        match self.ready.recv().await {
            Some(connection) => connection,
            // The accepting task has ended, which it does only with this value.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

/// One connection and its place among the [`CONNECTIONS`].
struct Connection {
    stream: Stream,
    _place: OwnedSemaphorePermit,
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.get_mut().stream {
            Stream::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().stream {
            Stream::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().stream {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(context),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().stream {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
