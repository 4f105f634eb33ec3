//! The real program `landfall-image serve`, for tests.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::fixture::Fixture;
use crate::http_get;

/// The longest wait for a line of the service; then the test fails.
pub const TIMEOUT: Duration = Duration::from_secs(30);

pub fn nmstate(address: &str) -> String {
    format!(
        "interfaces:\n- name: eno1\n  type: ethernet\n  state: up\n  ipv4:\n    enabled: true\n    dhcp: false\n    address:\n    - ip: {address}\n      prefix-length: 24\n"
    )
}

/// A running `landfall-image serve`.
pub struct Service {
    pub child: Child,
    lines: Receiver<String>,
    pub address: String,
    pub stdout: Option<ChildStdout>,
}

impl Service {
    /// With the hosts of [`fixture`].
    pub fn start(fixture: &Fixture, more: &[&str]) -> Self {
        Self::start_with(fixture, &[&["--hosts", "hosts"], more].concat())
    }

    pub fn start_with(fixture: &Fixture, more: &[&str]) -> Self {
        let arguments = ["serve", "--iso", "base.iso"];
        let listen = ["--listen", "127.0.0.1:0"];
        let mut child = fixture
            .command(&[&arguments[..], &listen, more].concat())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let stdout = child.stdout.take();
        let mut service = Self {
            child,
            lines,
            address: String::new(),
            stdout,
        };
        let line = service.line("listening on http://");
        service.address = line.rsplit_once("//").unwrap().1.to_owned();
        service.line("serving ");
        service
    }

    /// Waits for the next line of standard error that contains `text`. Skips the lines
    /// before it.
    pub fn line(&self, text: &str) -> String {
        let mut seen = String::new();
        loop {
            match self.lines.recv_timeout(TIMEOUT) {
                Ok(line) if line.contains(text) => return line,
                Ok(line) => seen += &format!("{line}\n"),
                Err(_) => panic!("no line with {text:?} in\n{seen}"),
            }
        }
    }

    /// Requests `path`. Returns the status code and the body.
    pub fn get(&self, path: &str) -> (u16, Vec<u8>) {
        http_get::get(&self.address, path)
    }

    /// The lines of standard error since the last call.
    pub fn lines_so_far(&self) -> Vec<String> {
        self.lines.try_iter().collect()
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        kill(pid, signal).unwrap();
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A base ISO and the networks of two hosts.
pub fn fixture() -> Fixture {
    let fixture = Fixture::new();
    fixture.build("iso", "base.iso", &[]);
    for (name, address) in [("node1", "192.0.2.51"), ("node2", "192.0.2.52")] {
        fixture.put(&format!("hosts/{name}.yaml"), nmstate(address).as_bytes());
    }
    fixture
}
