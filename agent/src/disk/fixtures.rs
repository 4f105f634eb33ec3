//! Disk images and a misbehaving HTTP server, for the tests of this directory.

use std::io::{BufRead, BufReader, Cursor, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use uuid::Uuid;

use crate::disk::gpt::{Entry, Partition, Table};
use crate::http_client::{HttpOptions, image_client};

#[allow(dead_code, reason = "the tests of the program use more of it")]
mod faulty_disk;

pub use crate::loop_device::{LoopDevice, loop_device};
pub use faulty_disk::{Answer, FaultyDisk, Request as DiskRequest};

/// The disk GUID of a CoreOS image that was never booted.
pub const SENTINEL: &str = "00000000-0000-4000-a000-000000000001";

/// A client with the agent's default options.
pub fn http_client() -> reqwest::Client {
    // Fails harmlessly if another test of this process has already installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    image_client(&HttpOptions::default()).unwrap()
}

/// A disk image with boot code, a GPT with the sentinel GUID, and two partitions.
/// Each holds data, then zeros, then data.
pub fn gpt_image(size: u64, sector: u32) -> Vec<u8> {
    let mut device = Cursor::new(vec![0u8; size as usize]);
    let last = u32::try_from(size / u64::from(sector) - 1).unwrap();
    gpt::mbr::ProtectiveMBR::with_lb_size(last)
        .overwrite_lba0(&mut device)
        .unwrap();
    let mut disk = gpt::GptConfig::new()
        .writable(true)
        .logical_block_size(u64::from(sector).try_into().unwrap())
        .create_from_device(device, Some(SENTINEL.parse().unwrap()))
        .unwrap();
    for (name, kind) in [
        ("EFI-SYSTEM", gpt::partition_types::EFI),
        ("boot", gpt::partition_types::LINUX_FS),
    ] {
        disk.add_partition(name, size / 4, kind, 0, Some(64))
            .unwrap();
    }
    let spans: Vec<(u64, u64)> = disk
        .partitions()
        .values()
        .map(|p| {
            (
                p.first_lba * u64::from(sector),
                p.last_lba * u64::from(sector),
            )
        })
        .collect();
    let mut image = disk.write().unwrap().into_inner();
    for (byte, place) in image.iter_mut().take(440).zip(0u8..=255) {
        *byte = place ^ 0x5a;
    }
    for (start, end) in spans {
        let third = (end - start) / 3;
        for place in (start..start + third).chain(end - third..end) {
            image[place as usize] = (place % 251) as u8 ^ (place >> 12) as u8;
        }
    }
    image
}

/// A disk full of old data with these partitions: number, name, type, first MiB and
/// length in MiB.
pub fn used_disk(size: u64, sector: u32, partitions: &[(u32, &str, Uuid, u64, u64)]) -> Vec<u8> {
    let mut table = Table::empty(sector, size, Uuid::new_v4(), 128).unwrap();
    for (number, name, kind, first, len) in partitions {
        let partition = Partition {
            number: *number,
            kind: *kind,
            guid: Uuid::new_v4(),
            offset: first << 20,
            len: len << 20,
            name: (*name).to_owned(),
        };
        let entry = Entry::of(&partition, sector.into());
        table.put(partition, &entry).unwrap();
    }
    let mut disk: Vec<u8> = (0..size).map(|at| (at % 249) as u8 | 1).collect();
    table.write_primary_alone(&mut disk[..1 << 20]);
    disk[..440].fill(0xb0);
    let (offset, backup) = table.backup();
    disk[offset as usize..].copy_from_slice(&backup);
    disk
}

/// Corrects the checksums of a primary GPT after its entries have been changed. For
/// sectors of 512 bytes.
pub fn sealed(mut disk: Vec<u8>) -> Vec<u8> {
    let crc = |bytes: &[u8]| {
        let mut crc = flate2::Crc::new();
        crc.update(bytes);
        crc.sum().to_le_bytes()
    };
    let entries = crc(&disk[1024..1024 + 128 * 128]);
    disk[512 + 88..][..4].copy_from_slice(&entries);
    disk[512 + 16..][..4].fill(0);
    let header = crc(&disk[512..512 + 92]);
    disk[512 + 16..][..4].copy_from_slice(&header);
    disk
}

/// An operation on a disk.
#[derive(Debug, Clone)]
pub enum Done {
    Write(u64, Vec<u8>),
    Zero(u64, u64),
    Flush,
}

/// Records the operations on a disk, in order.
#[derive(Debug, Clone, Default)]
pub struct Journal(Arc<Mutex<Vec<Done>>>);

impl Journal {
    pub fn write(&self, offset: u64, bytes: &[u8]) {
        self.note(Done::Write(offset, bytes.to_vec()));
    }

    pub fn zero(&self, offset: u64, len: u64) {
        self.note(Done::Zero(offset, len));
    }

    pub fn flush(&self) {
        self.note(Done::Flush);
    }

    pub fn all(&self) -> Vec<Done> {
        self.0.lock().unwrap().clone()
    }

    fn note(&self, done: Done) {
        self.0.lock().unwrap().push(done);
    }
}

/// A request that the server received.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// How many requests came before this one.
    pub earlier: usize,
    /// The path; the whole URL if the server acts as a proxy.
    pub path: String,
    /// The first byte of a `Range`.
    pub from: Option<u64>,
    pub if_range: Option<String>,
}

