//! One attempt to connect, and what its error means.

use std::fs::OpenOptions;
use std::io::{self, Write as _};

use nix::errno::Errno;

/// What connects subsystems: the kernel, or a test.
pub trait Fabrics: Send + Sync + 'static {
    /// Connects. Blocks until the controller is ready, or until the kernel gives up.
    ///
    /// # Errors
    /// The kernel's.
    fn connect(&self, options: &str) -> io::Result<()>;
}

/// /dev/nvme-fabrics of this machine.
#[derive(Clone, Copy, Debug)]
pub struct FabricsDevice;

const DEVICE: &str = "/dev/nvme-fabrics";

impl FabricsDevice {
    /// Loads the driver. False if this kernel or this ramdisk does not have it.
    pub fn load_driver() -> bool {
        // No device announces it, so nothing else loads it. It brings nvme-fabrics.
        landfall_init::modprobe(&"nvme_tcp".into());
        std::path::Path::new(DEVICE).exists()
    }
}

impl Fabrics for FabricsDevice {
    fn connect(&self, options: &str) -> io::Result<()> {
        let mut device = OpenOptions::new().read(true).write(true).open(DEVICE)?;
        // The kernel takes the options of one write as a whole.
        device.write_all(options.as_bytes())
    }
}

/// The result of an attempt.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    Connected,
    /// There was a connection with the same options.
    WasConnected,
    Failed(Refusal),
}

/// Why the kernel has not connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub cause: String,
    pub remedy: &'static str,
    /// Another attempt has the same result.
    pub is_final: bool,
}

/// Connects once. Kernels before Linux 5.14 do not know the option `host_iface`: they choose
/// the NIC by the source address and the routes.
pub(crate) fn attempt(fabrics: &impl Fabrics, options: &str) -> Attempt {
    let mut result = fabrics.connect(options);
    if errno(&result) == Some(Errno::EINVAL) {
        let older: Vec<&str> = { options.split(',') }
            .filter(|option| !option.starts_with("host_iface="))
            .collect();
        result = fabrics.connect(&older.join(","));
    }
    match (errno(&result), result) {
        (_, Ok(())) => Attempt::Connected,
        (Some(Errno::EALREADY), Err(_)) => Attempt::WasConnected,
        (errno, Err(error)) => Attempt::Failed(Refusal::of(&error, errno)),
    }
}

fn errno(result: &io::Result<()>) -> Option<Errno> {
    let error = result.as_ref().err();
    error.and_then(io::Error::raw_os_error).map(Errno::from_raw)
}

impl Refusal {
    fn of(error: &io::Error, errno: Option<Errno>) -> Self {
        let (remedy, is_final) = match errno.unwrap_or(Errno::UnknownErrno) {
            Errno::ECONNREFUSED => (
                "look whether the subsystem's port is enabled on the storage, and whether its number is right",
                false,
            ),
            Errno::ETIMEDOUT | Errno::EHOSTUNREACH | Errno::ENETUNREACH => (
                "look at the storage network: cable, VLAN, address and gateway in the firmware's NVMe settings",
                false,
            ),
            Errno::EADDRNOTAVAIL => ("look at the NIC's address", false),
            // What the storage answers to the Connect command is not an errno: the kernel
            // logs it, and returns this one.
            Errno::EIO | Errno::ECONNRESET => (
                "look whether the storage has this subsystem NQN and permits this host NQN; the kernel's log has its answer",
                false,
            ),
            Errno::EINVAL => (
                "the kernel does not accept these options: its log says which one",
                true,
            ),
            Errno::ENOENT | Errno::ENODEV | Errno::ENXIO => (
                "build the ramdisk with a kernel and a module set that have nvme-tcp",
                true,
            ),
            _ => ("the kernel's log has the reason", false),
        };
        Self {
            cause: error.to_string(),
            remedy,
            is_final,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    struct Scripted(Mutex<Vec<(String, Option<Errno>)>>);

    impl Fabrics for Scripted {
        fn connect(&self, options: &str) -> io::Result<()> {
            let (expected, error) = self.0.lock().unwrap().remove(0);
            assert_eq!(options, expected);
            error.map_or(Ok(()), |errno| Err(errno.into()))
        }
    }

    fn outcome(script: &[(&str, Option<Errno>)]) -> Attempt {
        let script = script
            .iter()
            .map(|(text, error)| ((*text).to_owned(), *error));
        let fabrics = Scripted(Mutex::new(script.collect()));
        let result = attempt(&fabrics, "nqn=a,host_iface=eth0,hdr_digest");
        assert!(fabrics.0.lock().unwrap().is_empty());
        result
    }

    const ALL: &str = "nqn=a,host_iface=eth0,hdr_digest";
    const OLDER: &str = "nqn=a,hdr_digest";

    #[test]
    fn a_connection_that_is_there_is_no_error() {
        assert_eq!(outcome(&[(ALL, None)]), Attempt::Connected);
        let again = [(ALL, Some(Errno::EALREADY))];
        assert_eq!(outcome(&again), Attempt::WasConnected);
    }

    #[test]
    fn old_kernels_do_not_know_the_nic() {
        let known = [(ALL, Some(Errno::EINVAL)), (OLDER, None)];
        assert_eq!(outcome(&known), Attempt::Connected);
        let Attempt::Failed(refusal) =
            outcome(&[(ALL, Some(Errno::EINVAL)), (OLDER, Some(Errno::EINVAL))])
        else {
            panic!("connected");
        };
        assert!(refusal.is_final);
    }

    #[test]
    fn what_may_pass_is_tried_again() {
        for errno in [
            Errno::ECONNREFUSED,
            Errno::ETIMEDOUT,
            Errno::EIO,
            Errno::ENOMEM,
        ] {
            let Attempt::Failed(refusal) = outcome(&[(ALL, Some(errno))]) else {
                panic!("connected");
            };
            assert!(!refusal.is_final, "{errno}");
        }
        let Attempt::Failed(missing) = outcome(&[(ALL, Some(Errno::ENOENT))]) else {
            panic!("connected");
        };
        assert!(missing.is_final);
    }
}
