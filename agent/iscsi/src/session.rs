//! Manages a session to a target: from the first login until the disk appears, and
//! after a lost connection.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use landfall_sys::sysfs;
use landfall_sys::system_path::SystemPath;
use nix::libc::{EAGAIN, EBUSY, ENOTCONN};
use sha2::{Digest as _, Sha256};

use crate::boot_table::BootTarget;
use crate::connect::{self, ConnectFault, End, WireFault};
use crate::kernel::{Kernel, KernelSession, KernelWire, Labels, MODULE};
use crate::login::{Cause, Wish};

/// How long the kernel keeps the requests to a disk after a lost connection, before it
/// fails them. The value is open-iscsi's default. If there is another path, a long wait
/// only delays the switch to that path.
const RECOVERY: Duration = Duration::from_secs(120);
const RECOVERY_WITH_PATHS: Duration = Duration::from_secs(15);

/// A target, and how this machine reaches it.
#[derive(Debug, Clone)]
pub struct Way {
    pub target: BootTarget,
    pub initiator: String,
    /// The name of the NIC, or `None` if the routes decide.
    pub nic: Option<String>,
    /// The table has other targets, which are probably paths to the same disk.
    pub has_other_paths: bool,
    /// The index of the target in the table. It makes the names of this machine's
    /// sessions differ.
    pub number: u16,
    /// Whether the login is only a trial. A trial uses a session name of its own: a
    /// target ends an existing session with the same name (RFC 7143, 6.3.5), and a disk
    /// may depend on that session.
    pub is_trial: bool,
}

/// A session that the kernel has.
#[derive(Debug)]
pub struct Session {
    pub way: Way,
    pub kernel: KernelSession,
}

#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    #[error("{0}")]
    Connect(#[from] ConnectFault),
    #[error("the kernel does not take over the session: {0}")]
    Kernel(io::Error),
    #[error("the kernel cannot look for the disk: {0}")]
    Scan(io::Error),
}

impl SessionError {
    /// Whether a later attempt can succeed without a change by somebody.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Connect(ConnectFault::Login(fault)) => fault.cause().is_temporary(),
            Self::Connect(ConnectFault::Redirections(_)) => false,
            Self::Connect(_) => true,
            // The target has closed the connection before the kernel had taken it over
            // completely, or the kernel is still ending an earlier connection (ENOTCONN
            // of iscsi_if_transport_conn, drivers/scsi/scsi_transport_iscsi.c).
            Self::Kernel(error) => {
                error.kind() == io::ErrorKind::TimedOut
                    || matches!(error.raw_os_error(), Some(ENOTCONN | EAGAIN | EBUSY))
            }
            Self::Scan(_) => false,
        }
    }

    /// Whether this error may come from an array that is still starting: its address
    /// may be available before its targets are.
    pub fn may_pass(&self) -> bool {
        let is_of_start = match self {
            Self::Connect(ConnectFault::Login(fault)) => {
                matches!(fault.cause(), Cause::UnknownTarget | Cause::Forbidden)
            }
            _ => false,
        };
        is_of_start || self.is_temporary()
    }

    /// What the operator does next.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Connect(ConnectFault::Login(fault)) => fault.cause().remedy(),
            Self::Connect(ConnectFault::Redirections(_)) => Cause::Protocol.remedy(),
            Self::Connect(_) => {
                "check the address and the port in the firmware's iSCSI settings, the cable and VLAN of the NIC, and whether the array listens there"
            }
            Self::Kernel(_) | Self::Scan(_) => "look at the kernel's lines in the log",
        }
    }
}

impl Way {
    /// The names and the secrets for the login.
    pub fn wish(&self) -> Wish {
        Wish {
            initiator: self.initiator.clone(),
            target: self.target.name.clone(),
            isid: isid(&self.initiator, self.number, self.is_trial),
            chap: self.target.chap.clone(),
        }
    }

