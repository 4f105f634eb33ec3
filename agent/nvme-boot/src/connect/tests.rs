use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use landfall_boot_params::MacAddr;
use landfall_network::state::NicState;
use landfall_network::{AddressOrigin, lab};
use nix::errno::Errno;

use super::*;
use crate::connection::Way;
use crate::nbft::Hfi;
use crate::nvme_tcp::INITIALIZE;
use crate::probe::probe;

const PACE: Pace = Pace {
    first: Duration::from_secs(1),
    longest: Duration::from_secs(8),
    wait: Duration::from_secs(30),
    wait_for_paths: Duration::from_secs(10),
    limit: Duration::from_secs(100),
};

/// Every storage answers the agent. For each subsystem in `failures`, the kernel fails
/// this many times with this error, and then connects.
#[derive(Default)]
struct Scripted {
    failures: Mutex<Vec<(&'static str, usize, Errno)>>,
    calls: AtomicUsize,
    /// Subsystem and address of each call.
    order: Mutex<Vec<String>>,
}

impl Fabrics for Scripted {
    async fn probe(&self, _: &Connection, _: &Way) -> Result<(), ProbeFault> {
        Ok(())
    }

    fn connect(&self, options: &str) -> io::Result<()> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let value = |name| options.split(',').find_map(|o| o.strip_prefix(name));
        let place = [value("nqn="), value("traddr=")];
        let place: Vec<&str> = place.into_iter().flatten().collect();
        self.order.lock().unwrap().push(place.join(" at "));
        let mut failures = self.failures.lock().unwrap();
        let entry = failures
            .iter_mut()
            .find(|(name, left, _)| *left > 0 && options.contains(&format!("nqn={name},")));
        match entry {
            Some((_, left, errno)) => {
                *left -= 1;
                Err((*errno).into())
            }
            None => Ok(()),
        }
    }

    fn known_options(&self) -> Option<String> {
        None
    }

    fn has_driver(&self) -> bool {
        let failures = self.failures.lock().unwrap();
        !failures.iter().any(|(_, _, errno)| *errno == Errno::ENOENT)
    }
}

pub(crate) fn connection(name: &str) -> Connection {
    Connection {
        subsystem: name.to_owned(),
        address: [192, 0, 2, 9].into(),
        port: 4420,
        host_nqn: "nqn.host".to_owned(),
        host_id: uuid::Uuid::nil(),
        header_digest: false,
        data_digest: false,
        unavailable: false,
        nic: Hfi {
            index: 1,
            mac: MacAddr([2; 6]),
            vlan: None,
            address: Some([192, 0, 2, 15].into()),
            prefix: 24,
            gateway: None,
            dns: Vec::new(),
            is_ipv4: true,
            by_dhcp: false,
            host_name: None,
        },
    }
}

fn online() -> NetworkState {
    NetworkState {
        nics: vec![NicState {
            addresses: vec![lab::address("192.0.2.15/24", AddressOrigin::Foreign)],
            ..lab::nic(1, false)
        }],
        ..NetworkState::default()
    }
}

