//! Counts the connections that heartbeats leave open.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::{NEW, Service, Transport, run, transport};

/// The server resets, stalls, closes or keeps connections. The agent must not keep
/// unused connections after any of these.
#[test]
fn heartbeats_leave_no_connections_behind() {
    let (port, served) = unreliable_ironic();
    let hasty = Transport {
        timeout: Duration::from_millis(50),
        ..transport()
    };
    let urls = [format!("http://127.0.0.1:{port}")];
    let service = Service::new(hasty, &urls, NEW, None);
    run(async {
        let mut most = 0;
        for _ in 0..200 {
            // Ignore the result: more than half of the requests fail.
            let _ = service.post_heartbeat("6d85", "{}".to_owned(), false).await;
            most = most.max(connections_to(port));
        }
        assert!(most <= 2, "{most} connections");
    });
    let served = served.load(Ordering::Relaxed);
    assert!(served >= 160, "{served} connections served");
}

/// Starts a server that treats its connections in five ways in turn. Returns its port,
/// and the number of connections so far.
fn unreliable_ironic() -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let served = Arc::<AtomicUsize>::default();
    let counter = Arc::clone(&served);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let number = counter.fetch_add(1, Ordering::Relaxed);
            std::thread::spawn(move || {
                let head = "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n";
                if number % 5 == 0 {
                    // A reset, because nobody has read the request.
                    stream.peek(&mut [0]).unwrap();
                    return;
                }
                let _ = stream.read(&mut [0; 4096]);
                match number % 5 {
                    1 => std::thread::sleep(Duration::from_secs(2)),
                    2 => drop(stream.write_all(b"HTTP/1.1 202 Acc")),
                    3 => drop(
                        stream.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes()),
                    ),
                    _ => {
                        let _ = stream.write_all(format!("{head}\r\n").as_bytes());
                        // The next heartbeat gets no answer on this connection.
                        let _ = stream.read(&mut [0; 4096]);
                    }
                }
            });
        }
    });
    (port, served)
}

/// Counts the sockets of this process whose peer has this port, including sockets that
/// the peer has closed.
fn connections_to(port: u16) -> usize {
    let own: Vec<String> = std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|file| std::fs::read_link(file.ok()?.path()).ok())
        .map(|target| target.display().to_string())
        .collect();
    let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
    // Fields of /proc/net/tcp: the third is the peer, the tenth the inode.
    let is_it = |line: &&str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields[2].ends_with(&format!(":{port:04X}"))
            && own.contains(&format!("socket:[{}]", fields[9]))
    };
    table.lines().skip(1).filter(is_it).count()
}
