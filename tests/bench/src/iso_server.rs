//! Starts a server of an ISO (the image service or nginx), and has the functions that all
//! its clients use.
//!
//! The client discards the bytes in the kernel (MSG_TRUNC, tcp(7)), so that the server
//! limits the speed, not the client.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpStream;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use landfall_tests::artifacts;
use nix::sys::socket::{MsgFlags, recv};

/// How long a server may take to start, and for each part of a response.
pub(super) const WAIT_LIMIT: Duration = Duration::from_secs(60);

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
    pub(super) fn nginx(base: &Path, work: &Path) -> Result<Self> {
        let address = free_address()?;
        let folder = base.parent().context("the base has a folder")?.display();
        // A single process: workers would outlive the master, which is killed.
        let config = format!(
            "daemon off; master_process off; pid nginx.pid; error_log error.log;\n\
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

    pub(super) fn start(mut command: Command, base: &Path, hosts: &Path) -> Result<Self> {
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

    /// The anonymous memory of the server in MiB, without the pages of files that it
    /// maps, such as the base.
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
        let end = Instant::now() + WAIT_LIMIT;
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

/// Reads the headers of a response, and returns the length of its body in bytes.
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
