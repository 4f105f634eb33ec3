//! Requests to the machine's own BMC through the kernel's IPMI driver
//! (<linux/ipmi.h>).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// `IPMI_SYSTEM_INTERFACE_ADDR_TYPE`.
const SYSTEM_INTERFACE: libc::c_int = 0x0c;
/// `IPMI_BMC_CHANNEL`.
const BMC_CHANNEL: libc::c_short = 0xf;
/// `IPMI_MAX_MSG_LENGTH`.
const LONGEST: usize = 272;
/// The possible device nodes, in the order in which ipmitool tries them.
const DEVICES: [&str; 3] = ["/dev/ipmi0", "/dev/ipmi/0", "/dev/ipmidev/0"];

/// `struct ipmi_system_interface_addr`.
#[repr(C)]
struct Address {
    kind: libc::c_int,
    channel: libc::c_short,
    lun: u8,
}

/// `struct ipmi_msg`.
#[repr(C)]
struct Message {
    net_function: u8,
    command: u8,
    length: u16,
    data: *mut u8,
}

/// `struct ipmi_req`.
#[repr(C)]
pub struct Request {
    address: *mut Address,
    address_length: libc::c_uint,
    id: libc::c_long,
    message: Message,
}

/// `struct ipmi_recv`.
#[repr(C)]
pub struct Received {
    kind: libc::c_int,
    address: *mut Address,
    address_length: libc::c_uint,
    id: libc::c_long,
    message: Message,
}

mod raw {
    use super::{Received, Request};

    // `IPMICTL_RECEIVE_MSG_TRUNC` and `IPMICTL_SEND_COMMAND`.
    nix::ioctl_readwrite!(receive_truncated, b'i', 11, Received);
    nix::ioctl_read!(send_command, b'i', 13, Request);
}

/// A connection to the BMC.
#[derive(Debug)]
pub struct Ipmi {
    device: File,
    last_id: libc::c_long,
}

impl Ipmi {
    /// Opens the first of the IPMI devices that this process can open. Returns `None` if
    /// there is no such device.
    pub fn open() -> Option<Self> {
        let device = DEVICES
            .iter()
            .find_map(|path| OpenOptions::new().read(true).write(true).open(path).ok())?;
        Some(Self { device, last_id: 0 })
    }

    /// Sends a request and waits for its response. The first byte of the response
    /// is the completion code.
    ///
    /// # Errors
    /// `TimedOut` if the BMC does not answer within `limit`. `Other` if `data` is longer
    /// than 65535 bytes. Otherwise the kernel's error.
    pub fn ask(
        &mut self,
        net_function: u8,
        command: u8,
        data: &[u8],
        limit: Duration,
    ) -> io::Result<Vec<u8>> {
        self.last_id += 1;
        let mut data = data.to_vec();
        let mut address = Address {
            kind: SYSTEM_INTERFACE,
            channel: BMC_CHANNEL,
            lun: 0,
        };
        let mut request = Request {
            address: &raw mut address,
            address_length: size_of::<Address>() as libc::c_uint,
            id: self.last_id,
            message: Message {
                net_function,
                command,
                length: u16::try_from(data.len()).map_err(io::Error::other)?,
                data: data.as_mut_ptr(),
            },
        };
        loop {
            // SAFETY: all pointers refer to live values of the lengths next to them.
            // The kernel copies the values before the call returns.
            match unsafe { raw::send_command(self.device.as_raw_fd(), &raw mut request) } {
                Ok(_) => break,
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let until = Instant::now() + limit;
        loop {
            let (id, answer) = self.receive(until)?;
            // A late response to an earlier request, which timed out, may come first.
            if id == self.last_id {
                return Ok(answer);
            }
        }
    }

    /// Receives the next response. A signal, such as SIGCHLD, does not end the wait.
    fn receive(&self, until: Instant) -> io::Result<(libc::c_long, Vec<u8>)> {
        loop {
            self.wait(until)?;
            match self.take() {
                Err(Errno::EINTR) => {}
                taken => return Ok(taken?),
            }
        }
    }

    fn wait(&self, until: Instant) -> io::Result<()> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
            let mut waiting = [PollFd::new(self.device.as_fd(), PollFlags::POLLIN)];
            match poll(&mut waiting, timeout) {
                Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
                Ok(_) => return Ok(()),
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Takes a response from the driver's queue without waiting.
    fn take(&self) -> nix::Result<(libc::c_long, Vec<u8>)> {
        let mut data = [0; LONGEST];
        let mut address = Address {
            kind: 0,
            channel: 0,
            lun: 0,
        };
        let mut received = Received {
            kind: 0,
            address: &raw mut address,
            address_length: size_of::<Address>() as libc::c_uint,
            id: 0,
            message: Message {
                net_function: 0,
                command: 0,
                length: LONGEST as u16,
                data: data.as_mut_ptr(),
            },
        };
        // SAFETY: all pointers refer to live values of the lengths next to them,
        // and the kernel does not write beyond them. It truncates a longer message
        // and returns EMSGSIZE.
        match unsafe { raw::receive_truncated(self.device.as_raw_fd(), &raw mut received) } {
            Ok(_) | Err(Errno::EMSGSIZE) => {}
            Err(error) => return Err(error),
        }
        let length = usize::from(received.message.length).min(LONGEST);
        Ok((received.id, data[..length].to_vec()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// poll(2) fails with EINTR after a signal even if the handler has SA_RESTART, so the
    /// code must call it again.
    #[test]
    fn a_signal_does_not_end_the_wait() {
        use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

        extern "C" fn nothing(_: libc::c_int) {}
        let action = SigAction::new(
            SigHandler::Handler(nothing),
            SaFlags::SA_RESTART,
            SigSet::empty(),
        );
        // SAFETY: the handler does nothing.
        unsafe { sigaction(Signal::SIGUSR1, &action) }.unwrap();
        let (silent, _sender) = nix::unistd::pipe().unwrap();
        let ipmi = Ipmi {
            device: silent.into(),
            last_id: 0,
        };
        let until = Instant::now() + Duration::from_millis(400);
        // SAFETY: it only returns the calling thread's id.
        let waiter = unsafe { libc::pthread_self() };
        let error = std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..3 {
                    std::thread::sleep(Duration::from_millis(50));
                    // SAFETY: the waiting thread outlives this scope.
                    assert_eq!(unsafe { libc::pthread_kill(waiter, libc::SIGUSR1) }, 0);
                }
            });
            ipmi.receive(until).unwrap_err()
        });
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        // poll(2) counts in whole milliseconds, so the wait may end up to 1 ms early.
        assert!(Instant::now() + Duration::from_millis(1) >= until);
    }

    #[test]
    fn structures_have_the_kernels_size() {
        assert_eq!(size_of::<Address>(), 8);
        assert_eq!(size_of::<Message>(), 16);
        assert_eq!(size_of::<Request>(), 40);
        assert_eq!(size_of::<Received>(), 48);
    }
}
