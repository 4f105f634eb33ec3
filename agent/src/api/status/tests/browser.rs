//! Tests the page in a browser, for two machines. The status of the busy machine fills
//! all sections of the page, and many of its texts contain secrets. The status of the new
//! machine is empty.
//!
//! The status and the log belong to a whole process. So a separate process serves the
//! pages: this test program, which the test starts again to run the second test below.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Child, Command, Stdio};

use landfall_browser::{Browser, review};
use landfall_report::status::{RejectedDisk, RootDisk, update};

use super::*;

const SERVER: &str = "api::status::tests::browser::serves_a_status_with_secrets";
const SERVING: &str = "serving at ";

struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(what: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", SERVER, "--ignored", "--nocapture"])
            .env("LANDFALL_STATUS", what)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = lines.find_map(|line| Some(line.unwrap().split_once(SERVING)?.1.to_owned()));
        Self {
            address: address.unwrap(),
            child,
        }
    }

    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let request = format!("GET {path} HTTP/1.0\r\nAccept: text/html\r\n\r\n");
        std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Ends the server. Returns its log.
    fn end(mut self) -> String {
        drop(self.child.stdin.take());
        let mut log = String::new();
        let mut stderr = self.child.stderr.take().unwrap();
        stderr.read_to_string(&mut log).unwrap();
        self.child.wait().unwrap();
        log
    }
}

#[test]
fn the_page_is_readable_in_a_browser_and_has_no_secrets() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let schema = EventsSchema::read().unwrap();
    for (what, expected) in [
        (
            "busy",
            &[
                "rack-07-node-012.example.org",
                "writing the image: 512.0 MiB of 1024.0 MiB (50 %)",
                "unknown authority",
                "add the authority",
                "/dev/disk/by-id",
                "no disk found at http://***@example.org",
            ][..],
        ),
        ("new", &["unnamed host"]),
    ] {
        let server = Server::start(what);
        let mut shown = String::new();
        let url = format!("http://{}/", server.address);
        for seen in review(&mut browser, &format!("agent-{what}"), &url) {
            assert!(seen.title.ends_with(" - Landfall"), "{}", seen.title);
            for expected in expected {
                let text = &seen.text;
                assert!(text.contains(expected), "{expected:?} is not in {text}");
            }
            shown += &seen.text;
            shown += &seen.dom;
        }
        for path in ["/", "/status.json", "/metrics", "/log.txt"] {
            let answer = server.get(path);
            assert!(answer.starts_with("HTTP/1.0 200"), "{path}: {answer}");
            if path == "/status.json" {
                let (_, body) = answer.split_once("\r\n\r\n").unwrap();
                let status = serde_json::from_str(body).unwrap();
                assert_eq!(schema.fault(Form::Status, &status), None);
            }
            shown += &answer;
        }
        let log = server.end();
        assert_eq!(log.contains("no disk found"), what == "busy", "{log}");
        shown += &log;
        assert!(!shown.contains("S3CRET"), "a secret is shown: {shown}");
    }
}

/// Serves until its input ends.
#[test]
#[ignore = "the test above runs it in a process of its own"]
fn serves_a_status_with_secrets() {
    landfall_report::start(landfall_report::Output::Stderr, false);
    if std::env::var("LANDFALL_STATUS").as_deref() == Ok("busy") {
        be_busy();
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let listener = listener.await.unwrap();
        println!("{SERVING}{}", listener.local_addr().unwrap());
        let end = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
        tokio::select! {
            served = axum::serve(listener, status_router()).into_future() => served.unwrap(),
            ended = end => drop(ended.unwrap()),
        }
    });
}

fn be_busy() {
    let secret = "http://user:S3CRET@example.org/?signature=S3CRET";
    let mut busy = status();
    busy.host.name = "rack-07-node-012.example.org".into();
    busy.service = Some(format!("{secret} and https://ironic.example.org:6385"));
    busy.node = Some("1be26c0b-03f2-4d2e-ae87-c02d7f33c123".into());
    busy.step = Some(Step {
        name: format!("writing {secret}"),
        since: 1.0,
    });
    busy.progress = Some(Progress {
        what: "writing the image".into(),
        done: 512 << 20,
        total: Some(1 << 30),
        rate: 100_000,
        remaining: Some(5_369),
    });
    busy.root_disk = Some(RootDisk {
        path: "/dev/disk/by-id/nvme-eui.36344730528029720025384500000001".into(),
        why: format!("the only disk of at least 4 GiB; see {secret}"),
        rejected: vec![RejectedDisk {
            path: "/dev/sda".into(),
            why: format!("in use; see {secret}"),
        }],
        remedy: Some(format!("to choose another disk, see {secret}")),
    });
    let nic = busy.network.nics[0].clone();
    busy.network.source = Some("kernel argument ip=".into());
    busy.network.faults = vec![format!("ip=: expected an address, found {secret}")];
    busy.network.nics = (0..3)
        .map(|number| {
            let mut nic = nic.clone();
            nic.name = format!("enp134s0f{number}np{number}");
            nic.driver = Some("mlx5_core".into());
            nic.neighbour = Some("leaf-3.dc1.example.org, port Ethernet1/17/4".into());
            nic.addresses = vec![
                "192.0.2.10/24 from DHCP server 192.0.2.1".into(),
                "2001:db8:1234:5678:9abc:def0:1234:5678/64 from router advertisement".into(),
            ];
            nic.way[0].text += &format!(": {secret}");
            for (step, outcome) in [("carrier", "done"), ("address", "waiting")] {
                let step = WayStep {
                    step: step.into(),
                    outcome: outcome.into(),
                    text: "for 12 s".into(),
                    remedy: None,
                };
                nic.way.insert(0, step);
            }
            nic
        })
        .collect();
    update(|status| *status = busy);
    tracing::info!("network: enp134s0f0np0 has 192.0.2.10/24 from DHCP server 192.0.2.1");
    tracing::warn!("no answer from {secret} within 10 s; retrying");
    tracing::error!("no disk found at {secret} -- check the controller of {secret}");
}
