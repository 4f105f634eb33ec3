//! Measures the image service with many clients at the same time: clients that each
//! read a whole ISO, and clients that read slowly.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::socket::{setsockopt, sockopt};

use super::iso_server::{Server, WAIT_LIMIT, head, throw_away};
use super::{Quantity, Row, Table};

const READERS: usize = 200;
const SLOW_READERS: usize = 1000;
/// How often each slow reader takes a kilobyte.
const ROUNDS: usize = 20;
/// The time between two samples of the service's memory.
const PAUSE: Duration = Duration::from_millis(20);

/// Measures both kinds of clients `runs` times. A client that does not get its bytes is
/// an error.
pub(super) fn table(base: &Path, hosts: &Path, runs: usize) -> Result<Table> {
    // This process and the service need a descriptor for each connection. The service
    // inherits the limit from this process.
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard.min(8192), hard)?;
    let size = base.metadata()?.len();
    let (mut rates, mut peaks) = (Vec::new(), Vec::new());
    let (mut others, mut slow_peaks) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        let server = Server::ours(base, hosts)?;
        let (time, peak) = with_peak(&server, || whole_files(&server, size))?;
        rates.push((size * READERS as u64) as f64 / time.as_secs_f64() / 1e9);
        peaks.push(peak);
        let server = Server::ours(base, hosts)?;
        let (time, peak) = with_peak(&server, || slowly(&server, size))?;
        others.push(time);
        slow_peaks.push(peak);
    }
    let rate = Quantity::new("rate", "GB/s", rates);
    let peak = Quantity::new("memory", "MiB", peaks);
    let other = Quantity::seconds("another client", &others);
    let slow_peak = Quantity::new("memory", "MiB", slow_peaks);
    Ok(Table {
        title: "The service with many clients, one processor for the service".to_owned(),
        columns: ["", "found", "more memory at the peak"]
            .map(str::to_owned)
            .into(),
        rows: vec![
            Row {
                name: format!("{READERS} clients that each read a whole ISO"),
                cells: vec![
                    format!("{:.2} GB/s together", rate.median),
                    format!("{:.1} MiB", peak.median),
                ],
                quantities: vec![rate, peak],
            },
            Row {
                name: format!("{SLOW_READERS} clients that read a kilobyte at a time"),
                cells: vec![
                    format!(
                        "{:.2} s for another client that reads a whole ISO",
                        other.median
                    ),
                    format!("{:.1} MiB", slow_peak.median),
                ],
                quantities: vec![other, slow_peak],
            },
        ],
        notes: vec!["No client fails. The targets are that, and bounded memory.".to_owned()],
    })
}

/// Runs `work`. Also returns by how many MiB the memory of the service grows during
/// `work`, at the peak.
fn with_peak<T: Send>(
    server: &Server,
    work: impl FnOnce() -> Result<T> + Send,
) -> Result<(T, f64)> {
    let before = server.own_memory()?;
    let has_ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let looking = scope.spawn(|| -> Result<f64> {
            let mut most = before;
            while !has_ended.load(Ordering::Relaxed) {
                most = server.own_memory()?.max(most);
                thread::sleep(PAUSE);
            }
            Ok(most - before)
        });
        let result = work();
        has_ended.store(true, Ordering::Relaxed);
        let peak = looking.join().ok().context("the measurement panicked")??;
        Ok((result?, peak))
    })
}

/// Sends a request for the whole ISO, and reads the headers of the response.
fn ask(server: &Server, size: u64) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(&server.address)?;
    stream.set_read_timeout(Some(WAIT_LIMIT))?;
    let request = format!("GET {} HTTP/1.1\r\nHost: x\r\n\r\n", server.path);
    stream.write_all(request.as_bytes())?;
    let found = head(&mut stream)?;
    ensure!(found == size, "expected {size} bytes, found {found}");
    Ok(stream)
}

/// How long all clients together take.
fn whole_files(server: &Server, size: u64) -> Result<Duration> {
    let start = Instant::now();
    thread::scope(|scope| {
        let client = || throw_away(&ask(server, size)?, size);
        let clients: Vec<_> = (0..READERS).map(|_| scope.spawn(client)).collect();
        for client in clients {
            client.join().ok().context("a client panicked")??;
        }
        Ok(start.elapsed())
    })
}

/// Connects [`SLOW_READERS`] slow clients. Returns the longest time that another client
/// needs for a whole ISO meanwhile.
fn slowly(server: &Server, size: u64) -> Result<Duration> {
    let mut clients = Vec::new();
    for _ in 0..SLOW_READERS {
        let client = ask(server, size)?;
        setsockopt(&client, sockopt::RcvBuf, &4096)?;
        clients.push(client);
    }
    let mut longest = Duration::ZERO;
    for _ in 0..ROUNDS {
        for client in &mut clients {
            let mut buffer = [0; 1024];
            ensure!(
                client.read(&mut buffer)? > 0,
                "a slow client lost its connection"
            );
        }
        let start = Instant::now();
        throw_away(&ask(server, size)?, size)?;
        longest = longest.max(start.elapsed());
    }
    Ok(longest)
}
