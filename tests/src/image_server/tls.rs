//! The same server behind TLS.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::journal::{Journal, Source};

/// A client that connects and says nothing must not keep the others out for long.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);

/// Takes connections, and completes the handshake of each.
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
                // The client's alert is in it.
                Err(error) => self.journal.record(Source::Images, format!("TLS: {error}")),
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}
