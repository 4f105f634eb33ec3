//! Makes the TCP connection to a target, and logs in over this connection. The
//! functions block: at most 8 s for each connection and 15 s for each login, and a
//! target may redirect several times.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, SocketAddrV6, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use nix::net::if_::if_nametoindex;
use nix::sys::socket::sockopt::{BindToDevice, SendTimeout};
use nix::sys::socket::{
    AddressFamily, SockFlag, SockProtocol, SockType, SockaddrStorage, connect, setsockopt, socket,
};
use nix::sys::time::TimeVal;

use crate::login::{LoggedIn, Login, LoginFault, Next, Redirect, Wish};
use crate::pdu::{self, HEADER, LoginRequest, LoginResponse};

/// The time limit for connect(2). The kernel retransmits the SYN three times in this time
/// (after 1, 3 and 7 s).
const CONNECT_LIMIT: Duration = Duration::from_secs(8);
/// The time limit for the whole login, in which an array answers within milliseconds.
const LOGIN_LIMIT: Duration = Duration::from_secs(15);
/// The maximum number of redirections in one login. An array redirects once, to the
/// port that is less busy.
const MOST_REDIRECTIONS: usize = 4;

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
pub enum ConnectFault {
    #[error("cannot connect to {portal}: {error}")]
    Unreachable {
        portal: SocketAddr,
        error: io::Error,
    },
    #[error("the connection to {portal} broke during the login: {error}")]
    Broken {
        portal: SocketAddr,
        error: io::Error,
    },
    #[error(transparent)]
    Login(#[from] LoginFault),
    #[error("expected at most {MOST_REDIRECTIONS} redirections, found another one to {0}")]
    Redirections(SocketAddr),
}

/// A connection on which the login has succeeded.
#[derive(Debug)]
pub struct Connected {
    pub stream: TcpStream,
    /// Where the connection leads, after redirections.
    pub portal: SocketAddr,
    pub session: LoggedIn,
}

/// A connection that carries login requests and responses.
pub trait Wire {
    /// Sends the request and waits for its response.
    ///
    /// # Errors
    /// If the connection breaks or the time limit is over, or if the answer is not a
    /// login response.
    fn exchange(&mut self, request: &LoginRequest) -> Result<LoginResponse, WireFault>;
}

#[derive(Debug, thiserror::Error)]
pub enum WireFault {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Login(#[from] LoginFault),
}

/// How a login without faults ends.
#[derive(Debug)]
pub enum End {
    LoggedIn(LoggedIn),
    Elsewhere(Redirect),
}

/// Logs in over a connection.
///
/// # Errors
/// As [`Wire::exchange`] and [`Login::answer`].
pub fn log_in(wire: &mut impl Wire, wish: &Wish) -> Result<End, WireFault> {
    let mut login = Login::new(wish.clone());
    let mut request = login.first();
    loop {
        let response = wire.exchange(&request)?;
        match login.answer(&response)? {
            Next::Send(next) => request = next,
            Next::Done(session) => return Ok(End::LoggedIn(session)),
            Next::Elsewhere(redirect) => return Ok(End::Elsewhere(redirect)),
        }
    }
}

/// Connects over the NIC `nic`, or over any NIC if `nic` is `None`, and logs in.
/// Follows redirections.
///
/// # Errors
/// If the target cannot be reached, or if the login fails.
pub fn connect_and_log_in(
    mut portal: SocketAddr,
    nic: Option<&str>,
    wish: &Wish,
) -> Result<Connected, ConnectFault> {
    for _ in 0..=MOST_REDIRECTIONS {
        let stream =
            open(portal, nic).map_err(|error| ConnectFault::Unreachable { portal, error })?;
        let mut wire = TcpWire {
            stream: &stream,
            deadline: Instant::now() + LOGIN_LIMIT,
            next_tag: 0,
        };
        match log_in(&mut wire, wish) {
            Ok(End::LoggedIn(session)) => {
                return Ok(Connected {
                    stream,
                    portal,
                    session,
                });
            }
            Ok(End::Elsewhere(to)) => {
                portal = SocketAddr::new(to.address, to.port);
                tracing::info!("the target {} redirects to {portal}", wish.target);
            }
            Err(WireFault::Io(error)) => return Err(ConnectFault::Broken { portal, error }),
            Err(WireFault::Login(fault)) => return Err(fault.into()),
        }
    }
    Err(ConnectFault::Redirections(portal))
}

/// Opens a TCP connection over the NIC `nic`, or over any NIC if `nic` is `None`.
///
/// # Errors
/// If the target does not answer, or the NIC cannot be used.
pub fn open(portal: SocketAddr, nic: Option<&str>) -> io::Result<TcpStream> {
    let family = match portal {
        SocketAddr::V4(_) => AddressFamily::Inet,
        SocketAddr::V6(_) => AddressFamily::Inet6,
    };
    let socket: OwnedFd = socket(
        family,
        SockType::Stream,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::Tcp,
    )?;
    if let Some(nic) = nic {
        setsockopt(&socket, BindToDevice, &nic.into())?;
    }
    // SO_SNDTIMEO limits connect(2) as well (socket(7)).
    let limit = i64::try_from(CONNECT_LIMIT.as_secs()).unwrap_or(i64::MAX);
    setsockopt(&socket, SendTimeout, &TimeVal::new(limit, 0))?;
    let address = SockaddrStorage::from(with_zone(portal, nic));
    match connect(std::os::fd::AsRawFd::as_raw_fd(&socket), &address) {
        Ok(()) => (),
        Err(nix::Error::EINPROGRESS | nix::Error::EAGAIN) => {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in 8 s"));
        }
        Err(error) => return Err(error.into()),
    }
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Adds the index of the NIC to a link-local address, which is not unique without it.
fn with_zone(portal: SocketAddr, nic: Option<&str>) -> SocketAddr {
    match (portal, nic.and_then(|nic| if_nametoindex(nic).ok())) {
        (SocketAddr::V6(six), Some(index)) if six.ip().is_unicast_link_local() => {
            SocketAddrV6::new(*six.ip(), six.port(), 0, index).into()
        }
        _ => portal,
    }
}

struct TcpWire<'a> {
    stream: &'a TcpStream,
    deadline: Instant,
    next_tag: u32,
}

impl TcpWire<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        let mut filled = 0;
        while filled < buffer.len() {
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in 15 s"));
            }
            self.stream.set_read_timeout(Some(left))?;
            match self.stream.read(&mut buffer[filled..]) {
                Ok(0) => {
                    let closed = "the target closed the connection";
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, closed));
                }
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                // The read has timed out. The loop checks the deadline.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => (),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Wire for TcpWire<'_> {
    fn exchange(&mut self, request: &LoginRequest) -> Result<LoginResponse, WireFault> {
        let mut request = request.clone();
        request.task_tag = self.next_tag;
        self.next_tag += 1;
        self.stream.write_all(&request.encode())?;
        let mut header = [0; HEADER];
        self.read(&mut header)?;
        let length = pdu::data_length(&header).map_err(LoginFault::from)?;
        let mut data = vec![0; pdu::padded(length)];
        self.read(&mut data)?;
        let response = LoginResponse::parse(&header, &data).map_err(LoginFault::from)?;
        Ok(response)
    }
}
