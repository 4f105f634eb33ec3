//! Which versions of a file have a record of their reads.

use std::time::{Duration, SystemTime};

use super::{FileReads, Transfer};

/// The largest number of versions of one file whose reads are kept.
pub(super) const MAX_VERSIONS: usize = 4;
/// How long the reads of an earlier version are kept after the last one. A client can get
/// an earlier version for the same time (`served_version.rs`).
pub(super) const EARLIER_SHOWN: Duration = Duration::from_secs(15 * 60);

/// What has been read of each version of a file. A BMC may continue with an earlier
/// version while another client reads the newest one. The versions are sorted by the
/// time of their first read, the latest first.
pub(super) type Versions = Vec<FileReads>;

/// The reads of the version that is transferred. Drops earlier versions that are not
/// read any more.
pub(super) fn version_of<'a>(
    versions: &'a mut Versions,
    transfer: &Transfer,
    now: SystemTime,
) -> &'a mut FileReads {
    let known = versions.iter().position(|file| file.etag == transfer.etag);
    let at = known.unwrap_or_default();
    if known.is_none() {
        versions.insert(0, FileReads::new(transfer, now));
        versions.truncate(MAX_VERSIONS);
    }
    // The clock may be set back; then the version stays.
    let is_over = |file: &FileReads| {
        let since = now.duration_since(file.last);
        since.is_ok_and(|since| since >= EARLIER_SHOWN)
    };
    let mut places = 0..;
    versions.retain(|file| places.next() <= Some(at) || !is_over(file));
    &mut versions[at]
}
