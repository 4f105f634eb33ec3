//! The server for the bench's images. It uses sendfile(2) from the page cache, so
//! that its own speed does not affect the measurement. It can break connections on
//! request.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use anyhow::{Context, Result};
use nix::sys::sendfile::sendfile;

/// The number of bytes that one call of sendfile may send. The call sends as much as
/// fits into the socket's buffer.
const PIECE: u64 = 4 << 20;

#[derive(Default)]
struct Counters {
    /// Bytes of response bodies that were sent.
    sent: AtomicU64,
    /// Number of connections still to be broken.
    breaks: AtomicU64,
    /// Bytes after which a connection is broken.
    break_after: AtomicU64,
}

/// A server that runs until the bench ends.
pub(super) struct FileServer {
    address: SocketAddr,
    counters: Arc<Counters>,
}

impl FileServer {
    /// Serves the files of this folder on the loopback interface.
    pub(super) fn start(folder: &Path) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("listening on the loopback")?;
        let address = listener.local_addr()?;
        let counters = Arc::new(Counters::default());
        let (folder, shared) = (folder.to_owned(), Arc::clone(&counters));
        thread::Builder::new()
            .name("bench-server".into())
            .spawn(move || {
                for stream in listener.incoming().flatten() {
                    let (folder, shared) = (folder.clone(), Arc::clone(&shared));
                    // The server ignores clients that disconnect.
                    thread::spawn(move || answer(&stream, &folder, &shared));
                }
            })?;
        Ok(Self { address, counters })
    }

    pub(super) fn url(&self, name: &str) -> String {
        format!("http://{}/{name}", self.address)
    }

    /// Ends the next `count` connections after `after` bytes each.
    pub(super) fn break_connections(&self, count: u64, after: u64) {
        self.counters.break_after.store(after, Ordering::Relaxed);
        self.counters.breaks.store(count, Ordering::Relaxed);
    }

    /// How many connections are still to be broken.
    pub(super) fn breaks_left(&self) -> u64 {
        self.counters.breaks.load(Ordering::Relaxed)
    }

    /// Bytes of response bodies sent since the last call.
    pub(super) fn take_sent(&self) -> u64 {
        self.counters.sent.swap(0, Ordering::Relaxed)
    }
}

struct Asked {
    path: PathBuf,
    from: Option<u64>,
}

fn read_request(stream: &TcpStream, folder: &Path) -> io::Result<Asked> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next().unwrap_or_else(|| Ok(String::new()))?;
    let name = first.split(' ').nth(1).unwrap_or("/");
    let mut from = None;
    for line in lines {
        let line = line?.to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(range) = line.strip_prefix("range: bytes=") {
            from = range.split('-').next().and_then(|first| first.parse().ok());
        }
    }
    Ok(Asked {
        path: folder.join(name.trim_start_matches('/')),
        from,
    })
}

fn answer(mut stream: &TcpStream, folder: &Path, counters: &Counters) -> io::Result<()> {
    let asked = read_request(stream, folder)?;
    let Ok(file) = File::open(&asked.path) else {
        // coreos-installer requests a signature file that does not exist.
        return stream.write_all(
            b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        );
    };
    let total = file.metadata()?.len();
    let from = asked.from.unwrap_or(0).min(total);
    let status = match asked.from {
        Some(_) => format!(
            "206 Partial Content\r\nContent-Range: bytes {from}-{}/{total}",
            total - 1
        ),
        None => "200 OK".to_owned(),
    };
    let length = total - from;
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nContent-Type: application/octet-stream\r\n\
         ETag: \"{total:x}\"\r\nAccept-Ranges: bytes\r\nConnection: close\r\n\r\n"
    )?;
    let breaks = counters
        .breaks
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1))
        .is_ok();
    let end = if breaks {
        (from + counters.break_after.load(Ordering::Relaxed)).min(total)
    } else {
        total
    };
    let mut at = i64::try_from(from).map_err(io::Error::other)?;
    while (at as u64) < end {
        let count = (end - at as u64).min(PIECE) as usize;
        let sent = sendfile(stream, &file, Some(&mut at), count)?;
        counters.sent.fetch_add(sent as u64, Ordering::Relaxed);
        if sent == 0 {
            break;
        }
    }
    stream.shutdown(Shutdown::Write)
}
