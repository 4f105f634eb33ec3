//! Measures the image service next to nginx, which serves the plain file, and the
//! customization of a finished ISO.
//!
//! The server has one processor and the client another. The client throws the bytes
//! away in the kernel (MSG_TRUNC, tcp(7)), so that the server is the slower one.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::socket::{MsgFlags, recv};
use nix::unistd::Pid;

use super::{Quantity, Row, Table, many_clients};
use crate::artifacts;

/// In bytes: what a BMC's virtual medium asks for at once, at most.
const RANGE: u64 = 1 << 20;
/// How often the file is read in one run.
const READS: u64 = 20;
const MANY_HOSTS: usize = 10_000;
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// Measures everything `runs` times.
///
/// # Errors
/// If a program is missing or a run fails.
pub fn tables(runs: usize) -> Result<Vec<Table>> {
    let work = tempfile::tempdir().context("a work folder")?;
    let base = base(work.path())?;
    let hosts = work.path().join("one");
    fs::create_dir(&hosts)?;
    fs::write(hosts.join("node1.yaml"), nmstate(1))?;
    Ok(vec![
        customize(&base, work.path(), runs)?,
        throughput(&base, &hosts, work.path(), runs)?,
        many_hosts(&base, work.path(), runs)?,
        many_clients::table(&base, &hosts, runs)?,
    ])
}

/// A real ISO with the agent and the modules for servers.
fn base(work: &Path) -> Result<PathBuf> {
    let base = work.join("base.iso");
    let mut command = Command::new(artifacts::release_builder()?);
    command.args(["iso", "--module-set", "server", "--compress", "zstd:3"]);
    command.arg("--agent").arg(artifacts::agent()?);
    command.arg("--kernel-deb").arg(artifacts::kernel_deb()?);
    command.arg("-o").arg(&base);
    let output = command.output().context("running landfall-image")?;
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "landfall-image iso: {told}");
    Ok(base)
}

fn nmstate(number: usize) -> String {
    let (high, low) = (number / 250, number % 250 + 1);
    format!(
        "interfaces:\n- name: bond0\n  type: bond\n  state: up\n  ipv4:\n    enabled: true\n    dhcp: false\n    address:\n    - ip: 10.1.{high}.{low}\n      prefix-length: 16\n  link-aggregation:\n    mode: 802.3ad\n    port: [eno1, eno2]\n- name: bond0.100\n  type: vlan\n  state: up\n  vlan:\n    base-iface: bond0\n    id: 100\n  ipv4:\n    enabled: true\n    dhcp: false\n    address:\n    - ip: 10.2.{high}.{low}\n      prefix-length: 16\ndns-resolver:\n  config:\n    server: [10.1.0.1]\nroutes:\n  config:\n  - destination: 0.0.0.0/0\n    next-hop-address: 10.1.0.1\n    next-hop-interface: bond0\n"
    )
}

fn customize(base: &Path, work: &Path, runs: usize) -> Result<Table> {
    let copy = work.join("in-place.iso");
    fs::copy(base, &copy).context("copying the base")?;
    fs::write(work.join("node.yaml"), nmstate(1))?;
    let builder = artifacts::release_builder()?;
    let once = |more: &[&str]| -> Result<Duration> {
        let start = Instant::now();
        let mut command = Command::new(&builder);
        command.arg("customize").arg(&copy).args(more);
        command.args(["--nmstate", "node.yaml", "--karg", "a=b"]);
        let output = command.current_dir(work).output()?;
        let told = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "landfall-image customize: {told}");
        Ok(start.elapsed())
    };
    let mut in_place = Vec::new();
    let mut copied = Vec::new();
    for _ in 0..runs {
        in_place.push(once(&["--in-place", "--reset"])?);
        copied.push(once(&["-o", "node.iso", "--force", "--reset"])?);
    }
    let row = |name: &str, values: &[Duration]| {
        let quantity = Quantity::seconds("time", values);
        Row {
            name: name.to_owned(),
            cells: vec![format!("{:.1}", quantity.median * 1e3)],
            quantities: vec![quantity],
        }
    };
    Ok(Table {
        title: format!("Customizing one host in a base ISO of {} MB", megabytes(base)?),
        columns: ["milliseconds", "median"].map(str::to_owned).into(),
        rows: vec![
            row("in place", &in_place),
            row("as a copy", &copied),
        ],
        notes: vec![
            "From the start of the program to its end. The copy shares its blocks with the base if the file system can. In place, the target is 10 ms, and the moonshot 1 ms.".to_owned(),
        ],
    })
}

