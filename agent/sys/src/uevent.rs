//! Receives the kernel's messages about devices that are added, changed or removed.
//!
//! The socket is a `NETLINK_KOBJECT_UEVENT` socket in multicast group 1, to which the
//! kernel sends. (Group 2 belongs to udevd, which does not run in the ramdisk.)
//! `kobject_uevent_env()` in linux/lib/kobject_uevent.c defines the format of a message.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recvfrom, setsockopt,
    socket, sockopt,
};

/// The size of the buffer for a message in bytes: at least `UEVENT_BUFFER_SIZE` (2048)
/// for the variables, plus a header `ACTION@DEVPATH` whose path is at most `PATH_MAX`
/// (4096).
const MESSAGE_LIMIT: usize = 8192;
/// `UEVENT_NUM_ENVP` in linux/include/linux/kobject.h.
const PROPERTY_LIMIT: usize = 64;
/// Space in bytes for events that arrive while the program handles another one. A server
/// with a thousand virtual functions sends about 10000 messages, and the kernel counts
/// about 1 KiB for each. Only queued messages use memory.
const QUEUE_BYTES: usize = 16 << 20;
const KERNEL_GROUP: u32 = 1;

/// The socket receives every event after [`UeventSocket::open`]. Open it first and
/// scan /sys afterwards, so that no device is missed.
#[derive(Debug)]
pub struct UeventSocket(OwnedFd);

/// The result of [`UeventSocket::recv`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    Event(Uevent),
    /// Events are lost, because the queue has overflowed or a message was too long. The
    /// caller must scan /sys again.
    Lost,
    /// Nothing happened within the timeout.
    TimedOut,
}

impl UeventSocket {
    /// Subscribes to the kernel's events.
    ///
    /// # Errors
    /// If the kernel has no uevents or no descriptor is available.
    pub fn open() -> io::Result<Self> {
        Self::with_queue(QUEUE_BYTES)
    }

    fn with_queue(bytes: usize) -> io::Result<Self> {
        let fd = socket(
            AddressFamily::Netlink,
            SockType::Datagram,
            SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
            SockProtocol::NetlinkKObjectUEvent,
        )?;
        // Only a process with CAP_NET_ADMIN may exceed the system-wide limit. With
        // the usual limit of 208 KiB the loss of events is more likely, but it is
        // still reported.
        let _ = setsockopt(&fd, sockopt::RcvBufForce, &bytes);
        bind(fd.as_raw_fd(), &NetlinkAddr::new(0, KERNEL_GROUP))?;
        Ok(Self(fd))
    }

    /// Waits for the next event, at most `timeout`, or forever if there is no
    /// timeout.
    ///
    /// # Errors
    /// If poll(2) or recvfrom(2) fails, except for lost events and interruptions.
    pub fn recv(&self, timeout: Option<Duration>) -> io::Result<Received> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            if let Some(received) = self.try_recv()? {
                return Ok(received);
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(Received::TimedOut);
            }
            let mut fds = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
            match poll(&mut fds, poll_timeout(left)) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The next queued event, or `None` if the queue is empty.
    ///
    /// # Errors
    /// If recvfrom(2) fails, except for lost events and interruptions.
    pub fn try_recv(&self) -> io::Result<Option<Received>> {
        let mut message = [0; MESSAGE_LIMIT];
        loop {
            let (length, sender) = match recvfrom::<NetlinkAddr>(self.0.as_raw_fd(), &mut message) {
                Ok(received) => received,
                Err(Errno::EAGAIN) => return Ok(None),
                Err(Errno::EINTR) => continue,
                Err(Errno::ENOBUFS) => return Ok(Some(Received::Lost)),
                Err(error) => return Err(error.into()),
            };
            // Port 0 is the kernel. Messages from other ports are ignored: privileged
            // programs can send messages to this group too.
            if sender.is_none_or(|sender| sender.pid() != 0) {
                continue;
            }
            if length == message.len() {
                return Ok(Some(Received::Lost));
            }
            if let Some(event) = Uevent::parse(&message[..length]) {
                return Ok(Some(Received::Event(event)));
            }
        }
    }
}

