//! The image as a stream of bytes over http or https, with broken connections
//! mended by Range requests, or from a file; from whichever of its places.
//!
//! An async client on a runtime of its own thread passes the received `Bytes`
//! on without copying; reqwest's blocking face costs 1.7 times the CPU
//! (0.46 against 0.27 s/GiB).

mod course;
mod local;
mod location;
mod mirror;
mod mirrors;
mod pace;
#[cfg(test)]
mod tests;
mod transfer;

use std::thread;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::disk::resume::Resource;
use crate::failure::{Class, Failure, Result};
use local::Local;
use transfer::Transfer;

pub use location::{is_medium_of, medium_url};

/// Chunks between the network and the decoder. A chunk is at most hyper's read
/// buffer, 400 KiB; on a fast link the decoder is the slower side and the queue
/// is full, so this is memory.
const QUEUE: usize = 8;

/// How long to bear with a server.
#[derive(Debug, Clone)]
pub struct Patience {
    /// A connection without a byte for this long is given up.
    pub stall: Duration,
    /// The download ends after this long without progress, but not before it
    /// was tried again this often.
    pub give_up: Duration,
    /// See `give_up`.
    pub retries: u32,
    /// The download ends after this long, progress or not.
    pub deadline: Option<Duration>,
    /// The pause before the second try; it doubles from there.
    pub first_pause: Duration,
    /// The longest pause.
    pub longest_pause: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            stall: Duration::from_secs(60),
            give_up: Duration::from_secs(600),
            retries: 0,
            deadline: None,
            first_pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(30),
        }
    }
}

/// Where to download from and how.
#[derive(Debug, Clone)]
pub struct Request {
    /// The same file in several places, each by `http:`, `https:` or `file:`
    /// (a regular file) or, on a medium that is not mounted, by [`medium_url`]. When one fails the
    /// next goes on, from the same byte if it is known to have the same file.
    pub urls: Vec<String>,
    /// The complete value of an `Authorization` header.
    pub authorization: Option<String>,
    /// Somebody compares the whole with a digest when it is there: places then
    /// need no other proof than the length that they have the same file.
    pub checked: bool,
    /// The reader recognises by its bytes how the file is packed.
    pub packed: bool,
    /// How long to bear with the servers.
    pub patience: Patience,
}

impl Request {
    /// A small file at one place, without credentials.
    pub fn small(url: impl Into<String>) -> Self {
        Self {
            urls: vec![url.into()],
            authorization: None,
            checked: false,
            packed: false,
            patience: Patience::default(),
        }
    }
}

/// A file on a server, once the server has answered.
#[derive(Debug, Clone)]
pub struct Place {
    /// The URL, with everything that is to be kept secret.
    url: String,
    /// What the server said of the file.
    resource: Resource,
    /// Whether the server sent the part that it was asked for, and not all.
    pub by_range: bool,
}

impl Place {
    /// The URL, fit for showing.
    pub fn shown(&self) -> String {
        shown(&self.url)
    }

    /// The length of the file, if the server said it.
    pub fn total(&self) -> Option<u64> {
        self.resource.total
    }
}

/// What a download delivers, in this order: one `Begin`, chunks, one `End`.
#[derive(Debug)]
pub enum Event {
    /// The first answer is there.
    Begin(Place),
    /// The next bytes of the file.
    Chunk(Bytes),
    /// All bytes were delivered.
    End,
}

/// A running download. Dropping it ends it.
#[derive(Debug)]
pub struct Download {
    events: mpsc::Receiver<Result<Event>>,
}

impl Download {
    /// Starts downloading in a thread of its own.
    ///
    /// # Errors
    /// If there is no usable URL or no thread.
    pub fn start(request: Request, client: reqwest::Client) -> Result<Self> {
        Self::start_at(request, client, None)
    }