fn megabytes(file: &Path) -> Result<u64> {
    Ok(file.metadata()?.len() / 1_000_000)
}

/// A server, its address, and the path of the file.
pub(super) struct Server {
    child: Child,
    pub(super) address: String,
    pub(super) path: &'static str,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn nginx(base: &Path, work: &Path) -> Result<Self> {
        let address = free_address()?;
        let folder = base.parent().context("the base has a folder")?.display();
        let config = format!(
            "daemon off; worker_processes 1; pid nginx.pid; error_log error.log;\n\
             events {{ worker_connections 1024; }}\n\
             http {{ access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000;\n\
             server {{ listen {address}; root {folder}; }} }}\n"
        );
        fs::write(work.join("nginx.conf"), config)?;
        let mut command = Command::new("taskset");
        command.args(["-c", "0", "nginx", "-p"]).arg(work);
        command
            .args(["-e", "error.log", "-c"])
            .arg(work.join("nginx.conf"));
        let child = command
            .spawn()
            .context("starting nginx (make peers installs it)")?;
        let server = Self {
            child,
            address,
            path: "/base.iso",
        };
        server.wait()?;
        Ok(server)
    }

    /// On one processor.
    pub(super) fn ours(base: &Path, hosts: &Path) -> Result<Self> {
        let mut command = Command::new("taskset");
        command.args(["-c", "0"]).arg(artifacts::release_builder()?);
        Self::start(command, base, hosts)
    }

    fn start(mut command: Command, base: &Path, hosts: &Path) -> Result<Self> {
        let address = free_address()?;
        command.args(["serve", "--threads", "1", "--listen", &address]);
        command.arg("--iso").arg(base).arg("--hosts").arg(hosts);
        let child = command.stderr(Stdio::piped()).spawn()?;
        let mut server = Self {
            child,
            address,
            path: "/node1.iso",
        };
        let stderr = server.child.stderr.take().context("no standard error")?;
        let mut lines = BufReader::new(stderr).lines();
        let ready = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains("serving ")));
        ensure!(ready.is_some(), "landfall-image serve ended early");
        // Keep reading, so that the service can keep writing.
        thread::spawn(move || lines.for_each(drop));
        server.wait()?;
        Ok(server)
    }

    /// The memory of the program in MiB, without files in memory, such as the base.
    pub(super) fn own_memory(&self) -> Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("RssAnon:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
        let kib: f64 = kib.context("no RssAnon")?.parse()?;
        Ok(kib / 1024.0)
    }

    fn wait(&self) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        while TcpStream::connect(&self.address).is_err() {
            ensure!(Instant::now() < end, "{} does not answer", self.address);
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

fn free_address() -> Result<String> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    Ok(listener.local_addr()?.to_string())
}

/// Reads the file `READS` times over one connection, and returns how long it took.
fn read(server: &Server, range: Option<u64>) -> Result<Duration> {
    let mut stream = TcpStream::connect(&server.address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let size = {
        let request = format!("HEAD {} HTTP/1.1\r\nHost: x\r\n\r\n", server.path);
        stream.write_all(request.as_bytes())?;
        head(&mut stream)?
    };
    let start = Instant::now();
    for _ in 0..READS {
        let step = range.unwrap_or(size);
        for first in (0..size).step_by(usize::try_from(step)?) {
            let last = (first + step).min(size) - 1;
            let range = range.map(|_| format!("Range: bytes={first}-{last}\r\n"));
            let request = format!(
                "GET {} HTTP/1.1\r\nHost: x\r\n{}\r\n",
                server.path,
                range.unwrap_or_default()
            );
            stream.write_all(request.as_bytes())?;
            let len = head(&mut stream)?;
            ensure!(
                len == last - first + 1,
                "expected {} bytes, found {len}",
                last - first + 1
            );
            throw_away(&stream, len)?;
        }
    }
    Ok(start.elapsed())
}

/// Reads the head of an answer, and returns the length of its body.
pub(super) fn head(stream: &mut TcpStream) -> Result<u64> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
    ensure!(head.starts_with("http/1.1 20"), "{head}");
    let line = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    Ok(line.context("no Content-Length")?.trim().parse()?)
}