    fn labels(&self) -> Labels<'_> {
        let nic = self.target.nic.as_ref();
        Labels {
            initiator: &self.initiator,
            target: &self.target.name,
            address: self.target.portal.ip().to_string(),
            port: self.target.portal.port(),
            boot_target: &self.target.record,
            boot_nic: nic.map(|nic| nic.record.as_str()),
            recovery: match self.has_other_paths {
                true => RECOVERY_WITH_PATHS,
                false => RECOVERY,
            },
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.nic {
            Some(nic) => write!(f, "{} over {nic}", self.target),
            None => self.target.fmt(f),
        }
    }
}

/// The initiator's part of the session's name (RFC 7143, 11.12.5) in the random format.
/// It is the same in each boot, so that a target drops the session of an earlier boot.
/// It differs for each target of the table and for a trial.
fn isid(initiator: &str, number: u16, is_trial: bool) -> [u8; 6] {
    const RANDOM: u8 = 0x80;
    /// A bit that no index of a target has.
    const TRIAL: u16 = 0x8000;
    let digest = Sha256::digest(initiator.as_bytes());
    let number = match is_trial {
        true => number | TRIAL,
        false => number,
    };
    let [high, low] = number.to_be_bytes();
    [RANDOM, digest[0], digest[1], digest[2], high, low]
}

impl Session {
    /// Connects, logs in, and hands the connection over to the kernel.
    ///
    /// # Errors
    /// If the target cannot be reached or rejects the login, or if the kernel rejects
    /// the session. In these cases the kernel keeps no part of the session.
    pub fn begin(kernel: &mut Kernel, way: Way) -> Result<Self, SessionError> {
        let connected =
            connect::connect_and_log_in(way.target.portal, way.nic.as_deref(), &way.wish())?;
        let created = kernel.create().map_err(SessionError::Kernel)?;
        let number = created.number;
        let handed_over = kernel
            .bind(number, &connected.stream)
            .and_then(|()| kernel.label(number, &way.labels()))
            .and_then(|()| kernel.agree(number, &connected.session.agreed))
            .and_then(|()| kernel.expect_status(number, connected.session.expected_status_number))
            .and_then(|()| kernel.start(number));
        // From here on, the kernel has a reference of its own to the socket, so a
        // restart of the agent does not close the socket.
        match handed_over {
            Ok(()) => Ok(Self {
                way,
                kernel: created,
            }),
            Err(error) => {
                kernel.destroy(number);
                Err(SessionError::Kernel(error))
            }
        }
    }

    /// Makes the kernel scan the logical unit that the firmware booted from. The kernel
    /// does not scan other units of the target: they may belong to other machines, and
    /// cleaning would erase them.
    ///
    /// # Errors
    /// If the kernel rejects the order.
    pub fn scan(&self) -> Result<(), SessionError> {
        let file = format!("/sys/class/scsi_host/host{}/scan", self.kernel.host);
        let order = format!("- - {}", self.way.target.lun);
        std::fs::write(file, order).map_err(SessionError::Scan)
    }

    /// The names of the disks of this session: `sda`.
    pub fn disks(&self, system: &SystemPath) -> Vec<String> {
        let number = self.kernel.number;
        let device = system.join(format!("sys/class/iscsi_session/session{number}/device"));
        let below = |directory: &SystemPath, is_wanted: fn(&str) -> bool| -> Vec<SystemPath> {
            let names = sysfs::names(directory).into_iter();
            let names = names.filter(|name| is_wanted(name));
            names.map(|name| directory.join(name)).collect()
        };
        // target3:0:0/3:0:0:1/block/sda
        let targets = below(&device, |name| name.starts_with("target"));
        let units = targets
            .iter()
            .flat_map(|target| below(target, |name| name.contains(':')));
        units
            .flat_map(|unit| sysfs::names(&unit.join("block")))
            .collect()
    }

    /// Whether the kernel has a working connection for the session.
    pub fn is_connected(&self, system: &SystemPath) -> bool {
        let number = self.kernel.number;
        let state = system.join(format!("sys/class/iscsi_session/session{number}/state"));
        sysfs::text(&state).as_deref() == Some("LOGGED_IN")
    }

