//! The reads of single hosts, for the page.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::SystemTime;

use super::{FileReads, Reads};
use crate::request_path::{FileKind, Kind};

/// The latest read of any file of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LastRead {
    pub(crate) time: SystemTime,
    pub(crate) client: IpAddr,
}

/// What has been read of one file of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileRead {
    pub(crate) kind: Kind,
    /// With its quotes.
    pub(crate) etag: String,
    /// In bytes.
    pub(crate) size: u64,
    /// The number of bytes that were sent at least once.
    pub(crate) read: u64,
    /// True if `read` may be too large, because ranges were joined.
    pub(crate) is_rough: bool,
    pub(crate) requests: u64,
    pub(crate) last: LastRead,
    /// The client's `User-Agent`.
    pub(crate) agent: String,
}

impl Reads {
    /// The latest read of each host that was read.
    pub(crate) fn last_reads(&self) -> HashMap<String, LastRead> {
        let mut hosts: HashMap<String, LastRead> = HashMap::new();
        for ((host, kind), versions) in &*self.lock() {
            let latest = versions.iter().max_by_key(|file| file.last);
            let Some(last) = latest.filter(|_| *kind != FileKind::Kernel).map(last_of) else {
                continue;
            };
            match hosts.get_mut(host) {
                Some(known) if known.time >= last.time => {}
                Some(known) => *known = last,
                None => {
                    hosts.insert(host.clone(), last);
                }
            }
        }
        hosts
    }

    /// The files of a host that were read. If several versions of a file were read, the
    /// newest one comes first.
    pub(crate) fn of_host(&self, host: &str) -> Vec<FileRead> {
        let files = self.lock();
        let kinds = [Kind::Iso, Kind::Initramfs, Kind::Ipxe].into_iter();
        let read = |kind: Kind, file: &FileReads| {
            let lengths = file.ranges.iter().map(|range| range.end - range.start);
            FileRead {
                kind,
                etag: file.etag.clone(),
                size: file.size,
                read: lengths.sum(),
                is_rough: file.is_rough,
                requests: file.requests,
                last: last_of(file),
                agent: file.agent.clone(),
            }
        };
        let of_kind = |kind: Kind| {
            let versions = files.get(&(host.to_owned(), FileKind::OfHost(kind)));
            let versions = versions.into_iter().flatten();
            versions.map(move |file| read(kind, file))
        };
        kinds.flat_map(of_kind).collect()
    }
}

fn last_of(file: &FileReads) -> LastRead {
    LastRead {
        time: file.last,
        client: file.client,
    }
}
