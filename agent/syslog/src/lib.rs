//! Sends the log lines to a syslog server, from the first line of init on.
//!
//! The agent stores the lines until the network and the server are available
//! (`report/ring`). After a lost connection, and also after a restart of the agent, it
//! continues after the last line that it has sent. The lines of init, and of an agent
//! before a restart, come from the kernel's log.

mod message;
mod other_lines;

use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use landfall_boot_params::syslog_server::{SyslogServer, SyslogTransport};
use landfall_http_client::why_no_tls;
use landfall_inventory::host_name;
use landfall_network::NetworkState;
use landfall_report::failure::split_remedy;
use landfall_report::{events_after, newest_event};
use landfall_sys::backoff::Backoff;
use message::{Counted, Header};
use other_lines::OtherLines;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

/// The shortest and the longest pause between two attempts to connect.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// The time limit for each of these steps: the name lookup, the connection, the TLS
/// handshake, one write.
const LIMIT: Duration = Duration::from_secs(15);
/// A connection that lasts this long counts as working. A load balancer without a server
/// behind it accepts connections, but closes each one at once.
const STEADY: Duration = Duration::from_secs(60);

/// The number of the last event that was sent, 0 before the first one. `None` if no
/// syslog server is configured.
static SENT: LazyLock<watch::Sender<Option<u64>>> = LazyLock::new(watch::Sender::default);

/// Sends the log lines until the process ends. `tls` is used only for a `tls://` server.
/// `state` is the directory with the state of this boot.
pub async fn forward(
    server: SyslogServer,
    tls: Option<Arc<ClientConfig>>,
    mut network: watch::Receiver<NetworkState>,
    state: &Path,
) {
    SENT.send_replace(Some(0));
    let mut backoff = Backoff::new(SHORTEST_PAUSE, LONGEST_PAUSE);
    let mut others = OtherLines::of_this_boot(state, events_after(0).first());
    let mut sent = 0;
    let mut is_reported = false;
    loop {
        landfall_network::first_address(&mut network).await;
        let fault = match connect(&server, tls.as_ref()).await {
            Ok(mut connection) => {
                let start = Instant::now();
                let fault = connection.forward(&mut others, &mut sent).await;
                if start.elapsed() >= STEADY {
                    backoff.reset();
                    is_reported = false;
                }
                fault
            }
            Err(fault) => fault,
        };
        // Report an outage once: this line is also sent when the server is available
        // again.
        if !std::mem::replace(&mut is_reported, true) {
            let (fault, remedy) = split_remedy(&fault);
            tracing::warn!(
                "no syslog at {}://{}:{}: {fault}; trying again{remedy}",
                server.transport.scheme(),
                server.host,
                server.port
            );
        }
        tokio::time::sleep(backoff.pause()).await;
    }
}

/// Waits until all lines so far are sent, but not longer than `bound`. Used before the
/// machine stops.
pub async fn wait_until_sent(bound: Duration) {
    let newest = *newest_event().borrow();
    let mut sent = SENT.subscribe();
    let all = sent.wait_for(|sent| sent.is_none_or(|sent| sent >= newest));
    // After the limit the machine stops anyway.
    let _ = timeout(bound, all).await;
}