pub(super) fn throw_away(stream: &TcpStream, mut len: u64) -> Result<()> {
    let mut buffer = vec![0; 1 << 20];
    while len > 0 {
        let most = usize::try_from(len)?.min(buffer.len());
        match recv(stream.as_raw_fd(), &mut buffer[..most], MsgFlags::MSG_TRUNC)? {
            0 => bail!("the connection broke"),
            taken => len -= taken as u64,
        }
    }
    Ok(())
}

fn throughput(base: &Path, hosts: &Path, work: &Path, runs: usize) -> Result<Table> {
    let size = base.metadata()?.len();
    // The client is this thread; the servers have processor 0.
    let measure = move |ours: &Server, nginx: &Server| -> Result<Vec<Row>> {
        let mut own_core = CpuSet::new();
        own_core.set(1)?;
        sched_setaffinity(Pid::from_raw(0), &own_core).context("a second processor")?;
        let mut rows = Vec::new();
        for (name, range) in [("whole file", None), ("ranges of 1 MiB", Some(RANGE))] {
            let (mut of_ours, mut of_nginx) = (Vec::new(), Vec::new());
            let rate = |time: Duration| (size * READS) as f64 / time.as_secs_f64() / 1e9;
            for _ in 0..runs {
                of_ours.push(rate(read(ours, range)?));
                of_nginx.push(rate(read(nginx, range)?));
            }
            let ours = Quantity::new("ours", "GB/s", of_ours);
            let nginx = Quantity::new("nginx", "GB/s", of_nginx);
            rows.push(Row {
                name: name.to_owned(),
                cells: vec![
                    format!("{:.2} GB/s", ours.median),
                    format!("{:.2} GB/s", nginx.median),
                    format!("{:.2}", ours.median / nginx.median),
                ],
                quantities: vec![ours, nginx],
            });
        }
        Ok(rows)
    };
    let ours = Server::ours(base, hosts)?;
    let nginx = Server::nginx(base, work)?;
    let rows = thread::scope(|scope| {
        let client = scope.spawn(|| measure(&ours, &nginx));
        client
            .join()
            .map_err(|_| anyhow::anyhow!("the client panicked"))?
    })?;
    Ok(Table {
        title: "Serving on the loopback interface, one processor for the server".to_owned(),
        columns: [
            "",
            "a host's own ISO",
            "nginx, the plain file",
            "ratio (target 0.9, moonshot 1.0)",
        ]
        .map(str::to_owned)
        .into(),
        rows,
        notes: Vec::new(),
    })
}

fn many_hosts(base: &Path, work: &Path, runs: usize) -> Result<Table> {
    let hosts = work.join("many");
    fs::create_dir(&hosts)?;
    for number in 1..=MANY_HOSTS {
        fs::write(hosts.join(format!("node{number}.yaml")), nmstate(number))?;
    }
    let (mut seconds, mut memory) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        let start = Instant::now();
        let builder = Command::new(artifacts::release_builder()?);
        let server = Server::start(builder, base, &hosts)?;
        seconds.push(start.elapsed());
        memory.push(server.own_memory()?);
    }
    let processors = match thread::available_parallelism()?.get() {
        1 => "1 processor".to_owned(),
        several => format!("{several} processors"),
    };
    let seconds = Quantity::seconds("ready", &seconds);
    let memory = Quantity::new("memory", "MiB", memory);
    Ok(Table {
        title: format!("The service with {MANY_HOSTS} hosts, on {processors}"),
        columns: ["", "found", "target (moonshot)"].map(str::to_owned).into(),
        rows: vec![
            Row {
                name: "memory in addition to the base".to_owned(),
                cells: vec![
                    format!("{:.1} MiB", memory.median),
                    "64 (32) MiB".to_owned(),
                ],
                quantities: vec![memory],
            },
            Row {
                name: "from the start to the first answer".to_owned(),
                cells: vec![format!("{:.2} s", seconds.median), "1 s".to_owned()],
                quantities: vec![seconds],
            },
        ],
        notes: Vec::new(),
    })
}
