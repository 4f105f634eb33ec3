//! Measures how much memory the service needs for many hosts and many clients. These
//! tests measure the memory of their own process, so they run one after the other and in
//! a separate program.

#![allow(clippy::unwrap_used, reason = "a test that unwraps nothing has failed")]

#[allow(dead_code, reason = "the other tests use the rest")]
#[path = "service/client.rs"]
mod client;
#[allow(dead_code, reason = "the other tests use the rest")]
#[path = "service/fixture.rs"]
mod fixture;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use landfall_host_media::HostVersion;
use landfall_host_media::fixtures::Layout;
use landfall_image_service::Limits;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::socket::{setsockopt, sockopt};

use crate::fixture::Fixture;

fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The anonymous memory of this process in bytes. It does not include the base, which is
/// in a memfd.
fn own_memory() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let kib: usize = line
        .unwrap()
        .trim()
        .strip_suffix(" kB")
        .unwrap()
        .parse()
        .unwrap();
    kib << 10
}

#[test]
fn ten_thousand_hosts_take_little_memory() {
    let _turn = turn();
    let fixture = Fixture::new();
    let store = fixture.service.store();
    let before = own_memory();
    for number in 0..10_000 {
        // As large as the network of a host with a bond of two NICs and a VLAN.
        let text = format!("{number:_>1000}");
        let file = format!("etc/landfall/hosts/node{number}.json");
        let host = HostVersion::default().with_file(file, text.into_bytes());
        store.put(&format!("node{number}"), host).unwrap();
    }
    let grown = own_memory().saturating_sub(before);
    assert!(grown < 64 << 20, "{} MiB", grown >> 20);
    println!("{} KiB for 10,000 hosts", grown >> 10);
    assert_eq!(fixture.get("/node9999.iso", &[]).status, 200);
}

/// Each reader of a host needs the host's own archive, which may be large.
#[test]
fn readers_of_one_host_share_its_files() {
    let _turn = turn();
    let layout = Layout {
        embed_size: 20 << 20,
        ..Layout::default()
    };
    let fixture = Fixture::with(layout, Limits::default(), None);
    let large = HostVersion::default().with_file("etc/landfall/large", vec![b'x'; 16 << 20]);
    fixture.service.store().put("large", large).unwrap();
    let before = own_memory();
    let mut clients = Vec::new();
    for file in ["large.iso", "large.initramfs"].repeat(20) {
        let mut client = fixture.client();
        setsockopt(client.stream(), sockopt::RcvBuf, &4096).unwrap();
        client.send(format!("GET /{file} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
        assert_eq!(client.head().unwrap().status, 200);
        clients.push(client);
    }
    let grown = own_memory().saturating_sub(before);
    // There is one archive for the ISO and one for the ramdisk, not one for each client.
    assert!(grown < 96 << 20, "{} MiB", grown >> 20);
}

#[test]
fn two_hundred_clients_read_whole_images() {
    let _turn = turn();
    let fixture = Fixture::with(
        Layout {
            kernel_size: 2 << 20,
            ..Layout::default()
        },
        Limits::default(),
        None,
    );
    let expected: Vec<Vec<u8>> = (1..=3).map(|number| fixture.expected_iso(number)).collect();
    let before = own_memory();
    let address = fixture.address();
    thread::scope(|scope| {
        for at in 0..200 {
            let expected = &expected[at % 3];
            scope.spawn(move || {
                let mut client = crate::client::Client::connect(address);
                let path = format!("/node{}.iso", at % 3 + 1);
                client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
                assert_eq!(client.head().unwrap().status, 200);
                let mut at = 0;
                let mut buffer = [0; 16 << 10];
                while at < expected.len() {
                    let len = client.read_some(&mut buffer);
                    assert!(len > 0, "broken at {at}");
                    assert!(buffer[..len] == expected[at..at + len]);
                    at += len;
                }
            });
        }
    });
    let grown = own_memory().saturating_sub(before);
    assert!(grown < 64 << 20, "{} MiB", grown >> 20);
}

/// A thousand clients that read one kilobyte at a time.
#[test]
#[ignore = "half a minute: make test-slow-clients"]
fn a_thousand_slow_readers_take_bounded_memory() {
    let _turn = turn();
    let fixture = Fixture::with(
        Layout {
            kernel_size: 20 << 20,
            ..Layout::default()
        },
        Limits::default(),
        None,
    );
    // Both ends of a connection are in this process, so it needs two descriptors for
    // each.
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard.min(8192), hard).unwrap();
    let before = own_memory();
    let mut clients: Vec<TcpStream> = Vec::new();
    for at in 0..1000 {
        let mut client = TcpStream::connect(fixture.address()).unwrap();
        setsockopt(&client, sockopt::RcvBuf, &4096).unwrap();
        let path = format!("/node{}.iso", at % 3 + 1);
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
        client.write_all(request.as_bytes()).unwrap();
        clients.push(client);
    }
    let mut most = 0;
    for _ in 0..20 {
        for client in &mut clients {
            let mut buffer = [0; 1024];
            assert!(client.read(&mut buffer).unwrap() > 0);
        }
        most = most.max(own_memory().saturating_sub(before));
        // Everybody else is still served.
        let start = Instant::now();
        assert!(fixture.get("/node1.iso", &[]).body == fixture.expected_iso(1));
        assert!(start.elapsed() < Duration::from_secs(10));
    }
    println!("{} KiB for 1000 slow readers", most >> 10);
    // The client of this test holds one whole image of 20 MiB twice.
    assert!(most < 128 << 20, "{} MiB", most >> 20);
}
