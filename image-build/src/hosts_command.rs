//! Runs the sub-command `landfall-image hosts`.

use std::io::{BufWriter, Write as _};
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use landfall_initramfs::digest_writer::DigestWriter;
use landfall_initramfs::file_tree::{Content, FileTree, Place};
use landfall_initramfs::newc;
use landfall_initramfs::output_file::OutputFile;
use serde::Serialize;

use crate::cli::HostsArguments;
use crate::epoch;
use crate::hosts::Hosts;
use crate::report::{Report, counted};

#[derive(Serialize)]
struct HostsSummary {
    path: PathBuf,
    bytes: u64,
    sha256: String,
    hosts: usize,
}

pub(crate) fn run(arguments: &HostsArguments) -> Result<()> {
    let report = Report::new(arguments.output.json);
    let hosts = Hosts::read(&arguments.hosts)?;
    ensure!(
        !hosts.hosts.is_empty(),
        "expected hosts, found none -- give --hosts, --agent-config, --install-config, --bare-metal-hosts, --nmstate or --network-data"
    );
    report.warnings(&hosts.warnings);
    let mut output = OutputFile::create(&arguments.output.output, arguments.output.force)?;
    let mut tree = FileTree::default();
    for file in hosts.files() {
        let content = Content::Bytes(file.bytes);
        tree.file(&file.path, content, 0o600, Place::Sorted)?;
    }
    let path = output.path().to_owned();
    let writing = || format!("cannot write {}", path.display());
    let digested = DigestWriter::new(BufWriter::new(output.file()));
    // The archive is not compressed, so that it can follow a ramdisk with any
    // compression.
    let mut archive = newc::Writer::new(digested);
    archive.tree(&tree, epoch::from_environment()?)?;
    let (mut digested, _) = archive.finish()?;
    digested.flush().with_context(writing)?;
    let (bytes, sha256) = digested.finish();
    output.finish()?;
    let summary = HostsSummary {
        path,
        bytes,
        sha256,
        hosts: hosts.hosts.len(),
    };
    let text = format!(
        "{}: {}, {} bytes\n  sha256   {}",
        summary.path.display(),
        counted(summary.hosts, "host"),
        summary.bytes,
        summary.sha256
    );
    report.done(&summary, &text)
}
