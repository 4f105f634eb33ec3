//! Packs the members into one text: tar.gz in base64, as Ironic stores it.

use std::io::Write as _;
use std::time::SystemTime;

use base64::Engine as _;
use flate2::Compression;
use flate2::write::GzEncoder;
use landfall_boot_params::without_secrets;

/// The maximum size of a member in bytes. A longer member keeps only its end, because the
/// errors are there.
const MEMBER_LIMIT: usize = 4 << 20;
/// The maximum size of all members together in bytes. A member that would exceed it is
/// cut, and the members after it are empty.
const LIMIT: usize = 24 << 20;

/// A file in the archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The path in the archive.
    pub(super) name: String,
    pub(super) content: String,
}

impl Member {
    pub fn new(name: impl Into<String>, content: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            content: content.into(),
        }
    }
}

/// Packs the members. Removes the secrets from each line ([`without_secrets`]).
pub fn pack(members: &[Member]) -> String {
    let packed = tar_gz(members).unwrap_or_else(|error| {
        // The archive is written to memory, so the only possible error is a member name
        // that tar rejects.
        tracing::warn!("cannot pack the logs: {error}; Ironic gets none");
        Vec::new()
    });
    base64::engine::general_purpose::STANDARD.encode(packed)
}

/// Packs the members without base64, and without secrets.
pub(super) fn tar_gz(members: &[Member]) -> std::io::Result<Vec<u8>> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.map_or(0, |age| age.as_secs());
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    let mut room = LIMIT;
    for Member { name, content } in members {
        // Remove secrets line by line, because an open quote in one line must not hide
        // other lines.
        let lines = content.split('\n').map(without_secrets);
        let content = lines.collect::<Vec<_>>().join("\n");
        let content = last(&content, MEMBER_LIMIT.min(room));
        room -= content.len();
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(now);
        archive.append_data(&mut header, name, content.as_bytes())?;
    }
    let mut packed = archive.into_inner()?;
    packed.flush()?;
    packed.finish()
}

/// The last `limit` bytes of a text, from the beginning of a line.
fn last(text: &str, limit: usize) -> &str {
    if text.len() <= limit {
        return text;
    }
    let end = &text.as_bytes()[text.len() - limit..];
    let line = end.iter().position(|byte| *byte == b'\n');
    // The byte after a line break starts a character, because a line break is one byte in
    // UTF-8.
    line.map_or("", |line| &text[text.len() - limit + line + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::unpack;

    #[test]
    fn the_archive_has_all_members_without_secrets() {
        let members = [
            Member::new("journal", "one\ntwo\n"),
            Member::new("udev/sda", "{}"),
            Member::new(
                "dmesg",
                "Command line: ipa-agent-token=geheim BOOTIF=x\nproxy http://u:geheim@host\n",
            ),
        ];
        let out = unpack(&pack(&members));
        assert_eq!(out["journal"], "one\ntwo\n");
        assert_eq!(out["udev/sda"], "{}");
        assert!(!out["dmesg"].contains("geheim"), "{}", out["dmesg"]);
        assert!(out["dmesg"].contains("ipa-agent-token=*** BOOTIF=x"));
    }

    /// A server may send a text with an open quote, in order to hide the lines after it.
    #[test]
    fn an_open_quote_hides_only_its_line() {
        let members = [Member::new("journal", "token=\"S3CRET\nthe next line\n")];
        let out = unpack(&pack(&members));
        assert!(!out["journal"].contains("S3CRET"), "{}", out["journal"]);
        assert!(out["journal"].ends_with("\nthe next line\n"));
    }

    #[test]
    fn a_long_member_keeps_its_end() {
        assert_eq!(last("one\ntwo\nthree\n", 100), "one\ntwo\nthree\n");
        assert_eq!(last("one\ntwo\nthree\n", 8), "three\n");
        assert_eq!(last("one\ntw\u{f6}\nthree\n", 8), "three\n");
        assert_eq!(last("without end", 4), "");
        let line = "0123456789abcdef\n".repeat(MEMBER_LIMIT / 8);
        let members: Vec<Member> = (0..10)
            .map(|number| Member::new(format!("m{number}"), line.clone()))
            .collect();
        let out = unpack(&pack(&members));
        assert_eq!(out.len(), 10);
        let sizes: Vec<usize> = out.values().map(String::len).collect();
        assert!(sizes.iter().all(|size| *size <= MEMBER_LIMIT));
        assert!(sizes.iter().sum::<usize>() <= LIMIT);
        assert_eq!(sizes[9], 0, "there was no room left");
    }
}
