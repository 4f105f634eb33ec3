use std::fs;
use std::net::TcpListener as StdTcpListener;
use std::path::Path;
use std::process::{Child, Command};

use landfall_boot_params::argument_value::ArgumentValue as _;
use landfall_sys::skip::skip;
use tokio::net::TcpListener;

use super::*;

fn online() -> watch::Receiver<NetworkState> {
    let nic = landfall_network::lab::nic(1, false);
    let address = landfall_network::lab::address(
        "192.0.2.10/24",
        landfall_network::AddressOrigin::RouterAdvertisement,
    );
    let nic = landfall_network::state::NicState {
        carrier: true,
        addresses: vec![address],
        ..nic
    };
    let state = NetworkState {
        nics: vec![nic],
        ..NetworkState::default()
    };
    watch::channel(state).1
}

/// Reads one counted message.
async fn read(stream: &mut TcpStream) -> String {
    let mut length = String::new();
    loop {
        match stream.read_u8().await.unwrap() {
            b' ' => break,
            digit => length.push(digit.into()),
        }
    }
    let mut message = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut message).await.unwrap();
    String::from_utf8(message).unwrap()
}

async fn read_until(stream: &mut TcpStream, text: &str) {
    let found = async { while !read(stream).await.contains(text) {} };
    timeout(Duration::from_secs(30), found).await.unwrap();
}

#[tokio::test]
async fn lines_arrive_also_those_of_the_time_before_and_after_an_outage() {
    landfall_report::start(landfall_report::Output::Stderr, false);
    tracing::info!("before the server was there");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("tcp://{}", listener.local_addr().unwrap());
    let server = SyslogServer::parse(&url).unwrap();
    tokio::spawn(forward(server, None, online()));
    let (mut stream, _) = listener.accept().await.unwrap();
    read_until(&mut stream, "before the server was there").await;
    drop(stream);
    let (mut stream, _) = listener.accept().await.unwrap();
    tracing::info!("after the outage");
    read_until(&mut stream, "after the outage").await;
    timeout(
        Duration::from_secs(30),
        wait_until_sent(Duration::from_secs(60)),
    )
    .await
    .unwrap();
}

/// The real rsyslogd. It ends when this is dropped.
struct Rsyslogd(Child);

impl Drop for Rsyslogd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Rsyslogd {
    /// Starts it with UDP and TCP on this port. It writes the fields that it found in a
    /// message to `log`.
    fn start(directory: &Path, port: u16) -> std::io::Result<Self> {
        let log = directory.join("log").display().to_string();
        let configuration = format!(
            "module(load=\"imtcp\")\nmodule(load=\"imudp\")\n\
             template(name=\"fields\" type=\"string\" \
             string=\"%syslogfacility-text%.%syslogseverity-text% %app-name% %msgid% %msg%\\n\")\n\
             input(type=\"imtcp\" address=\"127.0.0.1\" port=\"{port}\")\n\
             input(type=\"imudp\" address=\"127.0.0.1\" port=\"{port}\")\n\
             action(type=\"omfile\" file=\"{log}\" template=\"fields\")\n"
        );
        let path = directory.join("rsyslog.conf");
        fs::write(&path, configuration)?;
        let pid = directory.join("pid");
        let mut command = Command::new("/usr/sbin/rsyslogd");
        command.arg("-n").arg("-f").arg(path).arg("-i").arg(pid);
        command.spawn().map(Self)
    }
}

async fn wait_for_line(log: &Path, text: &str) {
    let found = async {
        while !fs::read_to_string(log).unwrap_or_default().contains(text) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let found = timeout(Duration::from_secs(30), found).await;
    let log = fs::read_to_string(log).unwrap_or_default();
    assert!(found.is_ok(), "no {text:?} in {log}");
}

#[tokio::test]
async fn rsyslog_understands_every_field() {
    if !Path::new("/usr/sbin/rsyslogd").exists() {
        return skip("there is no rsyslogd here");
    }
    landfall_report::start(landfall_report::Output::Stderr, false);
    for scheme in ["tcp", "udp"] {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        let free = StdTcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let _rsyslogd = Rsyslogd::start(directory.path(), port).unwrap();
        while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let server = SyslogServer::parse(&format!("{scheme}://127.0.0.1:{port}")).unwrap();
        let task = tokio::spawn(forward(server, None, online()));
        tracing::warn!("a warning over {scheme}");
        let expected = format!("user.warning landfall syslog a warning over {scheme}\n");
        wait_for_line(&log, &expected).await;
        task.abort();
    }
}
