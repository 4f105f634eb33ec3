use std::fs;
use std::net::TcpListener as StdTcpListener;
use std::path::Path;
use std::process::{Child, Command};

use landfall_boot_params::argument_value::ArgumentValue as _;
use landfall_http_client::HttpOptions;
use landfall_http_client::fixtures::Certificate;
use landfall_report::Event;
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

/// A directory that cannot store the state: not even root can create it.
fn nowhere() -> &'static Path {
    Path::new("/proc/landfall")
}

/// Reads one message that is preceded by its length.
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
    tokio::spawn(forward(server, None, online(), nowhere()));
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

/// A load balancer without a server behind it: each connection ends at once.
#[tokio::test]
async fn a_server_that_closes_each_connection_is_reported_once() {
    landfall_report::start(landfall_report::Output::Stderr, false);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = SyslogServer::parse(&format!("tcp://127.0.0.1:{port}")).unwrap();
    let forwarding = tokio::spawn(forward(server, None, online(), nowhere()));
    // The pauses start at 1 s and grow, so the fourth connection comes after 7 s at
    // most.
    for _ in 0..4 {
        drop(listener.accept().await.unwrap());
    }
    forwarding.abort();
    let about = format!("no syslog at tcp://127.0.0.1:{port}");
    let events = events_after(0).into_iter();
    let reports = events.filter(|event| event.text.contains(&about)).count();
    assert_eq!(reports, 1);
}

/// A server that reads three lines, closes the connection, and accepts a second one.
#[tokio::test]
async fn early_lines_are_not_sent_again_after_the_server_has_closed() {
    // The 300 lines are larger than the buffers of a loopback connection, so the first
    // connection cannot take all of them.
    let filler = "x".repeat(64 << 10);
    let line = |number| Event {
        sequence: 0,
        time: 0.0,
        stage: "init".to_owned(),
        level: tracing::Level::INFO,
        text: format!("line {number} {filler}"),
        progress: None,
    };
    let mut early = OtherLines::of((0..300).map(line).collect());
    let mut sent = *newest_event().borrow();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("tcp://{}", listener.local_addr().unwrap());
    let server = SyslogServer::parse(&url).unwrap();
    for connection in 0..2 {
        let mut client = connect(&server, None).await.ok().unwrap();
        let (mut stream, _) = listener.accept().await.unwrap();
        let reader = async move {
            let mut lines = Vec::new();
            for _ in 0..3 {
                let message = read(&mut stream).await;
                let (_, text) = message.split_once(" line ").unwrap();
                let (number, _) = text.split_once(' ').unwrap();
                lines.push(number.parse::<usize>().unwrap());
            }
            lines
        };
        let (lines, _) = tokio::join!(reader, client.forward(&mut early, &mut sent));
        match connection {
            0 => assert_eq!(lines, [0, 1, 2]),
            _ => assert!(lines[0] >= 3, "sent again: {lines:?}"),
        }
    }
}

/// Init and the agent write lines at the same time.
#[tokio::test]
async fn lines_of_init_are_sent_in_the_order_of_their_times() {
    landfall_report::start(landfall_report::Output::Stderr, false);
    let line = |time, text: &str| Event {
        sequence: 0,
        time,
        stage: "init".to_owned(),
        level: tracing::Level::INFO,
        text: text.to_owned(),
        progress: None,
    };
    let lines = [
        line(0.0, "the first of init"),
        line(1e9, "the last of init"),
    ];
    let mut others = OtherLines::of(lines.into());
    let mut sent = *newest_event().borrow();
    tracing::info!("one of the agent");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("tcp://{}", listener.local_addr().unwrap());
    let server = SyslogServer::parse(&url).unwrap();
    let mut client = connect(&server, None).await.ok().unwrap();
    let (mut stream, _) = listener.accept().await.unwrap();
    let reader = async move {
        let mut messages = vec![read(&mut stream).await];
        while !messages
            .iter()
            .any(|message| message.contains("the last of init"))
        {
            messages.push(read(&mut stream).await);
        }
        messages
    };
    let (messages, _) = tokio::join!(reader, client.forward(&mut others, &mut sent));
    let at = |text: &str| messages.iter().position(|message| message.contains(text));
    assert_eq!(at("the first of init"), Some(0), "{messages:?}");
    let own = at("one of the agent");
    assert!(
        own.is_some() && own < at("the last of init"),
        "{messages:?}"
    );
}

/// A running rsyslogd, the real program. Dropping this value kills it.
struct Rsyslogd(Child);