async fn connect(
    server: &SyslogServer,
    tls: Option<&Arc<ClientConfig>>,
) -> Result<Connection, String> {
    let found = timeout(
        LIMIT,
        tokio::net::lookup_host((server.host.as_str(), server.port)),
    );
    let found = found.await.map_err(|_| no_answer())?;
    let addresses: Vec<_> = found.map_err(|error| error.to_string())?.collect();
    let first = *addresses.first().ok_or("the name has no address")?;
    if server.transport == SyslogTransport::Udp {
        let any = match first.is_ipv6() {
            true => "[::]:0",
            false => "0.0.0.0:0",
        };
        let socket = UdpSocket::bind(any)
            .await
            .map_err(|error| error.to_string())?;
        socket
            .connect(first)
            .await
            .map_err(|error| error.to_string())?;
        return Ok(Connection::Datagrams(socket));
    }
    let stream = timeout(LIMIT, TcpStream::connect(&addresses[..]));
    let stream = stream.await.map_err(|_| no_answer())?;
    let stream = stream.map_err(|error| error.to_string())?;
    if server.transport != SyslogTransport::Tls {
        return Ok(Connection::Stream(Box::new(stream)));
    }
    let tls = tls.ok_or("TLS: expected the trusted authorities, found none")?;
    let name = ServerName::try_from(server.host.clone()).map_err(|error| error.to_string())?;
    let stream = timeout(
        LIMIT,
        TlsConnector::from(Arc::clone(tls)).connect(name, stream),
    );
    let stream = stream.await.map_err(|_| no_answer())?;
    Ok(Connection::Stream(Box::new(stream.map_err(|error| {
        format!("TLS: {}", why_no_tls(&error))
    })?)))
}

fn no_answer() -> String {
    format!("no answer in {} s", LIMIT.as_secs())
}

/// A stream that can be read and written.
trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

enum Connection {
    Datagrams(UdpSocket),
    Stream(Box<dyn Duplex>),
}

impl Connection {
    /// Sends the lines in `others`, and every event after the event with the number
    /// `sent`, sorted by time, until the connection fails. Returns the reason for the
    /// failure. Each line is removed from `others` after it is sent.
    async fn forward(&mut self, others: &mut OtherLines, sent: &mut u64) -> String {
        let mut newest = newest_event();
        loop {
            newest.mark_unchanged();
            // Take the other lines before the events are read. The events then include
            // every line of this process up to the last record that was taken, whose
            // number `all_sent` stores.
            others.take_new();
            if let Err(fault) = self.send_all(others, sent).await {
                return fault;
            }
            others.all_sent();
            tokio::select! {
                changed = newest.changed() => if changed.is_err() {
                    // The sender exists as long as the process.
                    std::future::pending().await
                },
                () = others.changed() => {}
                () = self.closed() => return "the server has closed the connection".to_owned(),
            }
        }
    }

    async fn send_all(&mut self, others: &mut OtherLines, sent: &mut u64) -> Result<(), String> {
        let header = Header::of_this_process(host_name::given());
        let mut events = events_after(*sent).into_iter().peekable();
        loop {
            let next = events.peek().map_or(f64::INFINITY, |event| event.time);
            if let Some(other) = others.first().filter(|other| other.time <= next) {
                self.send(&header.message(other)).await?;
                others.remove_first();
            } else if let Some(event) = events.next() {
                self.send(&header.message(&event)).await?;
                *sent = event.sequence;
                SENT.send_replace(Some(*sent));
            } else {
                return Ok(());
            }
        }
    }

    async fn send(&mut self, message: &str) -> Result<(), String> {
        let sent = async {
            match self {
                // Ignore errors: UDP has no acknowledgements. An error reports that the
                // port was closed for an earlier datagram, but the server may open it
                // later.
                Self::Datagrams(socket) => {
                    let _ = socket.send(message::for_datagram(message)).await;
                    Ok(())
                }
                Self::Stream(stream) => {
                    stream
                        .write_all(Counted(message).to_string().as_bytes())
                        .await?;
                    stream.flush().await
                }
            }
        };
        match timeout(LIMIT, sent).await {
            Ok(result) => result.map_err(|error| error.to_string()),
            Err(_) => Err(no_answer()),
        }
    }

    /// Waits until the server closes the connection, forever for UDP. A syslog server
    /// sends no data, so the data are dropped.
    async fn closed(&mut self) {
        match self {
            Self::Datagrams(_) => std::future::pending().await,
            Self::Stream(stream) => {
                let mut bytes = [0; 64];
                while matches!(stream.read(&mut bytes).await, Ok(1..)) {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
