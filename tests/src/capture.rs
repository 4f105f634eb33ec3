//! Captures every frame on the lab's bridges and taps, for tests that check which
//! packets are not sent.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use anyhow::Result;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike as _};

/// In bytes: the maximum length of a captured frame, enough for the headers.
const SNAP_LENGTH: usize = 256;

/// A capture on all interfaces of the lab's namespace. It runs until it is dropped.
pub struct Capture {
    frames: Arc<Mutex<Vec<Frame>>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// The start of a frame, including its Ethernet header.
#[derive(Debug, Clone)]
pub struct Frame(Vec<u8>);

impl Capture {
    /// Starts capturing, in the network namespace of the calling thread: call it in the
    /// lab's thread.
    pub fn start() -> Result<Self> {
        let all = socket(
            AddressFamily::Packet,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::EthAll,
        )?;
        setsockopt(&all, sockopt::ReceiveTimeout, &TimeVal::milliseconds(200))?;
        let frames = Arc::new(Mutex::new(Vec::new()));
        let is_over = Arc::new(AtomicBool::new(false));
        let (kept, ends) = (Arc::clone(&frames), Arc::clone(&is_over));
        let thread = std::thread::spawn(move || listen(&all, &kept, &ends));
        Ok(Self {
            frames,
            is_over,
            thread: Some(thread),
        })
    }

    /// Counts the frames from this MAC address that satisfy `is_so`.
    #[must_use]
    pub fn count(&self, sender: &str, is_so: impl Fn(&Frame) -> bool) -> usize {
        let frames = self.frames.lock().unwrap_or_else(PoisonError::into_inner);
        let from = frames.iter().filter(|frame| frame.sender() == sender);
        from.filter(|frame| is_so(frame)).count()
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // An error means that the thread has panicked, which has been printed already.
            let _ = thread.join();
        }
    }
}

fn listen(socket: &OwnedFd, frames: &Mutex<Vec<Frame>>, is_over: &AtomicBool) {
    let mut buffer = [0; SNAP_LENGTH];
    while !is_over.load(Ordering::Relaxed) {
        // An error means a timeout or a signal.
        let Ok(length) = recv(socket.as_raw_fd(), &mut buffer, MsgFlags::empty()) else {
            continue;
        };
        let frame = Frame(buffer[..length].to_vec());
        let mut frames = frames.lock().unwrap_or_else(PoisonError::into_inner);
        frames.push(frame);
    }
}

impl Frame {
    fn sender(&self) -> String {
        let bytes = self.0.get(6..12).unwrap_or_default();
        let bytes: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        bytes.join(":")
    }

    fn ether_type(&self) -> Option<u16> {
        Some(u16::from_be_bytes(self.0.get(12..14)?.try_into().ok()?))
    }

    /// Whether the frame is TCP over IPv4. Assumes an IPv4 header without options.
    #[must_use]
    pub fn is_tcp(&self) -> bool {
        self.ether_type() == Some(0x0800) && self.0.get(23) == Some(&6)
    }

    /// Whether the frame is a message to a DHCP server: UDP port 67, or 547 with
    /// IPv6.
    #[must_use]
    pub fn is_dhcp(&self) -> bool {
        let (protocol, port) = match self.ether_type() {
            Some(0x0800) => (self.0.get(23), self.0.get(36..38)),
            Some(0x86dd) => (self.0.get(20), self.0.get(56..58)),
            _ => return false,
        };
        protocol == Some(&17) && matches!(port, Some([0, 67] | [2, 35]))
    }

    #[must_use]
    pub fn is_ipv6(&self) -> bool {
        self.ether_type() == Some(0x86dd)
    }
}
