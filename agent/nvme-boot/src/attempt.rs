//! One attempt to connect, and what its error means.

use std::fs::OpenOptions;
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use nix::errno::Errno;

use crate::connection::{Connection, Way};
use crate::probe::{ProbeFault, probe};

/// What connects subsystems: the kernel, or a test.
pub trait Fabrics: Send + Sync + 'static {
    /// Asks the storage whether it answers, without the kernel's driver.
    ///
    /// # Errors
    /// The reason why the kernel cannot connect now.
    fn probe(
        &self,
        connection: &Connection,
        way: &Way,
    ) -> impl Future<Output = Result<(), ProbeFault>> + Send;

    /// Connects. Blocks until the controller is ready, or until the kernel gives up.
    ///
    /// # Errors
    /// The error of the kernel.
    fn connect(&self, options: &str) -> io::Result<()>;

    /// The options that the kernel knows, as it lists them: `transport=%s,traddr=%s,...`.
    /// `None` if it lists none.
    fn known_options(&self) -> Option<String>;

    /// Whether the kernel has a driver to connect with.
    fn has_driver(&self) -> bool;
}

/// /dev/nvme-fabrics of this machine.
#[derive(Clone, Copy, Debug)]
pub struct FabricsDevice;

const DEVICE: &str = "/dev/nvme-fabrics";

/// The maximum length of the kernel's list of options, in bytes. The list of Linux 6.12
/// has less than 600 bytes.
const LONGEST_LIST: u64 = 4096;

impl FabricsDevice {
    /// Loads the driver. False if this kernel or this ramdisk does not have it.
    pub fn load_driver() -> bool {
        // No device announces this driver, so nothing else loads it. The kernel loads
        // nvme-fabrics with it.
        landfall_init::modprobe(&"nvme_tcp".into());
        Self.has_driver()
    }
}

impl Fabrics for FabricsDevice {
    async fn probe(&self, connection: &Connection, way: &Way) -> Result<(), ProbeFault> {
        probe(connection, way).await
    }

    fn connect(&self, options: &str) -> io::Result<()> {
        let mut device = OpenOptions::new().read(true).write(true).open(DEVICE)?;
        // The kernel takes the options of one write as a whole.
        device.write_all(options.as_bytes())
    }

    fn known_options(&self) -> Option<String> {
        let device = OpenOptions::new().read(true).open(DEVICE).ok()?;
        let mut list = String::new();
        // Kernels before Linux 5.17 answer EINVAL (f18ee3d98815).
        device.take(LONGEST_LIST).read_to_string(&mut list).ok()?;
        Some(list)
    }

