//! Reads a file of this machine, or a file on a medium in a drive, and delivers
//! it with the same events and limits as a download.
//!
//! A virtual drive depends on the network connection of the BMC. So a read may fail or
//! hang, and a later read may succeed, as with a server. Each read runs in a separate
//! thread, so that a read that never returns blocks nothing else.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use landfall_media_formats::iso9660::{Iso, IsoError};

use super::Place;
use super::download_state::{DownloadState, Outcome, final_at, later};
use super::location::Location;
use super::mirror::Mirror;
use super::pace::Pace;
use crate::resume::Resource;

/// Size of one read in bytes, similar to a chunk from the network.
const CHUNK: u64 = 256 << 10;

/// An attempt to read a file.
pub(super) struct Local<'a, 'url> {
    mirror: &'a mut Mirror<'url>,
    location: Location,
}

/// An open file, or the device that contains it.
struct Source {
    file: File,
    len: u64,
    /// Identifies the file: another file at the same path has another tag.
    tag: String,
}

/// Why a file cannot be opened or read.
enum Trouble {
    /// A temporary error.
    Passing(String),
    Lasting(String),
}

impl<'a, 'url> Local<'a, 'url> {
    /// Prepares the attempt, without opening the file; `go_on` opens it.
    pub(super) fn new(mirror: &'a mut Mirror<'url>, location: Location) -> Self {
        Self { mirror, location }
    }

    /// Reads the file from `state.received` to its end.
    pub(super) async fn go_on(self, state: &mut DownloadState<'_>) -> Outcome<()> {
        let stall = state.request.retry_policy.stall;
        let Self { mirror, location } = self;
        let from = state.received;
        let opened = in_thread(stall, move || open(&location, from)).await?;
        let mut source = opened.map_err(|trouble| match trouble {
            Trouble::Passing(reason) => later(reason),
            Trouble::Lasting(reason) => final_at(&mirror.shown, reason),
        })?;
        let resource = Resource {
            total: Some(source.len),
            etag: Some(source.tag.clone()),
            last_modified: None,
        };
        if let Some(difference) = mirror
            .known
            .as_ref()
            .and_then(|known| known.difference(&resource))
        {
            return Err(final_at(
                &mirror.shown,
                format!("the file changed: {difference}"),
            ));
        }
        mirror.must_be_same(state, &resource)?;
        mirror.known = Some(resource.clone());
        let place = Place {
            url: mirror.url.to_owned(),
            resource,
            by_range: true,
            redirected_to: None,
        };
        state.begin_at(place, 0).await?;
        let mut pace = Pace::new(state.request.retry_policy.give_up.max(stall));
        while state.received < source.len {
            let left = source.len - state.received;
            let (back, read) = in_thread(stall, move || {
                let read = chunk(&mut source.file, left);
                (source, read)
            })
            .await?;
            source = back;
            let bytes = read.map_err(|error| later(why(&error)))?;
            pace.received(bytes.len() as u64)
                .map_err(|slow| later(slow.to_string()))?;
            state.deliver(&mirror.shown, bytes, &mut pace).await?;
        }
        Ok(())
    }
}

/// Runs `work`, which may hang, in a separate thread. Fails if `work` takes longer than
/// `stall`, the longest permitted time without a byte.
async fn in_thread<T: Send + 'static>(
    stall: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Outcome<T> {
    match tokio::time::timeout(stall, tokio::task::spawn_blocking(work)).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(later(format!("the reader ended: {error}"))),
        Err(_) => Err(later(format!("no byte for {} s", stall.as_secs()))),
    }
}

fn chunk(file: &mut File, left: u64) -> io::Result<Bytes> {
    let want = left.min(CHUNK);
    let mut bytes = Vec::with_capacity(want as usize);
    // If an error follows some bytes, the bytes are delivered first. If the error
    // persists, the next read reports it.
    while (bytes.len() as u64) < want {
        let missing = want - bytes.len() as u64;
        match file.take(missing).read_to_end(&mut bytes) {
            Ok(0) => break,
            Ok(_) => {}
            Err(_) if !bytes.is_empty() => break,
            Err(error) => return Err(error),
        }
    }
    if bytes.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes.into())
}

fn open(location: &Location, from: u64) -> Result<Source, Trouble> {
    let (source, start) = match location {
        Location::File(path) => (regular_file(path)?, 0),
        Location::Medium { device, path } => on_medium(device, path)?,
        // This does not happen, because `mirrors` uses `Transfer` for servers.
        Location::Server => return Err(Trouble::Lasting("expected a file".to_owned())),
    };
    let mut file = &source.file;
    file.seek(SeekFrom::Start(start + from))
        .map_err(|error| Trouble::Passing(why(&error)))?;
    Ok(source)
}

fn regular_file(path: &Path) -> Result<Source, Trouble> {
    let lasting = |error: io::Error| Trouble::Lasting(why(&error));
    // Checks the type first: opening a FIFO would block until another process
    // writes to it.
    let is_file = path.metadata().map_err(lasting)?.is_file();
    if !is_file {
        return Err(Trouble::Lasting(
            "expected a regular file, found something else".to_owned(),
        ));
    }
    let file = File::open(path).map_err(lasting)?;
    let data = file.metadata().map_err(lasting)?;
    let tag = format!(
        "{}:{}, {}.{:09}",
        data.dev(),
        data.ino(),
        data.mtime(),
        data.mtime_nsec()
    );
    Ok(Source {
        file,
        len: data.len(),
        tag,
    })
}

fn on_medium(device: &Path, path: &str) -> Result<(Source, u64), Trouble> {
    // A drive may disappear and come back with its device node. If it does not come back,
    // the download fails after `RetryPolicy::give_up`.
    let file = File::open(device).map_err(|error| Trouble::Passing(why(&error)))?;
    let mut iso = Iso::open(&file).map_err(trouble_of_iso)?;
    let extent = iso.find(path).map_err(trouble_of_iso)?;
    let tag = format!("{}, {}", iso.label, iso.uuid);
    let len = extent.size;
    Ok((Source { file, len, tag }, extent.offset))
}

fn trouble_of_iso(error: IsoError) -> Trouble {
    match error {
        IsoError::Io { offset, source } => {
            Trouble::Passing(format!("cannot read it at byte {offset}: {}", why(&source)))
        }
        other => Trouble::Lasting(other.to_string()),
    }
}

fn why(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(number) => nix::errno::Errno::from_raw(number).desc().to_owned(),
        None if error.kind() == io::ErrorKind::UnexpectedEof => "it ended early".to_owned(),
        None => error.to_string(),
    }
}