impl Drop for Rsyslogd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Rsyslogd {
    /// Starts rsyslogd with UDP and TCP on this port.
    fn start(directory: &Path, port: u16) -> std::io::Result<Self> {
        let inputs = format!(
            "module(load=\"imtcp\")\nmodule(load=\"imudp\")\n\
             input(type=\"imtcp\" address=\"127.0.0.1\" port=\"{port}\")\n\
             input(type=\"imudp\" address=\"127.0.0.1\" port=\"{port}\")\n"
        );
        Self::with(directory, &inputs)
    }

    /// Starts rsyslogd with TLS on this port.
    fn with_tls(directory: &Path, port: u16, certificate: &Certificate) -> std::io::Result<Self> {
        let file = |name: &str, content: &str| {
            let path = directory.join(name);
            fs::write(&path, content).map(|()| path.display().to_string())
        };
        let own = file("server.pem", &certificate.pem)?;
        let key = file("server.key", &certificate.key_pem)?;
        let inputs = format!(
            "global(DefaultNetstreamDriverCAFile=\"{own}\" \
             DefaultNetstreamDriverCertFile=\"{own}\" DefaultNetstreamDriverKeyFile=\"{key}\")\n\
             module(load=\"imtcp\" StreamDriver.Name=\"ossl\" StreamDriver.Mode=\"1\" \
             StreamDriver.AuthMode=\"anon\")\n\
             input(type=\"imtcp\" address=\"127.0.0.1\" port=\"{port}\")\n"
        );
        Self::with(directory, &inputs)
    }

    /// Starts rsyslogd with these inputs. It writes the fields of each message to `log`.
    fn with(directory: &Path, inputs: &str) -> std::io::Result<Self> {
        let log = directory.join("log").display().to_string();
        let configuration = format!(
            "{inputs}template(name=\"fields\" type=\"string\" \
             string=\"%syslogfacility-text%.%syslogseverity-text% %app-name% %msgid% %msg%\\n\")\n\
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

fn free_port() -> u16 {
    let free = StdTcpListener::bind("127.0.0.1:0").unwrap();
    free.local_addr().unwrap().port()
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
        let port = free_port();
        let _rsyslogd = Rsyslogd::start(directory.path(), port).unwrap();
        while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let server = SyslogServer::parse(&format!("{scheme}://127.0.0.1:{port}")).unwrap();
        let task = tokio::spawn(forward(server, None, online(), nowhere()));
        tracing::warn!("a warning over {scheme}");
        let expected = format!("user.warning landfall syslog a warning over {scheme}\n");
        wait_for_line(&log, &expected).await;
        task.abort();
    }
}

/// Whether rsyslog's driver for TLS (ossl) is installed.
fn rsyslog_has_tls() -> bool {
    let folder = Path::new("/usr/lib/x86_64-linux-gnu/rsyslog");
    folder.join("lmnsd_ossl.so").exists()
}

fn trusting(certificate: &Certificate, directory: &Path) -> Option<Arc<ClientConfig>> {
    let ca_file = directory.join("ca.pem");
    fs::write(&ca_file, &certificate.pem).unwrap();
    let options = HttpOptions {
        ca_file: Some(ca_file),
        ..HttpOptions::default()
    };
    Some(Arc::new(options.tls().unwrap()))
}

#[tokio::test]
async fn rsyslog_gets_the_lines_over_tls_and_an_unknown_authority_is_named() {
    if !rsyslog_has_tls() {
        return skip("there is no rsyslogd with TLS here");
    }
    let _ = rustls::crypto::ring::default_provider().install_default();
    landfall_report::start(landfall_report::Output::Stderr, false);
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let own = Certificate::named([127, 0, 0, 1], "log server");
    let port = free_port();
    let _rsyslogd = Rsyslogd::with_tls(directory.path(), port, &own).unwrap();
    while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let server = SyslogServer::parse(&format!("tls://127.0.0.1:{port}")).unwrap();

    let other = Certificate::named([127, 0, 0, 1], "another authority");
    let tls = trusting(&other, directory.path());
    let refused = tokio::spawn(forward(server.clone(), tls, online(), nowhere()));
    let warning = format!("no syslog at tls://127.0.0.1:{port}: TLS: ");
    let logged = async {
        loop {
            let lines = landfall_report::log_lines();
            let found = lines.iter().find(|line| line.text.contains(&warning));
            if let Some(line) = found {
                return line.text.clone();
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let logged = timeout(Duration::from_secs(30), logged).await.unwrap();
    let expected = "its certificate is signed by \"log server\", which is not in";
    assert!(logged.contains(expected), "{logged}");
    let end = "; trying again -- add that CA to the CA file";
    assert!(logged.ends_with(end), "{logged}");
    refused.abort();

    let tls = trusting(&own, directory.path());
    let task = tokio::spawn(forward(server, tls, online(), nowhere()));
    tracing::warn!("a warning over TLS");
    wait_for_line(&log, "user.warning landfall syslog a warning over TLS\n").await;
    task.abort();
}