    fn has_driver(&self) -> bool {
        Path::new(DEVICE).exists()
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

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub cause: String,
    pub remedy: &'static str,
    /// True if another attempt would have the same result.
    pub is_final: bool,
}

/// Connects once.
///
/// Kernels before Linux 5.14 do not know the option `host_iface`: they choose the NIC
/// by the source address and the routes. The kernel's list of options shows whether the
/// kernel knows this option. If there is no list, EINVAL may mean that the kernel does
/// not know the option. If there is a list, EINVAL has another cause, such as a storage
/// that closes the connection while the storage starts.
pub(crate) fn attempt(fabrics: &impl Fabrics, options: &str) -> Attempt {
    let result = match fabrics.known_options() {
        Some(list) if knows_nic(&list) => fabrics.connect(options),
        Some(_) => fabrics.connect(&without_nic(options)),
        None => match fabrics.connect(options) {
            result if errno(&result) == Some(Errno::EINVAL) => {
                fabrics.connect(&without_nic(options))
            }
            result => result,
        },
    };
    match (errno(&result), result) {
        (_, Ok(())) => Attempt::Connected,
        (Some(Errno::EALREADY), Err(_)) => Attempt::WasConnected,
        (errno, Err(error)) => Attempt::Failed(Refusal::of(&error, errno, !fabrics.has_driver())),
    }
}

const NIC: &str = "host_iface=";

fn knows_nic(list: &str) -> bool {
    list.split(',').any(|option| option.starts_with(NIC))
}

fn without_nic(options: &str) -> String {
    let options = options.split(',');
    let others: Vec<&str> = options.filter(|option| !option.starts_with(NIC)).collect();
    others.join(",")
}

fn errno(result: &io::Result<()>) -> Option<Errno> {
    let error = result.as_ref().err();
    error.and_then(io::Error::raw_os_error).map(Errno::from_raw)
}

impl From<ProbeFault> for Refusal {
    fn from(fault: ProbeFault) -> Self {
        let remedy = match &fault {
            ProbeFault::Unreachable(error) => {
                let errno = error.raw_os_error().map(Errno::from_raw);
                return Self::of(error, errno, false);
            }
            ProbeFault::NoConnection => STORAGE_NETWORK,
            ProbeFault::Silent => "look at the state of the storage and at the path to it",
            ProbeFault::Broken(_) | ProbeFault::Closed => "look whether the storage is ready",
            ProbeFault::NoTarget(_) => {
                "look whether the address and the port in the firmware's NVMe settings are those of the storage"
            }
        };
        Self {
            cause: fault.to_string(),
            remedy,
            is_final: false,
        }
    }
}

const STORAGE_NETWORK: &str =
    "look at the storage network: cable, VLAN, address and gateway in the firmware's NVMe settings";

impl Refusal {
    fn of(error: &io::Error, errno: Option<Errno>, lacks_driver: bool) -> Self {
        let remedy = match errno.unwrap_or(Errno::UnknownErrno) {
            _ if lacks_driver => {
                "build the ramdisk with a kernel and a module set that have nvme-tcp"
            }
            Errno::ECONNREFUSED => {
                "look whether the subsystem's port is enabled on the storage, and whether its number is right"
            }
            Errno::ETIMEDOUT | Errno::EHOSTUNREACH | Errno::ENETUNREACH => STORAGE_NETWORK,
            // ENODEV: the kernel does not find the NIC by its name.
            Errno::EADDRNOTAVAIL | Errno::ENODEV => "look at the NIC and its address",
            // The storage's answer to the Connect command is not an errno. The kernel
            // logs the answer and returns one of these errors.
            Errno::EIO | Errno::ECONNRESET => {
                "look whether the storage has this subsystem NQN and permits this host NQN; the kernel's log has its answer"
            }
            // Up to Linux 6.13, the kernel also returns this error if the storage
            // closes the connection at once (nvme_tcp_init_connection).
            Errno::EINVAL => {
                "look whether the storage is ready; if the kernel does not accept an option, its log says which one"
            }
            _ => "the kernel's log has the reason",
        };
        Self {
            cause: error.to_string(),
            remedy,
            is_final: lacks_driver,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::nvme_tcp::AnswerFault;

    struct Scripted {
        calls: Mutex<Vec<(String, Option<Errno>)>>,
        list: Option<&'static str>,
        has_driver: bool,
    }

    impl Fabrics for Scripted {
        async fn probe(&self, _: &Connection, _: &Way) -> Result<(), ProbeFault> {
            panic!("an attempt does not probe")
        }

        fn connect(&self, options: &str) -> io::Result<()> {
            let (expected, error) = self.calls.lock().unwrap().remove(0);
            assert_eq!(options, expected);
            error.map_or(Ok(()), |errno| Err(errno.into()))
        }

        fn known_options(&self) -> Option<String> {
            self.list.map(str::to_owned)
        }

        fn has_driver(&self) -> bool {
            self.has_driver
        }
    }

    fn outcome_of(
        list: Option<&'static str>,
        has_driver: bool,
        script: &[(&str, Option<Errno>)],
    ) -> Attempt {
        let script = script
            .iter()
            .map(|(text, error)| ((*text).to_owned(), *error));
        let fabrics = Scripted {
            calls: Mutex::new(script.collect()),
            list,
            has_driver,
        };
        let result = attempt(&fabrics, ALL);
        assert!(fabrics.calls.lock().unwrap().is_empty());
        result
    }

    fn outcome(script: &[(&str, Option<Errno>)]) -> Attempt {
        outcome_of(Some(LIST), true, script)
    }

    fn is_final(attempt: Attempt) -> bool {
        match attempt {
            Attempt::Failed(refusal) => refusal.is_final,
            connected => panic!("{connected:?}"),
        }
    }

    const ALL: &str = "nqn=a,host_iface=eth0,hdr_digest";
    const OLDER: &str = "nqn=a,hdr_digest";
    /// The start of the list of Linux 6.12.
    const LIST: &str = "instance=-1,cntlid=-1,transport=%s,nqn=%s,host_traddr=%s,host_iface=%s\n";

    #[test]
    fn a_connection_that_is_there_is_no_error() {
        assert_eq!(outcome(&[(ALL, None)]), Attempt::Connected);
        let again = [(ALL, Some(Errno::EALREADY))];
        assert_eq!(outcome(&again), Attempt::WasConnected);
    }

    #[test]
    fn old_kernels_do_not_know_the_nic() {
        let listed = "instance=-1,cntlid=-1,transport=%s,host_traddr=%s\n";
        let known = outcome_of(Some(listed), true, &[(OLDER, None)]);
        assert_eq!(known, Attempt::Connected);
        // Kernels before Linux 5.17 have no list of options.
        let unknown = [(ALL, Some(Errno::EINVAL)), (OLDER, None)];
        assert_eq!(outcome_of(None, true, &unknown), Attempt::Connected);
        let neither = [(ALL, Some(Errno::EINVAL)), (OLDER, Some(Errno::EINVAL))];
        assert!(!is_final(outcome_of(None, true, &neither)));
    }

    /// The kernel also returns EINVAL if the storage accepts the connection and then
    /// closes it. So EINVAL does not prove that the kernel lacks the option for the
    /// NIC.
    #[test]
    fn a_kernel_that_knows_the_nic_always_gets_it() {
        assert!(!is_final(outcome(&[(ALL, Some(Errno::EINVAL))])));
    }

    #[test]
    fn only_a_missing_driver_ends_the_attempts() {
        for errno in [
            Errno::ECONNREFUSED,
            Errno::ETIMEDOUT,
            Errno::EIO,
            Errno::ENOMEM,
            Errno::ENODEV,
            Errno::ENOENT,
        ] {
            assert!(!is_final(outcome(&[(ALL, Some(errno))])), "{errno}");
        }
        let missing = [(ALL, Some(Errno::ENOENT))];
        assert!(is_final(outcome_of(None, false, &missing)));
    }

    #[test]
    fn a_storage_that_does_not_answer_is_asked_again() {
        let refused = io::Error::from(Errno::ECONNREFUSED);
        for (fault, cause, remedy) in [
            (
                ProbeFault::Unreachable(refused),
                "Connection refused",
                "port is enabled",
            ),
            (
                ProbeFault::NoConnection,
                "no answer in 3 s",
                "look at the storage network",
            ),
            (ProbeFault::Silent, "no answer: ", "state of the storage"),
            (ProbeFault::Closed, "the storage closed", "is ready"),
            (
                ProbeFault::NoTarget(AnswerFault::Terminated(6)),
                "not an NVMe/TCP target: expected ",
                "address and the port",
            ),
        ] {
            let refusal = Refusal::from(fault);
            assert!(refusal.cause.starts_with(cause), "{refusal:?}");
            assert!(refusal.remedy.contains(remedy), "{refusal:?}");
            assert!(!refusal.is_final);
        }
    }
}
