//! Talks to the iSCSI code of the kernel over netlink: sessions, connections, and the
//! events that the kernel reports about them. The order of the requests is the same as
//! in open-iscsi (initiator.c).

pub(crate) mod message;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::time::{Duration, Instant};

use landfall_sys::sysfs;
use landfall_sys::system_path::SystemPath;
use message::{Answer, Event, Message, Parameter, Request};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, sendto,
    socket,
};

use crate::agreed::Agreed;
use crate::connect::{Wire, WireFault};
use crate::login::{FIRST_COMMAND, LoginFault};
use crate::pdu::{HEADER, LoginRequest, LoginResponse};

/// The time limit for the kernel's answer to a request. The kernel answers within
/// milliseconds, except while it ends a session.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);
/// The time limit for each login response that arrives over the kernel's connection.
const RESPONSE_LIMIT: Duration = Duration::from_secs(15);
/// The multicast group of the kernel's events (`ISCSI_NL_GRP_ISCSID`).
const EVENTS: u32 = 1;
/// The maximum number of queued events. Further events are dropped.
const MOST_EVENTS: usize = 1024;
/// The number of commands per session and per disk. These are open-iscsi's defaults
/// (`cmds_max`, `queue_depth`).
const MOST_COMMANDS: u16 = 128;
const QUEUE_DEPTH: u16 = 32;

/// The kernel module for iSCSI over TCP, which is also the name of its SCSI driver.
pub const MODULE: &str = "iscsi_tcp";

/// An open netlink socket, for one session.
#[derive(Debug)]
pub struct Kernel {
    socket: OwnedFd,
    transport: u64,
    /// The session whose events are queued. The kernel sends the events of all sessions.
    session: Option<u32>,
    events: VecDeque<Event>,
}

/// A session in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelSession {
    pub number: u32,
    /// The SCSI host.
    pub host: u32,
}

/// The attributes that sysfs shows for a session, and its recovery timeout.
#[derive(Debug, Clone)]
pub(crate) struct Labels<'a> {
    pub(crate) initiator: &'a str,
    pub(crate) target: &'a str,
    pub(crate) address: String,
    pub(crate) port: u16,
    pub(crate) boot_target: &'a str,
    pub(crate) boot_nic: Option<&'a str>,
    /// How long the kernel keeps the requests to the disk after a connection has failed.
    pub(crate) recovery: Duration,
}

