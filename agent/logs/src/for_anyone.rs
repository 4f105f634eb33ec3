//! The archive of a fatal error, which anyone in the provisioning network may download
//! without a token.
//!
//! This archive has less content than the archive for Ironic. It only has what the status
//! pages also show, the hardware, and the kernel's own messages. It leaves out the
//! following, because each may hold a secret that the agent cannot recognise:
//!
//! * the kernel's command line, wherever the kernel quotes it: it also has the arguments
//!   of other programs
//! * records of other programs in the kernel's log, and the journal of a live system
//! * processes, whose arguments may be passwords
//! * mounts, whose options may be passwords

use std::fs;
use std::path::Path;

use landfall_report::{LogLine, kernel_log, log_lines, status};
use landfall_sys::state_file::{STATE_DIRECTORY, StateFile};

use super::archive::tar_gz;
use super::{Member, addresses, block_devices, journal};

/// The name of the file in the state directory, which is in memory.
const FILE: &str = "failure-logs.tar.gz";
/// The maximum size of the archive in bytes. The log of a day has about 300 kB.
const LIMIT: usize = 4 << 20;

/// How the kernel's records that quote its command line begin (init/main.c,
/// arch/x86/kernel/setup.c).
const QUOTES: [&str; 3] = [
    "Command line:",
    "Kernel command line:",
    "Unknown kernel command line parameters",
];

/// Makes the archive now and keeps it until the machine restarts. It replaces an earlier
/// archive.
pub fn keep_for_anyone(state: &Path) {
    match tar_gz(&members()) {
        Ok(packed) if packed.len() <= LIMIT => StateFile::new(state, FILE).store_or_warn(&packed),
        Ok(packed) => tracing::warn!(
            "the logs are not kept for a download: expected at most {LIMIT} bytes, found {}",
            packed.len()
        ),
        Err(error) => tracing::warn!("cannot pack the logs: {error}"),
    }
}

/// The archive of the last fatal error; `None` if there is none or it cannot be read.
pub fn kept_for_anyone(state: &Path) -> Option<Vec<u8>> {
    StateFile::new(state, FILE).load().ok().flatten()
}

fn members() -> Vec<Member> {
    let text = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    let command_line = fs::read_to_string("/proc/cmdline").ok();
    let kernel = without_command_line(kernel_log::own_records(), command_line.as_deref());
    // A plain struct always has a JSON form.
    let status = serde_json::to_value(status::now()).unwrap_or_default();
    let mut members = vec![
        Member::new("journal", journal::merge(&kernel, &log_lines(), None)),
        Member::new("status.json", format!("{status:#}\n")),
        Member::new("ip_addr", addresses::ip_addr(Path::new("/sys/class/net"))),
        Member::new("lsblk", block_devices::lsblk(Path::new("/sys/block"))),
        Member::new("mdstat", text(Path::new("/proc/mdstat"))),
        Member::new(
            "network.json",
            text(&Path::new(STATE_DIRECTORY).join("network.json")),
        ),
    ];
    members.retain(|member| !member.content.is_empty());
    members
}

/// Removes the records of the kernel that quote an argument with a value. If the command
/// line is not known, keeps only the records of init and the agent.
///
/// The kernel quotes its whole command line. It also quotes the arguments that it does
/// not know, in lines that differ between kernel versions (init/main.c).
fn without_command_line(records: Vec<LogLine>, command_line: Option<&str>) -> Vec<LogLine> {
    // The kernel may quote an argument without the quotes that it has on the command
    // line.
    let words: Option<Vec<String>> = command_line.map(|line| {
        let words = line.split_whitespace().filter(|word| word.contains('='));
        let forms = words.flat_map(|word| [word.to_owned(), word.replace('"', "")]);
        forms.collect()
    });
    let may_stay = |record: &LogLine| {
        let quotes_none = |words: &Vec<String>| {
            let quotes = QUOTES.iter().any(|start| record.text.starts_with(start));
            !quotes && words.iter().all(|word| !record.text.contains(word))
        };
        journal::is_ours(&record.text) || words.as_ref().is_some_and(quotes_none)
    };
    records.into_iter().filter(may_stay).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::unpack_tar_gz;

    const COMMAND_LINE: &str = "BOOT_IMAGE=/vmlinuz quiet vault.key=S3CRET vaultkey=\"S3CRET\" \
        ipa-agent-token=S3CRET console=ttyS0\n";

    fn log_line(text: &str) -> LogLine {
        LogLine {
            time: 1.0,
            text: text.to_owned(),
        }
    }

    #[test]
    fn no_line_of_the_kernel_quotes_its_command_line() {
        let records = [
            "Linux version 6.1.0",
            "Command line: BOOT_IMAGE=/vmlinuz quiet vault.key=S3CRET",
            "Kernel command line: BOOT_IMAGE=/vmlinuz quiet vault.key=S3CRET",
            "Unknown kernel command line parameters \"vault.key=S3CRET\", will be passed to user space.",
            "    vault.key=S3CRET",
            "Unknown kernel command line parameters \"vaultkey=S3CRET\", will be passed to user space.",
            "    vaultkey=S3CRET",
            "printk: console [ttyS0] enabled",
            "landfall init: loading drivers",
            "landfall agent: console=ttyS0 is ours",
        ];
        let left = |command_line| -> Vec<String> {
            let records = records.iter().map(|text| log_line(text)).collect();
            let left = without_command_line(records, command_line);
            left.into_iter().map(|record| record.text).collect()
        };
        assert_eq!(
            left(Some(COMMAND_LINE)),
            [
                "Linux version 6.1.0",
                "printk: console [ttyS0] enabled",
                "landfall init: loading drivers",
                "landfall agent: console=ttyS0 is ours",
            ]
        );
        assert_eq!(
            left(None),
            [
                "landfall init: loading drivers",
                "landfall agent: console=ttyS0 is ours",
            ]
        );
    }

    #[test]
    fn the_kept_archive_has_the_log_and_the_status_and_no_secrets() {
        landfall_report::start(landfall_report::Output::Stderr, false);
        tracing::error!("planted: https://u:S3CRET@host/?sig=S3CRET ipa-agent-token=S3CRET");
        let state = tempfile::tempdir().unwrap();
        assert_eq!(kept_for_anyone(state.path()), None);
        keep_for_anyone(state.path());
        let kept = kept_for_anyone(state.path()).unwrap();
        let out = unpack_tar_gz(&kept);
        assert!(
            out["journal"].contains("planted: https://***@host/?***"),
            "{out:?}"
        );
        assert!(out["status.json"].contains("\"build\""), "{out:?}");
        assert!(out.contains_key("ip_addr"), "{:?}", out.keys());
        for (name, content) in &out {
            assert!(!content.contains("S3CRET"), "{name}: {content}");
        }
        for absent in ["ps", "dmesg", "mount"] {
            assert!(!out.contains_key(absent), "{absent}");
        }
    }
}