impl AsFd for UeventSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// poll(2) counts in milliseconds. The value is rounded up, because rounding down
/// would cause a busy loop in the last millisecond. A value that is too large for
/// poll(2) is reduced to the largest one, and the caller's loop polls again.
fn poll_timeout(left: Option<Duration>) -> PollTimeout {
    let Some(left) = left else {
        return PollTimeout::NONE;
    };
    PollTimeout::try_from(left.saturating_add(Duration::from_nanos(999_999)))
        .unwrap_or(PollTimeout::MAX)
}

/// What happened to the device (`kobject_actions` in the kernel).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Add,
    Remove,
    Change,
    Move,
    Online,
    Offline,
    Bind,
    Unbind,
}

impl Action {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "add" => Self::Add,
            "remove" => Self::Remove,
            "change" => Self::Change,
            "move" => Self::Move,
            "online" => Self::Online,
            "offline" => Self::Offline,
            "bind" => Self::Bind,
            "unbind" => Self::Unbind,
            _ => return None,
        })
    }
}

/// One event: an action, a device, and more variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uevent {
    pub action: Action,
    /// The path of the device below /sys, with a leading slash: `/devices/...`.
    pub devpath: String,
    properties: Vec<(String, String)>,
}

impl Uevent {
    /// Parses a message: `ACTION@DEVPATH`, then `KEY=value` strings, each
    /// terminated by NUL. Returns `None` for anything else (udevd's messages have a
    /// different header).
    ///
    /// The variables `ACTION` and `DEVPATH` are dropped, because they repeat the
    /// header. Bytes that are not UTF-8 are replaced.
    pub fn parse(message: &[u8]) -> Option<Self> {
        let message = message.strip_suffix(b"\0").unwrap_or(message);
        let mut strings = message
            .split(|&byte| byte == 0)
            .map(String::from_utf8_lossy);
        let header = strings.next()?;
        let (action, devpath) = header.split_once('@')?;
        let action = Action::parse(action)?;
        if !devpath.starts_with('/') {
            return None;
        }
        let properties = strings
            .take(PROPERTY_LIMIT)
            .filter_map(|text| {
                let (key, value) = text.split_once('=')?;
                (!matches!(key, "" | "ACTION" | "DEVPATH")).then(|| (key.into(), value.into()))
            })
            .collect();
        Some(Self {
            action,
            devpath: devpath.to_owned(),
            properties,
        })
    }