impl Kernel {
    /// Opens the socket. The module must be loaded.
    ///
    /// # Errors
    /// If the kernel has no `iscsi_tcp`, or the socket cannot be opened.
    pub fn open() -> io::Result<Self> {
        let handle = SystemPath::live().join("sys/class/iscsi_transport/tcp/handle");
        let transport = sysfs::number(&handle).ok_or(io::ErrorKind::NotFound)?;
        let socket = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkISCSI,
        )?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, EVENTS))?;
        Ok(Self {
            socket,
            transport,
            session: None,
            events: VecDeque::new(),
        })
    }

    /// Creates a session with one connection, which has no socket yet.
    pub(crate) fn create(&mut self) -> io::Result<KernelSession> {
        let answer = self.call(&Request::CreateSession {
            first_command: FIRST_COMMAND,
            most_commands: MOST_COMMANDS,
            queue_depth: QUEUE_DEPTH,
        })?;
        let session = KernelSession {
            number: answer.first,
            host: answer.second,
        };
        self.keep_events_of(session.number);
        match self.call(&Request::CreateConnection {
            session: session.number,
        }) {
            Ok(_) => Ok(session),
            Err(error) => {
                let _ = self.call(&Request::DestroySession {
                    session: session.number,
                });
                Err(error)
            }
        }
    }

    /// Queues the events of this session from now on, and drops all other events.
    pub(crate) fn keep_events_of(&mut self, session: u32) {
        self.session = Some(session);
        self.events.clear();
    }

    /// Destroys the session with its connection and its SCSI host. Only logs errors.
    pub(crate) fn destroy(&mut self, session: u32) {
        for request in [
            Request::Stop {
                session,
                flag: message::STOP_FOR_GOOD,
            },
            Request::DestroyConnection { session },
            Request::DestroySession { session },
        ] {
            if let Err(error) = self.call(&request) {
                tracing::debug!("the kernel rejects {:?}: {error}", request.kind());
            }
        }
    }

    /// Gives the kernel the socket. The kernel holds its own reference to the socket.
    pub(crate) fn bind(
        &mut self,
        session: u32,
        socket: &impl std::os::fd::AsRawFd,
    ) -> io::Result<()> {
        let socket = u64::try_from(socket.as_raw_fd()).unwrap_or(u64::MAX);
        self.checked(&Request::Bind { session, socket })
    }

    /// Stops the connection for a new login: the kernel releases the socket, and keeps
    /// the requests to the disk until the next connection.
    pub(crate) fn stop_for_recovery(&mut self, session: u32) -> io::Result<()> {
        let flag = message::STOP_FOR_RECOVERY;
        self.call(&Request::Stop { session, flag }).map(drop)
    }

    pub(crate) fn start(&mut self, session: u32) -> io::Result<()> {
        self.checked(&Request::Start { session })
    }

    /// Sets the attributes and timeouts of the session. Its connection must be bound to a
    /// socket.
    pub(crate) fn label(&mut self, session: u32, labels: &Labels) -> io::Result<()> {
        let port = labels.port.to_string();
        let recovery = labels.recovery.as_secs().to_string();
        let mut values = vec![
            (Parameter::TargetName, labels.target),
            (Parameter::InitiatorName, labels.initiator),
            (Parameter::PersistentAddress, &labels.address),
            (Parameter::PersistentPort, &port),
            (Parameter::RecoveryTimeout, &recovery),
            // The kernel pings the target every 5 s, and waits 5 s for the answer.
            // These are open-iscsi's defaults.
            (Parameter::PingTimeout, "5"),
            (Parameter::ReceiveTimeout, "5"),
            // iscsistart sets these as well: NetworkManager's dracut module and others
            // read them.
            (Parameter::BootRoot, "ibft"),
            (Parameter::BootTarget, labels.boot_target),
        ];
        values.extend(labels.boot_nic.map(|nic| (Parameter::BootNic, nic)));
        values
            .iter()
            .try_for_each(|(parameter, value)| self.set(session, *parameter, value))
    }

    /// Sets the parameters on which the login has agreed.
    pub(crate) fn agree(&mut self, session: u32, agreed: &Agreed) -> io::Result<()> {
        let flag = u32::from;
        let values = [
            // The kernel accepts only lengths that are multiples of 4 bytes.
            (Parameter::MaxRecv, agreed.longest_received & !3),
            (Parameter::MaxXmit, agreed.longest_sent & !3),
            (Parameter::HeaderDigest, flag(agreed.header_digest)),
            (Parameter::DataDigest, flag(agreed.data_digest)),
            (Parameter::InitialR2t, flag(agreed.initial_r2t)),
            (Parameter::MaxR2t, agreed.ready_to_transfer),
            (Parameter::ImmediateData, flag(agreed.immediate_data)),
            (Parameter::FirstBurst, agreed.longest_first_burst & !3),
            (Parameter::MaxBurst, agreed.longest_burst & !3),
            (Parameter::PduInOrder, flag(agreed.data_in_order)),
            (
                Parameter::DataSequenceInOrder,
                flag(agreed.sequence_in_order),
            ),
            (Parameter::ErrorRecoveryLevel, 0),
        ];
        for (parameter, value) in values {
            self.set(session, parameter, &value.to_string())?;
        }
        match agreed.portal_group {
            Some(group) => self.set(session, Parameter::PortalGroup, &group.to_string()),
            None => Ok(()),
        }
    }

    /// Sets the number of the target's next response (ExpStatSN). The agent calls this
    /// after every login, even if the kernel has transferred the PDUs of the login.
    pub(crate) fn expect_status(&mut self, session: u32, number: u32) -> io::Result<()> {
        self.set(
            session,
            Parameter::ExpectedStatusNumber,
            &number.to_string(),
        )
    }

    /// Sets one parameter. Ignores the error if this kernel does not have the parameter,
    /// as open-iscsi does.
    fn set(&mut self, session: u32, parameter: Parameter, value: &str) -> io::Result<()> {
        match self.call(&Request::Set {
            session,
            parameter,
            value,
        }) {
            Err(error) if error.raw_os_error() == Some(nix::libc::ENOSYS) => Ok(()),
            result => result.map(drop),
        }
    }

    /// Sends a request whose answer contains an error number.
    fn checked(&mut self, request: &Request) -> io::Result<()> {
        let code = self.call(request)?.first.cast_signed();
        match code {
            0 => Ok(()),
            code => Err(io::Error::from_raw_os_error(code.abs())),
        }
    }

    fn call(&mut self, request: &Request) -> io::Result<Answer> {
        let message = request.encode(self.transport);
        let to_kernel = NetlinkAddr::new(0, 0);
        sendto(
            self.socket.as_raw_fd(),
            &message,
            &to_kernel,
            MsgFlags::empty(),
        )?;
        let deadline = Instant::now() + ANSWER_LIMIT;
        loop {
            match self.receive(deadline)? {
                None => {
                    let text = format!("the kernel does not answer {:?}", request.kind());
                    return Err(io::Error::new(io::ErrorKind::TimedOut, text));
                }
                Some(Message::Answer(answer)) if answer.kind == request.kind() as u32 => {
                    return Ok(answer);
                }
                // A late answer to a request that was given up.
                Some(Message::Answer(_)) => (),
                Some(Message::Rejected(code)) => {
                    return Err(io::Error::from_raw_os_error(code.saturating_abs()));
                }
                Some(Message::Event(event)) => self.keep(event),
            }
        }
    }

    fn keep(&mut self, event: Event) {
        if event.session().is_some_and(|of| Some(of) == self.session)
            && self.events.len() < MOST_EVENTS
        {
            self.events.push_back(event);
        }
    }

    /// The next event of the session, or `None` if there is none within `wait`.
    pub(crate) fn next_event(&mut self, wait: Duration) -> io::Result<Option<Event>> {
        let deadline = Instant::now() + wait;
        while self.events.is_empty() {
            match self.receive(deadline)? {
                None => return Ok(None),
                Some(Message::Event(event)) => self.keep(event),
                Some(Message::Answer(_) | Message::Rejected(_)) => (),
            }
        }
        Ok(self.events.pop_front())
    }

    /// One message, or `None` after the deadline.
    fn receive(&mut self, deadline: Instant) -> io::Result<Option<Message>> {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            // Rounded up, so that the last wait does not spin.
            let left =
                PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX);
            let mut ready = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
            match poll(&mut ready, left) {
                Ok(0) if deadline <= Instant::now() => return Ok(None),
                Ok(0) | Err(nix::Error::EINTR) => continue,
                Ok(_) => (),
                Err(error) => return Err(error.into()),
            }
            match recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(length) => {
                    if let Some(message) = message::decode(&buffer[..length]) {
                        return Ok(Some(message));
                    }
                }
                Err(nix::Error::EINTR | nix::Error::EAGAIN) => (),
                // The kernel has dropped events and does not repeat them. Therefore
                // [`crate::watch`] also reads the state of the session.
                Err(nix::Error::ENOBUFS) => {
                    tracing::debug!("events of the kernel's iSCSI were lost")
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Transfers the PDUs of a login over a connection that the kernel has. The kernel fills
/// in the numbers of commands and responses, because only the kernel knows them.
pub(crate) struct KernelWire<'a> {
    pub(crate) kernel: &'a mut Kernel,
    pub(crate) session: u32,
}

impl Wire for KernelWire<'_> {
    fn exchange(&mut self, request: &LoginRequest) -> Result<LoginResponse, WireFault> {
        let bytes = request.encode();
        let (header, data) = bytes.split_at(HEADER);
        let session = self.session;
        self.kernel.checked(&Request::Send {
            session,
            header,
            data,
        })?;
        let deadline = Instant::now() + RESPONSE_LIMIT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.kernel.next_event(left)? {
                None => {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in 15 s").into());
                }
                Some(Event::Received { header, data, .. }) => {
                    return LoginResponse::parse(&header, &data)
                        .map_err(|fault| LoginFault::from(fault).into());
                }
                Some(Event::ConnectionError { code, .. }) => {
                    return Err(io::Error::other(message::reason(code)).into());
                }
                Some(Event::Other(_)) => (),
            }
        }
    }
}