    /// Makes one attempt to log in again after the connection has failed.
    ///
    /// # Errors
    /// As [`Session::begin`]. The session stays in the kernel, without a connection.
    pub fn resume(&self, kernel: &mut Kernel) -> Result<(), SessionError> {
        let number = self.kernel.number;
        let mut portal = self.way.target.portal;
        // Follow one redirection. After a second one, the next attempt starts again.
        for _ in 0..2 {
            // An error is only logged, because the kernel may have stopped the connection
            // already.
            let stopped = kernel.stop_for_recovery(number);
            if let Err(error) = stopped {
                tracing::debug!("the kernel does not stop session {number}: {error}");
            }
            let stream = connect::open(portal, self.way.nic.as_deref())
                .map_err(|error| ConnectFault::Unreachable { portal, error })?;
            kernel.bind(number, &stream).map_err(SessionError::Kernel)?;
            let mut wire = KernelWire {
                kernel: &mut *kernel,
                session: number,
            };
            let ended = connect::log_in(&mut wire, &self.way.wish());
            match ended {
                Ok(End::LoggedIn(session)) => {
                    return kernel
                        .label(number, &self.way.labels())
                        .and_then(|()| kernel.agree(number, &session.agreed))
                        .and_then(|()| kernel.expect_status(number, session.expected_status_number))
                        .and_then(|()| kernel.start(number))
                        .map_err(SessionError::Kernel);
                }
                Ok(End::Elsewhere(to)) => portal = SocketAddr::new(to.address, to.port),
                Err(WireFault::Io(error)) => {
                    return Err(ConnectFault::Broken { portal, error }.into());
                }
                Err(WireFault::Login(fault)) => return Err(ConnectFault::from(fault).into()),
            }
        }
        Err(ConnectFault::Redirections(portal).into())
    }

    /// The session of an earlier run of the agent to this target, if the kernel still has
    /// it.
    pub fn of_earlier_run(system: &SystemPath, way: &Way) -> Option<Self> {
        let known = sessions(system).into_iter().find(|known| {
            known.is_software
                && known.target == way.target.name
                && known.portal == Some(way.target.portal)
        })?;
        Some(Self {
            way: way.clone(),
            kernel: known.kernel,
        })
    }
}

/// A session that the kernel shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownSession {
    pub kernel: KernelSession,
    pub target: String,
    pub portal: Option<SocketAddr>,
    /// The session is one of `iscsi_tcp`, and not of an adapter that logs in by itself.
    pub is_software: bool,
}

/// The sessions that the kernel has.
pub fn sessions(system: &SystemPath) -> Vec<KnownSession> {
    let class = system.join("sys/class/iscsi_session");
    let names = sysfs::names(&class).into_iter();
    names
        .filter_map(|name| session_named(system, &name))
        .collect()
}

fn session_named(system: &SystemPath, name: &str) -> Option<KnownSession> {
    let directory = system.join("sys/class/iscsi_session").join(name);
    let number = name.strip_prefix("session")?.parse().ok()?;
    // .../host3/session1/iscsi_session/session1
    let device = directory.resolved()?;
    let host = device.ancestors().find_map(|place| {
        let host = place.name()?.strip_prefix("host")?;
        host.parse::<u32>().ok()
    })?;
    let connection = system.join(format!("sys/class/iscsi_connection/connection{number}:0"));
    let address = sysfs::text(&connection.join("persistent_address"));
    let port = sysfs::number(&connection.join("persistent_port"));
    let portal = address.and_then(|address| Some(SocketAddr::new(address.parse().ok()?, port?)));
    let driver = sysfs::text(&system.join(format!("sys/class/scsi_host/host{host}/proc_name")));
    Some(KnownSession {
        kernel: KernelSession { number, host },
        target: sysfs::text(&directory.join("targetname"))?,
        portal,
        is_software: driver.as_deref() == Some(MODULE),
    })
}

#[cfg(test)]
mod tests;