/// The answer to a request.
#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<String>,
    pub body: Vec<u8>,
    /// The server closes the connection after this many bytes of the body.
    pub cut: Option<usize>,
    /// The server keeps the connection open for 20 s after the last byte, and sends
    /// nothing.
    pub stall: bool,
}

impl Reply {
    /// The whole file, as a correct server sends it.
    pub fn whole(body: &[u8], etag: &str) -> Self {
        Self {
            status: 200,
            headers: vec![
                format!("Content-Length: {}", body.len()),
                format!("ETag: {etag}"),
            ],
            body: body.to_vec(),
            cut: None,
            stall: false,
        }
    }

    /// What a correct server sends for this request.
    pub fn correct(body: &[u8], etag: &str, asked: &Asked) -> Self {
        let Some(from) = asked.from else {
            return Self::whole(body, etag);
        };
        if asked.if_range.as_deref().is_some_and(|tag| tag != etag) {
            return Self::whole(body, etag);
        }
        let rest = &body[from as usize..];
        Self {
            status: 206,
            headers: vec![
                format!("Content-Length: {}", rest.len()),
                format!(
                    "Content-Range: bytes {from}-{}/{}",
                    body.len() - 1,
                    body.len()
                ),
                format!("ETag: {etag}"),
            ],
            ..Self::whole(rest, etag)
        }
    }

    pub fn status(status: u16) -> Self {
        Self {
            status,
            headers: vec!["Content-Length: 0".into()],
            ..Self::whole(b"", "\"x\"")
        }
    }

    #[must_use]
    pub fn cut(mut self, after: usize) -> Self {
        self.cut = Some(after);
        self
    }
}

/// An HTTP server in a thread. It serves one request per connection.
pub struct Server {
    pub url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    pub fn start(answer: impl Fn(&Asked) -> Reply + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/image.raw", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                let mut request = read_request(&stream);
                let mut log = log.lock().unwrap();
                request.earlier = log.len();
                log.push(request.clone());
                drop(log);
                send(stream, answer(&request));
            }
        });
        Self { url, asked }
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

fn read_request(stream: &TcpStream) -> Asked {
    let mut asked = Asked::default();
    for line in BufReader::new(stream).lines() {
        let line = line.unwrap_or_default();
        if line.is_empty() {
            break;
        }
        if asked.path.is_empty() {
            asked.path = line.split(' ').nth(1).unwrap_or_default().to_owned();
        }
        if let Some((name, value)) = line.split_once(": ") {
            match name.to_ascii_lowercase().as_str() {
                "range" => {
                    let from = value.strip_prefix("bytes=").unwrap();
                    asked.from = Some(from.strip_suffix('-').unwrap().parse().unwrap());
                }
                "if-range" => asked.if_range = Some(value.to_owned()),
                _ => {}
            }
        }
    }
    asked
}

fn send(mut stream: TcpStream, reply: Reply) {
    let mut head = format!("HTTP/1.1 {} X\r\nConnection: close\r\n", reply.status);
    for header in &reply.headers {
        head.push_str(header);
        head.push_str("\r\n");
    }
    head.push_str("\r\n");
    let body = &reply.body[..reply.cut.unwrap_or(reply.body.len()).min(reply.body.len())];
    // Writing fails if the agent has closed the connection, which it may do at any
    // time.
    let _ = stream.write_all(head.as_bytes());
    let _ = stream.write_all(body);
    if reply.stall {
        thread::spawn(move || {
            thread::sleep(Duration::from_secs(20));
            drop(stream);
        });
    }
}