/// Returns the outcome, the duration in seconds, the number of calls, and the second in
/// which the caller was allowed to continue.
async fn run(
    names: &[&'static str],
    failures: &[(&'static str, usize, Errno)],
    network: watch::Receiver<NetworkState>,
) -> (Outcome, u64, usize, Option<u64>) {
    let fabrics = Arc::new(Scripted {
        failures: Mutex::new(failures.to_vec()),
        ..Scripted::default()
    });
    let mut late = None;
    let began = Instant::now();
    let connections = names.iter().map(|name| connection(name)).collect();
    let outcome = connect_all(connections, network, Arc::clone(&fabrics), PACE, || {
        late = Some(began.elapsed().as_secs());
    })
    .await;
    let calls = fabrics.calls.load(Ordering::Relaxed);
    (outcome, began.elapsed().as_secs(), calls, late)
}

#[tokio::test(start_paused = true)]
async fn temporary_failures_are_retried() {
    let (_sender, network) = watch::channel(online());
    let failures = [("a", 3, Errno::ECONNREFUSED)];
    let (outcome, seconds, calls, late) = run(&["a", "b"], &failures, network).await;
    assert_eq!((outcome.connected, outcome.failed), (2, 0));
    assert!((3..=8).contains(&seconds), "{seconds}");
    assert_eq!((calls, late), (5, None));
}

#[tokio::test(start_paused = true)]
async fn one_that_never_answers_costs_the_others_nothing_and_has_an_end() {
    let (_sender, network) = watch::channel(online());
    let failures = [("a", usize::MAX, Errno::ETIMEDOUT)];
    let (outcome, seconds, calls, late) = run(&["a", "b"], &failures, network).await;
    assert_eq!((outcome.connected, outcome.failed), (1, 1));
    assert!((100..=101).contains(&seconds), "{seconds}");
    assert!((14..=30).contains(&calls), "{calls}");
    assert!(
        late.is_some_and(|second| (30..=38).contains(&second)),
        "{late:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn without_the_driver_nothing_is_tried_twice() {
    let (_sender, network) = watch::channel(online());
    let failures = [("a", usize::MAX, Errno::ENOENT)];
    let (outcome, seconds, calls, _) = run(&["a"], &failures, network).await;
    assert_eq!((outcome.failed, seconds, calls), (1, 0, 1));
}

#[tokio::test(start_paused = true)]
async fn an_address_that_comes_late_ends_the_wait() {
    let (sender, network) = watch::channel(NetworkState::default());
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(20)).await;
        sender.send_replace(online());
        tokio::time::sleep(Duration::from_secs(1000)).await;
    });
    let (outcome, seconds, calls, late) = run(&["a"], &[], network).await;
    assert_eq!((outcome.connected, seconds, calls, late), (1, 20, 1, None));
    // A NIC that the machine does not have.
    let (sender, network) = watch::channel(NetworkState::default());
    drop(sender);
    let (outcome, seconds, calls, late) = run(&["a"], &[], network).await;
    assert_eq!((outcome.failed, calls, late.is_some()), (1, 0, true));
    assert!((100..=101).contains(&seconds), "{seconds}");
}

/// The caller waits less for a connection if another path to its subsystem is connected,
/// or if the firmware could not make the connection either.
#[tokio::test(start_paused = true)]
async fn a_further_path_gets_less_time() {
    let mut second = connection("a");
    second.address = [192, 0, 2, 10].into();
    let mut known = connection("b");
    known.unavailable = true;
    let (_sender, network) = watch::channel(online());
    let fabrics = Arc::new(Scripted {
        failures: Mutex::new(vec![
            ("a", 1, Errno::ETIMEDOUT),
            ("b", usize::MAX, Errno::EIO),
        ]),
        ..Scripted::default()
    });
    let (began, mut late) = (Instant::now(), 0);
    let connections = vec![second, known, connection("a")];
    let outcome = connect_all(connections, network, fabrics, PACE, || {
        late = began.elapsed().as_secs();
    })
    .await;
    assert_eq!((outcome.connected, outcome.failed), (2, 1));
    assert!((10..=18).contains(&late), "{late}");
}

/// All storages have answered the agent before the kernel has made the first connection,
/// so only the precedence of the connections decides their order.
#[tokio::test(start_paused = true)]
async fn a_first_path_precedes_a_further_one_and_a_failure_gives_way() {
    let mut second = connection("a");
    second.address = [192, 0, 2, 10].into();
    let mut known = connection("c");
    known.unavailable = true;
    let (_sender, network) = watch::channel(online());
    let fabrics = Arc::new(Scripted {
        failures: Mutex::new(vec![("d", 1, Errno::EIO)]),
        ..Scripted::default()
    });
    let connections = ["d", "a", "b"].map(connection);
    let connections = [connections.to_vec(), vec![second, known]].concat();
    let outcome = connect_all(connections, network, Arc::clone(&fabrics), PACE, || ()).await;
    assert_eq!((outcome.connected, outcome.failed), (5, 0));
    let order = fabrics.order.lock().unwrap();
    let names = [
        "d at 192.0.2.9",
        "a at 192.0.2.9",
        "b at 192.0.2.9",
        "c at 192.0.2.9",
        "a at 192.0.2.10",
        "d at 192.0.2.9",
    ];
    assert_eq!(*order, names);
}

/// For the tests in real time.
const QUICK: Pace = Pace {
    first: Duration::from_millis(10),
    longest: Duration::from_millis(10),
    wait: Duration::from_millis(200),
    wait_for_paths: Duration::from_millis(200),
    limit: Duration::from_millis(600),
};

/// A kernel that makes one connection at a time. The subsystem `hung` keeps it busy until it
/// is released.
#[derive(Default)]
struct Serial {
    mutex: Mutex<()>,
    /// Whether the storages are asked over the network.
    asks: bool,
    released: AtomicBool,
    held: AtomicUsize,
    good: Mutex<Option<std::time::Instant>>,
}

impl Fabrics for Serial {
    async fn probe(&self, connection: &Connection, way: &Way) -> Result<(), ProbeFault> {
        match self.asks {
            true => probe(connection, way).await,
            false => Ok(()),
        }
    }

    fn connect(&self, options: &str) -> io::Result<()> {
        let _guard = self.mutex.lock().unwrap();
        if options.contains("nqn=good,") {
            *self.good.lock().unwrap() = Some(std::time::Instant::now());
            return Ok(());
        }
        self.held.fetch_add(1, Ordering::Relaxed);
        while !self.released.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(5));
        }
        Err(Errno::ETIMEDOUT.into())
    }

    fn known_options(&self) -> Option<String> {
        None
    }

    fn has_driver(&self) -> bool {
        true
    }
}

