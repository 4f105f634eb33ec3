//! Asks a storage over the network whether it is an NVMe/TCP target that answers.
//!
//! The kernel makes one connection at a time, so a storage that does not answer delays
//! the others. The agent can send this request to all storages at the same time. The
//! request uses the NIC and the source address of the kernel's connection, and has the
//! time limits of the kernel, so that it rejects no storage that the kernel can connect.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::connection::{Connection, Way};
use crate::nvme_tcp::{self, AnswerFault, INITIALIZE};

/// The kernel's time limit for the TCP connection: it sends a SYN twice (`TCP_SYNCNT` 1
/// in `nvme_tcp_alloc_queue`).
const CONNECT_LIMIT: Duration = Duration::from_secs(3);
/// The kernel's time limit for an answer (`sk_rcvtimeo` in `nvme_tcp_alloc_queue`).
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// Why the kernel is not asked to connect.
#[derive(Debug, thiserror::Error)]
pub enum ProbeFault {
    #[error(transparent)]
    Unreachable(io::Error),
    #[error("no answer in {} s", CONNECT_LIMIT.as_secs())]
    NoConnection,
    #[error(
        "no answer: the storage has accepted the TCP connection, and has sent nothing in {} s",
        ANSWER_LIMIT.as_secs()
    )]
    Silent,
    #[error("the connection broke: {0}")]
    Broken(io::Error),
    #[error("the storage closed the connection before it answered")]
    Closed,
    #[error("not an NVMe/TCP target: {0}")]
    NoTarget(#[from] AnswerFault),
}

/// Connects, asks, and closes the connection.
pub(crate) async fn probe(connection: &Connection, way: &Way) -> Result<(), ProbeFault> {
    let target = SocketAddr::new(connection.address, connection.port);
    let stream = match timeout(CONNECT_LIMIT, open(target, way)).await {
        Ok(opened) => opened.map_err(ProbeFault::Unreachable)?,
        Err(_) => return Err(ProbeFault::NoConnection),
    };
    let request = nvme_tcp::request(connection.header_digest, connection.data_digest);
    let asked = timeout(ANSWER_LIMIT, ask(stream, request)).await;
    asked.unwrap_or(Err(ProbeFault::Silent))
}

async fn open(target: SocketAddr, way: &Way) -> io::Result<TcpStream> {
    let socket = match target {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    if let Some(nic) = &way.nic {
        socket.bind_device(Some(nic.as_bytes()))?;
    }
    if let Some(source) = way.source {
        socket.bind(SocketAddr::new(source, 0))?;
    }
    socket.connect(target).await
}

async fn ask(mut stream: TcpStream, request: [u8; INITIALIZE]) -> Result<(), ProbeFault> {
    stream
        .write_all(&request)
        .await
        .map_err(ProbeFault::Broken)?;
    let (mut buffer, mut filled) = ([0; INITIALIZE], 0);
    loop {
        // The first ten bytes decide, so the buffer is never full.
        let read = stream.read(&mut buffer[filled..]).await;
        match read.map_err(ProbeFault::Broken)? {
            0 => return Err(ProbeFault::Closed),
            read => filled += read,
        }
        if let Some(answer) = nvme_tcp::answer(&buffer[..filled]) {
            return Ok(answer?);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::net::TcpListener;

    use super::*;
    use crate::connect::tests::connection;

    /// Probes a server that sends these bytes and closes the connection. Returns the
    /// result, and the request that the server has received.
    async fn probed(answer: &'static [u8]) -> (Result<(), ProbeFault>, [u8; INITIALIZE]) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let mut asked = connection("a");
        asked.header_digest = true;
        (asked.address, asked.port) = {
            let address = listener.local_addr().unwrap();
            (address.ip(), address.port())
        };
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; INITIALIZE];
            stream.read_exact(&mut request).await.unwrap();
            for byte in answer {
                // The probe closes the connection when it has seen enough.
                let _ = stream.write_all(&[*byte]).await;
                tokio::task::yield_now().await;
            }
            request
        });
        let way = Way {
            source: Some(Ipv4Addr::LOCALHOST.into()),
            nic: Some("lo".to_owned()),
        };
        let result = probe(&asked, &way).await;
        (result, server.await.unwrap())
    }

    #[tokio::test]
    async fn an_answer_that_comes_in_pieces() {
        let (result, request) = probed(&[1, 0, 128, 0, 128, 0, 0, 0]).await;
        assert!(result.is_ok(), "{result:?}");
        assert_eq!(request, nvme_tcp::request(true, false));
    }

    #[tokio::test]
    async fn what_is_not_a_target_has_a_reason() {
        for (answer, expected) in [
            (&b""[..], "the storage closed the connection"),
            (b"\x01\x00\x80", "the storage closed the connection"),
            (
                b"SSH-2.0-x",
                "not an NVMe/TCP target: expected a PDU of type 0x01 (ICResp), found type 0x53",
            ),
        ] {
            let fault = probed(answer).await.0.unwrap_err().to_string();
            assert!(fault.starts_with(expected), "{fault}");
        }
    }

    #[tokio::test]
    async fn nobody_listens() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let mut asked = connection("a");
        asked.address = Ipv4Addr::LOCALHOST.into();
        asked.port = listener.local_addr().unwrap().port();
        drop(listener);
        let fault = probe(&asked, &Way::default()).await.unwrap_err();
        assert!(fault.to_string().contains("refused"), "{fault}");
        // A NIC that has gone away.
        let way = Way {
            nic: Some("no-such-nic".to_owned()),
            ..Way::default()
        };
        let fault = probe(&asked, &way).await.unwrap_err();
        assert!(matches!(fault, ProbeFault::Unreachable(_)), "{fault}");
    }
}
