//! Creates two network namespaces for tests, joined by veth pairs: the machine
//! under test, and the network that it is plugged into, with a real dnsmasq.
//!
//! Each namespace exists only as long as its thread, so nothing remains after a
//! failed test.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use landfall_boot_params::{CommandLine, FirmwareNic, NetArgs};
use landfall_devices::interface_names::NamingPolicy;
use landfall_network_plan::{Choice, Document, Embedded, EmbeddedHost, MacAddr};
use landfall_sys::skip::skip;
use landfall_sys::state_file::StateFile;
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{Uid, getpid, gettid};
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::watch;
use tracing_subscriber::layer::{Context, SubscriberExt as _};

use crate::configure::Network;
use crate::state::{AddressOrigin, AddressState, NicState};
use crate::state_json::StoredState;
use crate::{NetworkState, Setup, start};

/// The timeout of every wait in this module: duplicate address detection takes seconds,
/// and a build machine may be busy.
const TIMEOUT: Duration = Duration::from_secs(40);

pub struct Lab {
    network: Sender<Job>,
    network_ns: String,
    dir: TempDir,
    lines: Arc<Mutex<Vec<String>>>,
}

type Job = Box<dyn FnOnce() + Send>;

/// A dnsmasq in the network's namespace. It ends when this is dropped.
pub struct Dnsmasq {
    child: Child,
    log: PathBuf,
}