    /// Starts downloading a file again that was downloaded before, from this
    /// byte on, at the place that had it then, or another. A server without Range is read from the start, as after a broken
    /// connection; what it sends before that byte is dropped.
    ///
    /// # Errors
    /// If there is no thread.
    pub fn again(request: Request, client: reqwest::Client, from: Place, at: u64) -> Result<Self> {
        let others = request.urls.iter().filter(|url| **url != from.url);
        let request = Request {
            urls: [&from.url].into_iter().chain(others).cloned().collect(),
            // Of what is read a second time the fingerprint is known.
            checked: true,
            ..request
        };
        Self::start_at(request, client, Some((from.resource, at)))
    }

    fn start_at(
        request: Request,
        client: reqwest::Client,
        known: Option<(Resource, u64)>,
    ) -> Result<Self> {
        if request.urls.is_empty() {
            return Err(download_error("no image URL given"));
        }
        let (sender, events) = mpsc::channel(QUEUE);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| download_error(format!("starting the download: {e}")))?;
        thread::Builder::new()
            .name("image-fetch".into())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        // The reader is gone: nobody needs the rest, and no
                        // pause has to be sat out.
                        () = sender.closed() => {}
                        outcome = in_time(&request, mirrors::fetch(&request, &client, &sender, known)) => {
                            // A reader that went away needs no outcome.
                            let _ = sender.send(outcome.map(|()| Event::End)).await;
                        }
                    }
                });
                // A name lookup that hangs in its own thread must not hold us.
                runtime.shutdown_background();
            })
            .map_err(|e| download_error(format!("starting the download: {e}")))?;
        Ok(Self { events })
    }

    /// The next event; blocks, so only for ordinary threads.
    ///
    /// # Errors
    /// When the download failed for good.
    pub fn next(&mut self) -> Result<Event> {
        self.events
            .blocking_recv()
            .unwrap_or_else(|| Err(download_error("the download ended without a word")))
    }
}

/// A whole small file, of at most `limit` bytes.
///
/// # Errors
/// As for a download, and if the file is larger.
pub fn small_file(request: Request, client: reqwest::Client, limit: usize) -> Result<Vec<u8>> {
    let url = shown(request.urls.first().map_or("", String::as_str));
    let mut download = Download::start(request, client)?;
    let mut body = Vec::new();
    loop {
        match download.next()? {
            Event::Begin(_) => {}
            Event::Chunk(chunk) if body.len() + chunk.len() <= limit => {
                body.extend_from_slice(&chunk);
            }
            Event::Chunk(_) => {
                return Err(download_error(format!(
                    "{url}: expected at most {limit} bytes, found more"
                )));
            }
            Event::End => return Ok(body),
        }
    }
}

/// A place without what is secret of it, user and signed links: consoles and
/// logs are read by many.
pub fn shown(url: &str) -> String {
    if let Ok(location::Location::Medium { device, path }) = location::Location::parse(url) {
        return format!("{path} on the medium in {}", device.display());
    }
    let Ok(mut parsed) = reqwest::Url::parse(url) else {
        return landfall_boot_params::without_secrets(url).into_owned();
    };
    let has_user = !parsed.username().is_empty() || parsed.password().is_some();
    let has_query = parsed.query().is_some_and(|query| !query.is_empty());
    if has_user {
        // Only impossible for URLs that have no host, hence no user.
        let _ = parsed.set_username("***");
        let _ = parsed.set_password(None);
    }
    if has_query {
        parsed.set_query(Some("***"));
    }
    if has_user || has_query {
        return parsed.into();
    }
    url.to_owned()
}

fn download_error(details: impl Into<String>) -> Failure {
    Failure::new(Class::ImageDownloadError, details)
}

type Events = mpsc::Sender<Result<Event>>;

/// Ends what takes longer than the request allows.
async fn in_time(request: &Request, work: impl Future<Output = Result<()>>) -> Result<()> {
    let Some(deadline) = request.patience.deadline else {
        return work.await;
    };
    tokio::time::timeout(deadline, work)
        .await
        .unwrap_or_else(|_| {
            Err(Failure::new(
                Class::ImageDownloadTimeoutError,
                format!(
                    "{}: the download took longer than {} s",
                    shown(request.urls.first().map_or("", String::as_str)),
                    deadline.as_secs()
                ),
            )
            .hint("ipa-image-download-max-duration is the limit"))
        })
}
