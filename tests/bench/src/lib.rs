//! Measurements and their result tables.
//!
//! `boot`, `image_write`, `image_service` and `ramdisk_build` measure one subject each and
//! return [`Table`]s; the other files are their tools. Programs that are compared run in
//! turns, so that a machine that becomes slower affects all of them. The tables show
//! medians.

#![allow(clippy::print_stderr)]

mod bare_init;
pub mod boot;
mod builder;
mod dracut;
mod file_server;
mod goals;
mod image;
mod image_results;
pub mod image_service;
pub mod image_write;
mod iso_server;
mod many_clients;
mod measured;
mod ram_disk;
pub mod ramdisk_build;
mod ramdisk_tables;
mod stages;
mod writers;

use std::process::Command;
use std::time::Duration;
use std::{fmt, fs, thread};

use anyhow::Result;
use serde::Serialize;

/// A result of `make bench`. Printed as Markdown for docs/benchmarks.md.
#[derive(Debug, Serialize)]
pub struct Table {
    /// What was measured, in one line.
    pub title: String,
    /// The column headings. The first heading is for the rows' names.
    pub columns: Vec<String>,
    pub rows: Vec<Row>,
    /// Paragraphs under the table that explain how to read it.
    pub notes: Vec<String>,
}

#[derive(Debug, Serialize)]
pub struct Row {
    pub name: String,
    /// The values in the columns after the name.
    pub cells: Vec<String>,
    /// The measurements behind the cells.
    pub quantities: Vec<Quantity>,
}

/// The values of one quantity in all runs.
#[derive(Debug, Serialize)]
pub struct Quantity {
    pub name: &'static str,
    pub unit: &'static str,
    /// One value for each run, in the order of the runs.
    pub values: Vec<f64>,
    pub median: f64,
}

impl Quantity {
    #[must_use]
    pub fn new(name: &'static str, unit: &'static str, values: Vec<f64>) -> Self {
        Self {
            name,
            unit,
            median: median(&values),
            values,
        }
    }

    #[must_use]
    pub fn seconds(name: &'static str, values: &[Duration]) -> Self {
        let values = values.iter().map(Duration::as_secs_f64).collect();
        Self::new(name, "s", values)
    }
}

impl Row {
    /// A row with the median, least and greatest of these times.
    #[must_use]
    pub fn seconds(name: &str, values: &[Duration]) -> Row {
        let quantity = Quantity::seconds("time", values);
        let least = quantity
            .values
            .iter()
            .copied()
            .fold(f64::INFINITY, f64::min);
        let most = quantity.values.iter().copied().fold(0.0, f64::max);
        Row {
            name: name.to_owned(),
            cells: [quantity.median, least, most]
                .map(|seconds| format!("{seconds:.2}"))
                .into(),
            quantities: vec![quantity],
        }
    }
}

/// The middle value, or the mean of the two middle values. The median of no values
/// is 0.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match (sorted.get(half), sorted.len() % 2) {
        (None, _) => 0.0,
        (Some(middle), 1) => *middle,
        (Some(upper), _) => f64::midpoint(sorted[half - 1], *upper),
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "## {}\n", self.title)?;
        writeln!(f, "| {} |", self.columns.join(" | "))?;
        writeln!(f, "|{}", "---|".repeat(self.columns.len()))?;
        for Row { name, cells, .. } in &self.rows {
            writeln!(f, "| {name} | {} |", cells.join(" | "))?;
        }
        for note in &self.notes {
            writeln!(f, "\n{note}")?;
        }
        Ok(())
    }
}

/// Date, processors and load of the measurement.
fn machine() -> Result<String> {
    let info = fs::read_to_string("/proc/cpuinfo")?;
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name\t: "));
    let load = fs::read_to_string("/proc/loadavg")?;
    let date = Command::new("date").arg("+%F").output()?;
    Ok(format!(
        "({}, {} cores of an {}, load {} at the end.)",
        String::from_utf8_lossy(&date.stdout).trim(),
        thread::available_parallelism()?,
        model.unwrap_or("unknown processor"),
        load.split(' ').next().unwrap_or_default(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        for (values, expected) in [
            (&[3.0, 1.0, 2.0][..], 2.0),
            (&[4.0, 1.0, 2.0, 3.0], 2.5),
            (&[7.0], 7.0),
            (&[], 0.0),
        ] {
            assert_eq!(median(values).to_bits(), f64::to_bits(expected));
        }
    }

    #[test]
    fn a_table_is_markdown() {
        let spans = [3, 1, 2].map(Duration::from_secs);
        let table = Table {
            title: "Title".into(),
            columns: ["seconds", "median", "least", "most"]
                .map(str::to_owned)
                .into(),
            rows: vec![Row::seconds("all of it", &spans)],
            notes: vec!["A note.".into()],
        };
        let expected = "## Title\n\n| seconds | median | least | most |\n|---|---|---|---|\n\
                        | all of it | 2.00 | 1.00 | 3.00 |\n\nA note.\n";
        assert_eq!(table.to_string(), expected);
    }
}
