//! What one host has in addition to its base.

use bytes::Bytes;
use landfall_media_formats::areas::KargsError;
use landfall_network_plan::EmbeddedHost;
use sha2::{Digest as _, Sha256};

use crate::archive::{self, ArchiveError, HostFile};
use crate::kargs_edit::{KargsEdit, KargsEditError};
use crate::kernel_args::KernelArgsError;

/// Why a host's version of a base cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    #[error(
        "{path}: expected at most {room} bytes for this host, found {found} -- build the base ISO with a larger --embed-kib"
    )]
    TooLarge { path: String, room: u64, found: u64 },
    #[error(transparent)]
    KargsArea(#[from] KargsError),
    #[error(transparent)]
    Kargs(#[from] KargsEditError),
    #[error(transparent)]
    Script(#[from] KernelArgsError),
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}

/// The content of a host: changes of the kernel arguments, and files. It does not
/// depend on the base, so it stays valid when the base is replaced.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostVersion {
    kargs: KargsEdit,
    /// Sorted by path.
    files: Vec<HostFile>,
    /// Leave out the files that an earlier customization has put into the base.
    without_files_of_base: bool,
}

impl HostVersion {
    #[must_use]
    pub fn with_kargs(mut self, kargs: KargsEdit) -> Self {
        self.kargs = kargs;
        self
    }

    /// Adds a file, or replaces the file of this path.
    #[must_use]
    pub fn with_file(mut self, path: impl Into<String>, bytes: impl Into<Bytes>) -> Self {
        let file = HostFile {
            path: path.into(),
            bytes: bytes.into(),
        };
        archive::put(&mut self.files, file);
        self
    }

    /// Adds the network of a host, which the caller has checked.
    #[must_use]
    pub fn with_host(self, host: &EmbeddedHost) -> Self {
        self.with_file(host.path(), host.to_json().into_bytes())
    }

    /// Drops what an earlier customization put into the base.
    #[must_use]
    pub fn reset(mut self) -> Self {
        self.kargs.reset = true;
        self.without_files_of_base = true;
        self
    }

    #[must_use]
    pub fn kargs(&self) -> &KargsEdit {
        &self.kargs
    }

    #[must_use]
    pub fn files(&self) -> &[HostFile] {
        &self.files
    }

    /// Whether the host's version is the base itself.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kargs.is_empty() && self.files.is_empty() && !self.without_files_of_base
    }

    pub(crate) fn drops_files_of_base(&self) -> bool {
        self.without_files_of_base
    }

    /// The files of the base, replaced and extended by those of the host.
    pub(crate) fn files_on(&self, base: &[HostFile]) -> Vec<HostFile> {
        let mut all = match self.without_files_of_base {
            true => Vec::new(),
            false => base.to_vec(),
        };
        for file in &self.files {
            archive::put(&mut all, file.clone());
        }
        all
    }

    /// A digest of the content, for entity tags and URLs.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        let mut digest = Sha256::new();
        // The length before each text ensures that different lists have different bytes.
        let mut add = |bytes: &[u8]| {
            digest.update((bytes.len() as u64).to_le_bytes());
            digest.update(bytes);
        };
        add(&[
            u8::from(self.kargs.reset),
            u8::from(self.without_files_of_base),
        ]);
        for texts in [&self.kargs.delete, &self.kargs.append] {
            add(&(texts.len() as u64).to_le_bytes());
            texts.iter().for_each(|text| add(text.as_bytes()));
        }
        for file in &self.files {
            add(file.path.as_bytes());
            add(&file.bytes);
        }
        digest.finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn different_content_has_a_different_digest() {
        let append = |texts: &[&str]| KargsEdit {
            append: texts.iter().map(ToString::to_string).collect(),
            ..KargsEdit::default()
        };
        let delete = KargsEdit {
            delete: vec!["a".to_owned()],
            ..KargsEdit::default()
        };
        let new = HostVersion::default;
        let versions = [
            new(),
            new().reset(),
            new().with_kargs(append(&["a"])),
            new().with_kargs(delete),
            new().with_kargs(append(&["a", "b"])),
            new().with_kargs(append(&["ab"])),
            new().with_file("a", "b"),
            new().with_file("ab", ""),
            new().with_file("a", "b").with_file("c", ""),
        ];
        let digests: BTreeSet<_> = versions.iter().map(HostVersion::digest).collect();
        assert_eq!(digests.len(), versions.len());
        let one = new().with_file("a", "1").with_file("b", "2");
        let other = new()
            .with_file("b", "x")
            .with_file("b", "2")
            .with_file("a", "1");
        assert_eq!(one.digest(), other.digest());
        assert!(new().is_empty() && !new().reset().is_empty());
    }

    #[test]
    fn the_hosts_files_win_over_those_of_the_base() {
        let base = HostVersion::default()
            .with_file("a", "1")
            .with_file("b", "2");
        let host = HostVersion::default()
            .with_file("b", "3")
            .with_file("c", "4");
        let text = |files: Vec<HostFile>| -> Vec<String> {
            let line =
                |file: &HostFile| format!("{}={}", file.path, String::from_utf8_lossy(&file.bytes));
            files.iter().map(line).collect()
        };
        assert_eq!(text(host.files_on(base.files())), ["a=1", "b=3", "c=4"]);
        assert_eq!(text(host.reset().files_on(base.files())), ["b=3", "c=4"]);
    }
}
