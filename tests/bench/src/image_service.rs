//! Measures the image service next to nginx, which serves the plain file, and the
//! customization of a finished ISO.
//!
//! The server has one processor and the client another.

use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use landfall_tests::artifacts;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use super::iso_server::{Server, WAIT_LIMIT, head, throw_away};
use super::{Quantity, Row, Table, many_clients};

/// In bytes: the largest range that a BMC requests at once for its virtual media.
const RANGE: u64 = 1 << 20;
/// How often a run reads the file.
const READS: u64 = 20;
const MANY_HOSTS: usize = 10_000;
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
    // The results do not depend on firmware, which not every machine has.
    command.args(["iso", "--module-set", "server", "--allow-missing-firmware"]);
    command.args(["--compress", "zstd:3"]);
    command.arg("--agent").arg(artifacts::agent()?);
    command.arg("--kernel-deb").arg(artifacts::kernel_deb()?);
    command.arg("-o").arg(&base);
    let output = command.output().context("running landfall-image")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "landfall-image iso: {stderr}");
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
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "landfall-image customize: {stderr}"
        );
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

/// Reads the file `READS` times over one connection, and returns how long it took.
fn read(server: &Server, range: Option<u64>) -> Result<Duration> {
    let mut stream = TcpStream::connect(&server.address)?;
    stream.set_read_timeout(Some(WAIT_LIMIT))?;
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

fn throughput(base: &Path, hosts: &Path, work: &Path, runs: usize) -> Result<Table> {
    let size = base.metadata()?.len();
    // This thread is the client, on processor 1; the servers run on processor 0.
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
