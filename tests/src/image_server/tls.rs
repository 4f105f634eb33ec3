//! Serves images over TLS.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::journal::{Journal, Source};

/// Limit for a handshake, so that a silent client does not block the others for
/// long.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);

/// Accepts connections and completes the TLS handshake of each.
pub(super) struct TlsListener {
    pub(super) listener: TcpListener,
    pub(super) acceptor: TlsAcceptor,
    pub(super) journal: Journal,
}

impl TlsListener {
    pub(super) fn new(listener: TcpListener, config: Arc<ServerConfig>, journal: Journal) -> Self {
        Self {
            listener,
            acceptor: config.into(),
            journal,
        }
    }

    async fn next(&self) -> io::Result<(TlsStream<TcpStream>, SocketAddr)> {
        let (stream, from) = self.listener.accept().await?;
        let handshake = self.acceptor.accept(stream);
        let stream = tokio::time::timeout(HANDSHAKE_LIMIT, handshake).await??;
        Ok((stream, from))
    }
}

impl axum::serve::Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            match self.next().await {
                Ok(connection) => return connection,
                // The error contains the client's TLS alert.
                Err(error) => self.journal.record(Source::Images, format!("TLS: {error}")),
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}