/// Runs until the end, and then releases the kernel: otherwise the runtime never ends.
async fn run_serial(
    connections: Vec<Connection>,
    network: NetworkState,
    fabrics: &Arc<Serial>,
    pace: Pace,
) -> (Outcome, Option<Duration>) {
    let (_sender, network) = watch::channel(network);
    let (began, mut late) = (Instant::now(), None);
    let all = connect_all(connections, network, Arc::clone(fabrics), pace, || {
        late = Some(began.elapsed());
    });
    let ended = tokio::time::timeout(Duration::from_secs(20), all).await;
    fabrics.released.store(true, Ordering::Relaxed);
    (ended.unwrap(), late)
}

/// The storage becomes silent after its answer to the agent. A real kernel would then
/// wait for up to a minute.
#[tokio::test]
async fn a_kernel_that_hangs_delays_neither_the_boot_nor_the_end() {
    let fabrics = Arc::new(Serial::default());
    let began = Instant::now();
    let connections = vec![connection("hung"), connection("good")];
    let (outcome, late) = run_serial(connections, online(), &fabrics, QUICK).await;
    let took = began.elapsed();
    assert_eq!((outcome.connected, outcome.failed), (0, 2));
    assert_eq!(fabrics.held.load(Ordering::Relaxed), 1);
    let late = late.unwrap();
    assert!(late >= QUICK.wait && late < QUICK.limit, "{late:?}");
    assert!(took >= QUICK.limit, "{took:?}");
}

/// A storage that accepts TCP connections. It answers the request of an NVMe/TCP host, or
/// stays silent.
fn storage(answers: bool) -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    if answers {
        let listener = listener.try_clone().unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_exact(&mut [0; INITIALIZE]).unwrap();
            let mut answer = [0; INITIALIZE];
            (answer[0], answer[2], answer[4]) = (1, 128, 128);
            stream.write_all(&answer).unwrap();
        });
    }
    (listener, address)
}

#[tokio::test]
async fn silent_storages_do_not_keep_the_kernel_from_a_good_one() {
    let mut state = online();
    state.nics[0].name = "lo".to_owned();
    state.nics[0].addresses = vec![lab::address("127.0.0.1/8", AddressOrigin::Foreign)];
    let storages = [storage(false), storage(false), storage(true)];
    let names = ["hung", "hung", "good"];
    let connections = storages.iter().zip(names).map(|((_, address), name)| {
        let mut connection = connection(name);
        (connection.address, connection.port) = (address.ip(), address.port());
        connection.nic.address = Some(address.ip());
        connection
    });
    let fabrics = Arc::new(Serial {
        asks: true,
        ..Serial::default()
    });
    let pace = Pace {
        limit: Duration::from_secs(2),
        ..QUICK
    };
    let began = std::time::Instant::now();
    let (outcome, _) = run_serial(connections.collect(), state, &fabrics, pace).await;
    assert_eq!((outcome.connected, outcome.failed), (1, 2));
    let good = fabrics.good.lock().unwrap().unwrap() - began;
    assert!(good < pace.limit, "{good:?}");
    assert_eq!(fabrics.held.load(Ordering::Relaxed), 0);
}
