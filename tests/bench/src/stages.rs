//! Reads the processor time of each stage of writing an image from the results
//! of the agent's criterion benches (agent/disk/benches/stages.rs) in the
//! target folder.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use landfall_tests::artifacts;
use serde_json::Value;

use super::{Quantity, Row, Table};

/// The group and the name of each bench in criterion, and the name in the
/// table.
const STAGES: [(&str, &str, &str); 9] = [
    ("digest", "sha256", "SHA-256"),
    ("digest", "sha512", "SHA-512"),
    ("digest", "md5", "MD5"),
    ("digest", "sha3_256", "SHA3-256"),
    ("decode", "gzip", "gzip"),
    ("decode", "zstd", "zstd"),
    ("decode", "xz", "xz"),
    ("write", "zero-test", "looking for zeros"),
    ("write", "sparse", "zeros and data to a file in memory"),
];

/// Seconds of processor time that a stage takes for `bytes` of the disk. `None` if
/// the stage was not measured.
pub(super) fn seconds(group: &str, name: &str, bytes: u64) -> Result<Option<f64>> {
    let folder = artifacts::target_dir()
        .join("criterion")
        .join(group)
        .join(name)
        .join("new");
    let (Some(estimates), Some(benchmark)) = (
        json(&folder.join("estimates.json"))?,
        json(&folder.join("benchmark.json"))?,
    ) else {
        return Ok(None);
    };
    let nanoseconds = estimates["median"]["point_estimate"].as_f64();
    let length = benchmark["throughput"]["Bytes"].as_f64();
    let (Some(nanoseconds), Some(length)) = (nanoseconds, length) else {
        anyhow::bail!("{}: not what criterion writes", folder.display());
    };
    Ok(Some(nanoseconds / 1e9 / length * bytes as f64))
}

fn json(path: &Path) -> Result<Option<Value>> {
    let Ok(text) = fs::read_to_string(path) else {
        return Ok(None);
    };
    let value = serde_json::from_str(&text);
    value.with_context(|| format!("reading {}", path.display()))
}

/// The table of all stages; `None` if no stage was measured.
pub(super) fn table() -> Result<Option<Table>> {
    let mut rows = Vec::new();
    for (group, name, shown) in STAGES {
        if let Some(seconds) = seconds(group, name, 1 << 30)? {
            rows.push(Row {
                name: shown.to_owned(),
                cells: vec![format!("{seconds:.3}")],
                quantities: vec![Quantity::new("cpu", "s/GiB", vec![seconds])],
            });
        }
    }
    let columns = ["stage", "CPU s/GiB"];
    Ok((!rows.is_empty()).then(|| Table {
        title: "Writing an image: each stage by itself".to_owned(),
        columns: columns.map(str::to_owned).into(),
        rows,
        notes: vec![
            "Over 128 MiB taken evenly from the same image, zeros and all: seconds for each GiB \
             of the disk inside; criterion's medians of processor time."
                .to_owned(),
        ],
    }))
}
