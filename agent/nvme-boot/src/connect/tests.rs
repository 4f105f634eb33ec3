use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use landfall_boot_params::MacAddr;
use landfall_network::state::NicState;
use landfall_network::{AddressOrigin, lab};
use nix::errno::Errno;

use super::*;
use crate::nbft::Hfi;

const PACE: Pace = Pace {
    first: Duration::from_secs(1),
    longest: Duration::from_secs(8),
    wait: Duration::from_secs(30),
    wait_for_paths: Duration::from_secs(10),
    limit: Duration::from_secs(100),
};

/// Fails as often as it says for each subsystem.
#[derive(Default)]
struct Scripted {
    failures: Mutex<Vec<(&'static str, usize, Errno)>>,
    calls: AtomicUsize,
}

impl Fabrics for Scripted {
    fn connect(&self, options: &str) -> io::Result<()> {
        self.calls.fetch_add(1, Ordering::Relaxed);
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

fn connection(name: &str) -> Connection {
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

/// The other path works, or the firmware could not connect it, either.
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

/// Holds each attempt until it is released, except for the subsystem `good`.
#[derive(Default)]
struct Holding {
    released: AtomicBool,
    good: AtomicBool,
    held: AtomicUsize,
}

impl Fabrics for Holding {
    fn connect(&self, options: &str) -> io::Result<()> {
        if options.contains("nqn=good,") {
            self.good.store(true, Ordering::Relaxed);
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

/// A storage that accepts connections and stays silent: the kernel waits a minute. This
/// test runs in real time.
#[tokio::test]
async fn attempts_that_hang_delay_neither_the_others_nor_the_boot() {
    const PACE: Pace = Pace {
        first: Duration::from_millis(10),
        longest: Duration::from_millis(10),
        wait: Duration::from_millis(200),
        wait_for_paths: Duration::from_millis(200),
        limit: Duration::from_millis(600),
    };
    let (_sender, network) = watch::channel(online());
    for (hung, good, held) in [(MOST_ATTEMPTS - 1, true, 15), (20, false, MOST_ATTEMPTS)] {
        let mut connections = vec![connection("hung"); hung];
        connections.push(connection("good"));
        let fabrics = Arc::new(Holding::default());
        let (began, mut late) = (Instant::now(), None);
        let all = connect_all(
            connections,
            network.clone(),
            Arc::clone(&fabrics),
            PACE,
            || late = Some((began.elapsed(), fabrics.good.load(Ordering::Relaxed))),
        );
        let ended = tokio::time::timeout(Duration::from_secs(20), all).await;
        let took = began.elapsed();
        // Without it the runtime never ends.
        fabrics.released.store(true, Ordering::Relaxed);
        let outcome = ended.unwrap();
        assert_eq!(outcome.connected, usize::from(good));
        assert_eq!(outcome.failed, hung + usize::from(!good));
        assert_eq!(fabrics.held.load(Ordering::Relaxed), held);
        let (late, was_good) = late.unwrap();
        assert_eq!(was_good, good);
        assert!(late >= PACE.wait && late < PACE.limit, "{late:?}");
        assert!(took >= PACE.limit, "{took:?}");
    }
}
