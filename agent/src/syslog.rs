//! Sends the log lines to a syslog server, from the first line of init on.
//!
//! The agent keeps the lines until the network and the server are there (`report/ring`),
//! and sends them again from where it stopped when a connection ends.

mod message;

use std::collections::VecDeque;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use landfall_boot_params::syslog_server::{SyslogServer, SyslogTransport};
use landfall_http_client::why_no_tls;
use landfall_inventory::host_name;
use landfall_network::NetworkState;
use landfall_report::failure::split_remedy;
use landfall_report::{Event, events_after, kernel_log, newest_event};
use landfall_sys::backoff::Backoff;
use message::{Counted, Header};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

/// The pauses between two attempts to connect.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// The time limit of a connection, its TLS handshake, and of one write.
const LIMIT: Duration = Duration::from_secs(15);
/// How long a connection lasts that works. A load balancer without a server behind it
/// accepts connections, and closes each at once.
const STEADY: Duration = Duration::from_secs(60);
/// How many of the kernel's records may be lines of init before the agent started.
const INIT_LINES: usize = 1000;

/// The number of the last event that was sent. `None` if nothing is sent.
static SENT: LazyLock<watch::Sender<Option<u64>>> = LazyLock::new(watch::Sender::default);

/// Sends the log lines for as long as the process runs. `tls` is only for TLS.
pub async fn forward(
    server: SyslogServer,
    tls: Option<Arc<ClientConfig>>,
    mut network: watch::Receiver<NetworkState>,
) {
    SENT.send_replace(Some(0));
    let mut backoff = Backoff::new(SHORTEST_PAUSE, LONGEST_PAUSE);
    let mut early = lines_of_init();
    let mut sent = 0;
    let mut is_reported = false;
    loop {
        landfall_network::first_address(&mut network).await;
        let fault = match connect(&server, tls.as_ref()).await {
            Ok(mut connection) => {
                let start = Instant::now();
                let fault = connection.forward(&mut early, &mut sent).await;
                if start.elapsed() >= STEADY {
                    backoff.reset();
                    is_reported = false;
                }
                fault
            }
            Err(fault) => fault,
        };
        // The line itself is sent when the server is back, so one is enough.
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

/// Waits until all lines so far are sent, at most `bound`, before the machine stops.
pub async fn wait_until_sent(bound: Duration) {
    let newest = *newest_event().borrow();
    let mut sent = SENT.subscribe();
    let all = sent.wait_for(|sent| sent.is_none_or(|sent| sent >= newest));
    // After the limit the machine stops all the same.
    let _ = timeout(bound, all).await;
}

/// The lines of init before the agent started, from the kernel's log.
fn lines_of_init() -> VecDeque<Event> {
    let records = kernel_log::records().into_iter();
    let of_init = records.filter_map(|record| {
        let line = record.text.strip_prefix("landfall init: ")?;
        let (level, text) = match line.split_once(' ') {
            Some(("FAILED", text)) => (tracing::Level::ERROR, text),
            Some(("warning:", text)) => (tracing::Level::WARN, text),
            _ => (tracing::Level::INFO, line),
        };
        Some(Event {
            sequence: 0,
            time: record.time,
            stage: "init".to_owned(),
            level,
            text: text.to_owned(),
            progress: None,
        })
    });
    of_init.take(INIT_LINES).collect()
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
    let Some(tls) = tls.filter(|_| server.transport == SyslogTransport::Tls) else {
        return Ok(Connection::Stream(Box::new(stream)));
    };
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
    /// Sends the early lines, then every event after the one with the number `sent`,
    /// until the connection fails. Returns why. Lines that are sent leave `early`.
    async fn forward(&mut self, early: &mut VecDeque<Event>, sent: &mut u64) -> String {
        let mut newest = newest_event();
        loop {
            newest.mark_unchanged();
            let header = Header::of_this_process(host_name::given());
            while let Some(event) = early.front() {
                if let Err(fault) = self.send(&header.message(event)).await {
                    return fault;
                }
                early.pop_front();
            }
            for event in events_after(*sent) {
                if let Err(fault) = self.send(&header.message(&event)).await {
                    return fault;
                }
                *sent = event.sequence;
                SENT.send_replace(Some(*sent));
            }
            tokio::select! {
                changed = newest.changed() => if changed.is_err() {
                    // The sender lives as long as the process.
                    std::future::pending().await
                },
                () = self.closed() => return "the server has closed the connection".to_owned(),
            }
        }
    }

    async fn send(&mut self, message: &str) -> Result<(), String> {
        let sent = async {
            match self {
                // Nobody answers. An error is that of an earlier datagram: the port is
                // closed, and may be opened later.
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

    /// Waits until the server closes the connection. A syslog server sends nothing.
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