/// Runs a test in a new network namespace that stands for a machine. Skips the test, with
/// the reason, without root or a program that it needs.
pub fn on_a_machine(test: impl AsyncFnOnce(&Lab) + Send) {
    if !Uid::effective().is_root() {
        return skip("namespaces need root");
    }
    for tool in ["ip", "dnsmasq"] {
        let found = Command::new(tool).arg("--version").output();
        if found.is_err() && Command::new(tool).arg("-V").output().is_err() {
            return skip(format_args!("there is no {tool} here"));
        }
    }
    thread::scope(|scope| {
        scope
            .spawn(|| {
                unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWUTS).unwrap();
                let lab = Lab::new();
                let _guard = lab.collect_lines();
                tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .unwrap()
                    .block_on(test(&lab));
            })
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

impl Lab {
    fn new() -> Lab {
        let (network, jobs) = channel();
        let (ready, is_ready) = channel();
        thread::spawn(move || be_the_network(&ready, &jobs));
        let lab = Lab {
            network,
            network_ns: is_ready.recv().unwrap(),
            dir: TempDir::new().unwrap(),
            lines: Arc::default(),
        };
        lab.on_network(|| ip("link set lo up"));
        lab
    }

    /// Runs a job in the network's namespace.
    pub fn on_network<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        let (sender, receiver) = channel();
        let job = move || {
            // If nobody waits for the result, the test has already failed.
            let _ = sender.send(job());
        };
        self.network.send(Box::new(job)).unwrap();
        receiver.recv().unwrap()
    }

    /// Plugs in a NIC: `eth0` with MAC 52:54:00:00:00:00 in the machine, `port0` in
    /// the network. Only [`Lab::port`] switches `port0` on, which gives `eth0` a
    /// carrier.
    pub fn plug_in(&self, number: u8) {
        ip(&format!(
            "link add eth{number} address 52:54:00:00:00:0{number} type veth peer name port{number}"
        ));
        ip(&format!("link set port{number} netns {}", self.network_ns));
    }

    /// Like [`Lab::plug_in`], with these addresses on `port0` and a carrier.
    pub fn plug_in_up(&self, number: u8, addresses: &[&str]) {
        self.plug_in(number);
        for address in addresses {
            let nodad = if address.contains(':') { " nodad" } else { "" };
            self.port(&format!("addr add {address} dev port{number}{nodad}"));
        }
        self.port(&format!("link set port{number} up"));
    }

    /// Runs `ip` in the network's namespace.
    pub fn port(&self, command: &str) {
        let command = command.to_owned();
        self.on_network(move || ip(&command));
    }

    /// Starts a dnsmasq that serves an interface in the network's namespace.
    pub fn dnsmasq(&self, interface: &str, options: &[&str]) -> Dnsmasq {
        let log = self.dir.path().join("dnsmasq.log");
        let leases = self.dir.path().join("leases");
        let mut command = Command::new("dnsmasq");
        command
            .args(["-k", "--conf-file=/dev/null", "--no-resolv", "--no-hosts"])
            .args([
                "--except-interface=lo",
                "--bind-interfaces",
                "--user=root",
                "--pid-file=",
            ])
            .args(["--log-dhcp", "--dhcp-authoritative", "--no-ping"])
            .arg(format!("--interface={interface}"))
            .arg(format!("--dhcp-leasefile={}", leases.display()))
            .arg(format!("--log-facility={}", log.display()))
            .args(options)
            // Do not add a second `--port`: dnsmasq does not accept it.
            .args(
                (!options.iter().any(|option| option.starts_with("--port="))).then_some("--port=0"),
            )
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let earlier = fs::read_to_string(&log).unwrap_or_default().len();
        let child = self.on_network(move || command.spawn().unwrap());
        let server = Dnsmasq { child, log };
        // Wait until the server listens. Otherwise the client's first request is lost,
        // and the client repeats it only after seconds.
        let deadline = Instant::now() + TIMEOUT;
        let is_ready =
            |log: &str| log.contains("IP range") || log.contains("advertisement enabled");
        while !is_ready(&server.log()[earlier..]) {
            assert!(Instant::now() < deadline, "dnsmasq: {}", server.log());
            thread::sleep(Duration::from_millis(10));
        }
        server
    }

    /// Starts the network task with these kernel arguments.
    pub fn boot(&self, arguments: &str) -> watch::Receiver<NetworkState> {
        self.boot_from(None, arguments)
    }

    /// Like [`Lab::boot`], but also returns the channel for the NIC that reaches the
    /// service.
    pub fn boot_with_reach(&self, arguments: &str) -> Network {
        self.start(None, arguments)
    }

    /// Like [`Lab::boot`], with `network_data` from virtual media.
    pub fn boot_from(
        &self,
        network_data: Option<&str>,
        arguments: &str,
    ) -> watch::Receiver<NetworkState> {
        self.start(network_data, arguments).state
    }

    /// Like [`Lab::boot`], with an NMState document in the ramdisk.
    pub fn boot_nmstate(&self, text: &str) -> watch::Receiver<NetworkState> {
        let host = EmbeddedHost {
            host_name: None,
            macs: Vec::new(),
            nics: BTreeMap::new(),
            root_device_hints: None,
            document: Document::NmState(text.to_owned()),
        };
        let embedded = Embedded {
            host: Some(host),
            hosts: 1,
            ..Embedded::default()
        };
        self.start_with(&embedded, None, "").state
    }

    fn start(&self, network_data: Option<&str>, arguments: &str) -> Network {
        self.start_with(&Embedded::default(), network_data, arguments)
    }

    /// Starts the network task without kernel arguments, on a machine whose firmware has
    /// booted over this NIC by NVMe/TCP.
    pub fn boot_nvme(&self, nic: FirmwareNic) -> watch::Receiver<NetworkState> {
        let line = CommandLine::parse("");
        let mut args = NetArgs::from_command_line(&line);
        args.firmware.nvme.push(nic);
        self.start_args(&Embedded::default(), None, &line, &args)
            .state
    }

    fn start_with(
        &self,
        embedded: &Embedded,
        network_data: Option<&str>,
        arguments: &str,
    ) -> Network {
        let line = CommandLine::parse(arguments);
        let args = NetArgs::from_command_line(&line);
        self.start_args(embedded, network_data, &line, &args)
    }

    fn start_args(
        &self,
        embedded: &Embedded,
        network_data: Option<&str>,
        line: &CommandLine,
        args: &NetArgs,
    ) -> Network {
        let setup = Setup {
            resolv_conf: self.dir.path().join("resolv.conf"),
            hosts: self.dir.path().join("hosts"),
            state_file: StoredState::new(StateFile::new(self.dir.path(), "network.json")),
            ..Setup::in_ramdisk(
                Choice::for_boot(embedded, network_data, args),
                NamingPolicy::from_command_line(line).0,
            )
        };
        start(setup).unwrap()
    }

    /// The content of the state file.
    pub fn state_file(&self) -> Value {
        let text = fs::read(self.dir.path().join("network.json")).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// Waits until the state meets the condition.
    pub async fn until(
        &self,
        network: &mut watch::Receiver<NetworkState>,
        what: &str,
        is_so: impl FnMut(&NetworkState) -> bool,
    ) -> NetworkState {
        let waited = tokio::time::timeout(TIMEOUT, network.wait_for(is_so)).await;
        let reached = waited.map(|state| state.unwrap().clone());
        reached.unwrap_or_else(|_| {
            let state = network.borrow().clone();
            panic!(
                "not reached: {what}\n{state:#?}\n{}",
                self.log_lines().join("\n")
            )
        })
    }

    /// Waits until `is_so` returns true, for conditions outside of the state.
    pub async fn until_so(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let deadline = Instant::now() + TIMEOUT;
        while !is_so() {
            let log = || self.log_lines().join("\n");
            assert!(Instant::now() < deadline, "not reached: {what}\n{}", log());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until this line has been logged.
    pub async fn until_logged(&self, line: &str) {
        self.until_so(line, || {
            self.log_lines().iter().any(|logged| logged == line)
        })
        .await;
    }

    /// The content of the resolver file.
    pub fn resolv_conf(&self) -> String {
        fs::read_to_string(self.dir.path().join("resolv.conf")).unwrap_or_default()
    }

    /// The logged lines, without times.
    pub fn log_lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    fn collect_lines(&self) -> tracing::subscriber::DefaultGuard {
        let layer = Lines(Arc::clone(&self.lines));
        tracing::subscriber::set_default(tracing_subscriber::registry().with(layer))
    }
}

/// The lines that `work` logs in this thread, without times.
pub fn log_lines_during(work: impl FnOnce()) -> Vec<String> {
    let lines = Arc::default();
    let layer = Lines(Arc::clone(&lines));
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), work);
    lines.lock().unwrap().clone()
}

/// Runs `ip` in the namespace of this thread.
pub fn ip(arguments: &str) {
    let status = Command::new("ip")
        .args(arguments.split(' '))
        .status()
        .unwrap();
    assert!(status.success(), "ip {arguments}: {status}");
}

/// The output of `ip` in the namespace of this thread.
pub fn ip_output(arguments: &str) -> String {
    let output = Command::new("ip")
        .args(arguments.split(' '))
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

impl Dnsmasq {
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Dnsmasq {
    fn drop(&mut self) {
        // dnsmasq may have ended on its own.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn be_the_network(ready: &Sender<String>, jobs: &Receiver<Job>) {
    unshare(CloneFlags::CLONE_NEWNET).unwrap();
    let namespace = format!("/proc/{}/task/{}/ns/net", getpid(), gettid());
    ready.send(namespace).unwrap();
    for job in jobs {
        job();
    }
}

struct Lines(Arc<Mutex<Vec<String>>>);

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Lines {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        let level = event.metadata().level();
        self.0.lock().unwrap().push(format!("{level} {}", line.0));
    }
}

struct Line(String);

impl tracing::field::Visit for Line {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

/// A NIC that has a carrier and no address.
pub fn nic(index: u32, leads_to_bmc: bool) -> NicState {
    NicState {
        index,
        name: format!("eth{index}"),
        alternative_names: Vec::new(),
        mac: MacAddr([0x52, 0x54, 0, 0, 0, index as u8]),
        permanent_mac: None,
        is_virtual: false,
        leads_to_bmc,
        controller: None,
        made_of: None,
        carrier: true,
        awaits_carrier: false,
        without_ports: None,
        shall_have_address: true,
        awaits_ipv4: false,
        addresses: Vec::new(),
        trouble: None,
    }
}

/// A usable address, with the length of its prefix.
pub fn address(text: &str, origin: AddressOrigin) -> AddressState {
    AddressState {
        prefix: text.parse().unwrap(),
        origin,
        usable: true,
    }
}