    /// The value of the variable `key`, if the message has it.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.properties
            .iter()
            .find_map(|(name, value)| (name == key).then_some(value.as_str()))
    }

    /// The class or bus of the device: `block`, `net`, `pci`...
    pub fn subsystem(&self) -> &str {
        self.get("SUBSYSTEM").unwrap_or_default()
    }

    /// The text that is matched against the aliases of kernel modules.
    pub fn modalias(&self) -> Option<&str> {
        self.get("MODALIAS")
    }

    /// The type of the device within its subsystem: `disk`, `partition`...
    pub fn devtype(&self) -> Option<&str> {
        self.get("DEVTYPE")
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;
    use crate::skip::skip;

    // A device that every Linux has, for test events. The action "change" does not
    // reach its driver (linux/Documentation/ABI/testing/sysfs-uevent).
    const NULL_UEVENT: &str = "/sys/devices/virtual/mem/null/uevent";

    #[test]
    fn reads_what_the_kernel_writes() {
        let message = b"add@/devices/pci0000:00/0000:00:03.0/virtio1/block/vda\0ACTION=add\0\
            DEVPATH=/devices/pci0000:00/0000:00:03.0/virtio1/block/vda\0SUBSYSTEM=block\0\
            MAJOR=254\0MINOR=0\0DEVNAME=vda\0DEVTYPE=disk\0DISKSEQ=9\0SEQNUM=1234\0";
        let event = Uevent::parse(message).unwrap();
        assert_eq!(event.action, Action::Add);
        assert_eq!(
            event.devpath,
            "/devices/pci0000:00/0000:00:03.0/virtio1/block/vda"
        );
        assert_eq!(event.subsystem(), "block");
        assert_eq!(event.get("DEVNAME"), Some("vda"));
        assert_eq!(event.devtype(), Some("disk"));
        assert_eq!(event.modalias(), None);
        assert_eq!(event.get("SEQNUM"), Some("1234"));
        assert_eq!(event.get("DEVPATH"), None, "kept once, as a field");
    }

    #[test]
    fn values_may_hold_equal_signs_and_at_signs() {
        let event =
            Uevent::parse(b"bind@/devices/a@b\0MODALIAS=of:NxT=y@z\0SUBSYSTEM=platform").unwrap();
        assert_eq!(event.devpath, "/devices/a@b");
        assert_eq!(event.modalias(), Some("of:NxT=y@z"));
    }

    #[test]
    fn everything_else_is_no_event() {
        for message in [
            &b""[..],
            b"\0",
            b"libudev\0\xfe\xed\xca\xfe",
            b"add",
            b"add@",
            b"add@relative/path\0",
            b"ADD@/devices/x\0",
            b"burn@/devices/x\0",
            b"@/devices/x\0",
        ] {
            assert_eq!(Uevent::parse(message), None, "{message:?}");
        }
    }

    #[test]
    fn variables_are_bounded() {
        let mut message = b"add@/devices/x\0".to_vec();
        for n in 0..1000 {
            message.extend(format!("K{n}=v\0").bytes());
        }
        let event = Uevent::parse(&message).unwrap();
        assert_eq!(event.properties.len(), PROPERTY_LIMIT);
    }

    #[test]
    fn silence_ends_at_the_timeout() {
        let socket = UeventSocket::open().unwrap();
        // Other tests and the machine itself may cause events meanwhile.
        let deadline = Instant::now() + Duration::from_secs(5);
        while socket.recv(Some(Duration::from_millis(10))).unwrap() != Received::TimedOut {
            assert!(Instant::now() < deadline, "events without an end");
        }
    }

    #[test]
    fn hears_the_kernel() {
        let socket = UeventSocket::open().unwrap();
        if fs::write(NULL_UEVENT, "change 11111111-2222-4333-8444-555555555555").is_err() {
            return skip(format_args!("{NULL_UEVENT} needs root and a writable /sys"));
        }
        loop {
            match socket.recv(Some(Duration::from_secs(5))).unwrap() {
                Received::Event(event)
                    if event.get("SYNTH_UUID") == Some("11111111-2222-4333-8444-555555555555") =>
                {
                    assert_eq!(event.action, Action::Change);
                    assert_eq!(event.devpath, "/devices/virtual/mem/null");
                    assert_eq!(event.get("DEVNAME"), Some("null"));
                    return;
                }
                Received::Event(_) => {}
                other => panic!("expected the event, found {other:?}"),
            }
        }
    }

    #[test]
    fn a_full_queue_is_reported() {
        let socket = UeventSocket::with_queue(4096).unwrap();
        for _ in 0..200 {
            if fs::write(NULL_UEVENT, "change").is_err() {
                return skip(format_args!("{NULL_UEVENT} needs root and a writable /sys"));
            }
        }
        let mut seen = Vec::new();
        while let Some(received) = socket.try_recv().unwrap() {
            seen.push(received);
        }
        assert!(seen.contains(&Received::Lost), "{} received", seen.len());
    }

    #[test]
    fn waiting_never_spins() {
        let millis = |left| poll_timeout(Some(left)).as_millis();
        assert_eq!(millis(Duration::from_nanos(1)), Some(1));
        assert_eq!(millis(Duration::from_millis(7)), Some(7));
        assert!(millis(Duration::MAX).is_some_and(|longest| longest > 1_000_000));
        assert_eq!(poll_timeout(None), PollTimeout::NONE);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(message in prop::collection::vec(any::<u8>(), 0..MESSAGE_LIMIT)) {
            if let Some(event) = Uevent::parse(&message) {
                prop_assert!(event.properties.len() <= PROPERTY_LIMIT);
                prop_assert!(event.devpath.starts_with('/'));
            }
        }

        #[test]
        fn a_written_event_is_read_back(
            path in "(/[a-z0-9:._@-]{1,12}){1,8}",
            values in prop::collection::vec("[ -~]{0,40}", 0..30),
        ) {
            let mut message = format!("add@{path}\0ACTION=add\0");
            for (n, value) in values.iter().enumerate() {
                message.push_str(&format!("KEY_{n}={value}\0"));
            }
            let event = Uevent::parse(message.as_bytes()).unwrap();
            prop_assert_eq!(&event.devpath, &path);
            for (n, value) in values.iter().enumerate() {
                prop_assert_eq!(event.get(&format!("KEY_{n}")), Some(value.as_str()));
            }
        }
    }
}
