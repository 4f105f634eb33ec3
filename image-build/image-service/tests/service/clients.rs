//! Slow clients, many clients, and the end of the service.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use landfall_host_media::HostVersion;
use landfall_host_media::fixtures::Layout;
use landfall_image_service::{Limits, listen_for};
use nix::sys::socket::{setsockopt, sockopt};

use crate::client::Client;
use crate::fixture::Fixture;

fn limits() -> Limits {
    Limits {
        quiet: Duration::from_secs(3),
        last_answers: Duration::from_secs(5),
        ..Limits::default()
    }
}

/// Larger than the buffers of a loopback connection.
fn large() -> Layout {
    Layout {
        kernel_size: 20 << 20,
        ..Layout::default()
    }
}

fn is_closed(mut stream: &TcpStream, within: Duration) -> bool {
    stream.set_read_timeout(Some(within)).unwrap();
    let mut buffer = [0; 1 << 16];
    let end = Instant::now() + within;
    while Instant::now() < end {
        match stream.read(&mut buffer) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
    false
}

/// The controller serves its health checks with `listen_for`.
#[test]
fn routes_of_another_service_have_the_limits_too() {
    let runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = { runtime }.worker_threads(1).enable_all().build().unwrap();
    let routes = axum::Router::new().route("/healthz", axum::routing::get(|| async { "ok" }));
    let limits = Limits {
        connections: 2,
        ..limits()
    };
    let any = "127.0.0.1:0".parse().unwrap();
    let listening = runtime.block_on(async { listen_for(any, routes, limits).unwrap() });
    let silent = [(); 2].map(|()| TcpStream::connect(listening.address()).unwrap());
    thread::sleep(Duration::from_millis(500));
    // Both connections are new, so the service closes the third one instead.
    let third = TcpStream::connect(listening.address()).unwrap();
    assert!(is_closed(&third, Duration::from_secs(2)));
    for stream in &silent {
        assert!(is_closed(stream, Duration::from_secs(10)));
    }
    let mut client = Client::connect(listening.address());
    assert_eq!(client.get("/healthz", &[]).body, b"ok");
    runtime.block_on(listening.stop());
}

#[test]
fn clients_that_take_nothing_are_closed() {
    let fixture = Fixture::with(large(), limits(), None);
    let closing = Duration::from_secs(10);
    // This client sends nothing.
    let silent = TcpStream::connect(fixture.address()).unwrap();
    // This client sends its request byte by byte.
    let dripping = TcpStream::connect(fixture.address()).unwrap();
    let drips = thread::spawn({
        let mut stream = dripping.try_clone().unwrap();
        move || {
            for byte in b"GET /node1.iso HTTP/1.1\r\nHost: x\r\nX-Long: "
                .iter()
                .chain(&[b'x'; 200])
            {
                if stream.write_all(&[*byte]).is_err() {
                    return;
                }
                thread::sleep(Duration::from_millis(50));
            }
        }
    });
    // This client sends a request and does not read the answer.
    let mut stuck = TcpStream::connect(fixture.address()).unwrap();
    setsockopt(&stuck, sockopt::RcvBuf, &4096).unwrap();
    stuck
        .write_all(b"GET /node1.iso HTTP/1.1\r\nHost: x\r\n\r\n")
        .unwrap();
    // This client reads a little, but steadily, so it may take longer than the limit.
    let mut slow = fixture.client();
    slow.send(b"GET /vmlinuz HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(slow.head().unwrap().status, 200);
    let mut read = 0;
    let mut buffer = vec![0; 512 << 10];
    for _ in 0..40 {
        thread::sleep(Duration::from_millis(100));
        read += slow.read_some(&mut buffer);
    }
    assert!(read > 1 << 20, "{read}");
    // The slow client must continue to read: a pause as long as the limit would end its
    // connection, too.
    let mut rest = 0;
    while read + rest < 20 << 20 {
        match slow.read_some(&mut buffer) {
            0 => break,
            len => rest += len,
        }
    }
    assert_eq!(read + rest, 20 << 20, "the slow client got everything");
    assert!(is_closed(&silent, closing), "silent");
    assert!(is_closed(&dripping, closing), "dripping");
    drips.join().unwrap();
    thread::sleep(Duration::from_secs(2));
    let mut all = Vec::new();
    // The stuck client gets only what the kernel had in its buffers.
    let _ = stuck.read_to_end(&mut all);
    assert!(all.len() < fixture.iso.len(), "{}", all.len());
}

#[test]
fn there_is_a_most_of_connections() {
    let limits = Limits {
        connections: 10,
        ..Limits::default()
    };
    let fixture = Fixture::with(Layout::default(), limits, None);
    let mut clients: Vec<_> = (0..10).map(|_| fixture.client()).collect();
    for client in &mut clients {
        assert_eq!(client.get("/healthz", &[]).status, 200);
    }
    // No connection has been quiet for long, so none is closed for another one.
    let mut more = fixture.client();
    more.stream().set_nodelay(true).unwrap();
    let _ = more
        .stream()
        .write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(more.answer(true).is_none());
    drop(clients.pop());
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let mut client = fixture.client();
        let _ = client
            .stream()
            .write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
        if client
            .answer(true)
            .is_some_and(|answer| answer.status == 200)
        {
            break;
        }
        assert!(
            Instant::now() < end,
            "the place of a closed connection is not free"
        );
        thread::sleep(Duration::from_millis(10));
    }
}

/// The status of many hosts is large, and each client that reads it slowly holds a
/// copy.
#[test]
fn few_clients_read_the_status_at_once() {
    let fixture = Fixture::new();
    let store = fixture.service.store();
    let names = (0..20_000).map(|number| format!("n{number:0>250}"));
    let hosts = names.map(|name| (name, HostVersion::default())).collect();
    store.replace(store.base(), hosts).unwrap();
    let mut slow: Vec<_> = (0..4).map(|_| fixture.client()).collect();
    for client in &mut slow {
        setsockopt(client.stream(), sockopt::RcvBuf, &4096).unwrap();
        client.send(b"GET /status.json HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_eq!(client.head().unwrap().status, 200);
    }
    let refused = fixture.get("/status.json", &[]);
    assert_eq!(refused.status, 503);
    assert!(refused.header("retry-after").is_some());
    // The files of the hosts and the probes are still served.
    let ramdisk = format!("/n{:0>250}.initramfs", 0);
    assert_eq!(fixture.get(&ramdisk, &[]).status, 200);
    assert_eq!(fixture.get("/readyz", &[]).status, 200);
    drop(slow);
    let end = Instant::now() + Duration::from_secs(10);
    while fixture.get("/status.json", &[]).status != 200 {
        assert!(
            Instant::now() < end,
            "the places of the readers are not free"
        );
        thread::sleep(Duration::from_millis(20));
    }
}

/// Clients that request pages and do not read them cannot keep others from the page,
/// and only a limited number of them keep their connections.
#[test]
fn slow_readers_do_not_block_the_page() {
    let fixture = Fixture::new();
    // The kernel buffers some pages of each connection, so each client requests many
    // pages at once.
    let hosts = (0..50).map(|number| (format!("n{number:0>250}"), HostVersion::default()));
    let store = fixture.service.store();
    store.replace(store.base(), hosts.collect()).unwrap();
    let whole = fixture.get("/", &[]).body.len();
    let many = "GET / HTTP/1.1\r\nHost: x\r\n\r\n".repeat((16 << 20) / whole);
    let slow: Vec<_> = (0..40)
        .map(|_| {
            let mut client = fixture.client();
            setsockopt(client.stream(), sockopt::RcvBuf, &4096).unwrap();
            client.send(many.as_bytes());
            client
        })
        .collect();
    let metric = |name: &str| {
        let text = String::from_utf8(fixture.get("/metrics", &[]).body).unwrap();
        let values = text.lines().filter(|line| line.contains(name));
        let value = |line: &str| line.rsplit(' ').next()?.parse::<u64>().ok();
        values.filter_map(value).sum::<u64>()
    };
    // Wait until the service has no further page that a slow client can take.
    let mut answered = 0;
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        thread::sleep(Duration::from_secs(1));
        let now = metric("file=\"page\"");
        if now == std::mem::replace(&mut answered, now) {
            break;
        }
        assert!(Instant::now() < end, "the clients are not slow");
    }
    for _ in 0..20 {
        let answer = fixture.get("/", &[]);
        assert_eq!((answer.status, answer.body.len()), (200, whole));
    }
    let closed = metric("reason=\"gave way\"");
    assert!((8..=40).contains(&closed), "{closed} of 40 were closed");
    drop(slow);
}

#[test]
fn the_end_waits_for_answers_in_progress() {
    let mut fixture = Fixture::with(large(), limits(), None);
    let address = fixture.address();
    let mut busy = fixture.client();
    busy.send(b"GET /vmlinuz HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(busy.head().unwrap().status, 200);
    let idle = fixture.client();
    let reader = thread::spawn(move || {
        let mut read = 0;
        let mut buffer = vec![0; 256 << 10];
        loop {
            thread::sleep(Duration::from_millis(5));
            match busy.read_some(&mut buffer) {
                0 => return read,
                len => read += len,
            }
        }
    });
    fixture.stop();
    assert!(TcpStream::connect(address).is_err(), "still listening");
    assert_eq!(reader.join().unwrap(), 20 << 20);
    assert!(is_closed(idle.stream(), Duration::from_secs(5)));
}
