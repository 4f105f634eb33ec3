//! Measurements, and the tables that they become.
//!
//! Each file of this folder measures one thing and returns a [`Table`]. What is
//! compared with each other is measured in turns, so that a machine which gets
//! slower in between is unfair to nobody; what is told is the median.

mod bare_init;
pub mod boot;

use std::fmt;
use std::time::Duration;

use serde::Serialize;

/// What `make bench` prints of one measurement.
#[derive(Debug, Serialize)]
pub struct Table {
    /// What was measured, in one line.
    pub title: String,
    /// What the rows are.
    pub rows: Vec<Row>,
    /// What has to be known to read it.
    pub notes: Vec<String>,
}

/// One quantity.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Its unit.
    pub unit: &'static str,
    /// One value for each run, in the order of the runs.
    pub values: Vec<f64>,
    /// The median of the values.
    pub median: f64,
}

impl Row {
    /// A quantity in seconds.
    #[must_use]
    pub fn seconds(name: &str, values: &[Duration]) -> Row {
        let values: Vec<f64> = values.iter().map(Duration::as_secs_f64).collect();
        Row {
            name: name.to_owned(),
            unit: "s",
            median: median(&values),
            values,
        }
    }
}

/// The middle value; the mean of the two in the middle where there are two.
/// Nothing has the median 0.
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
        writeln!(f, "{}\n", self.title)?;
        writeln!(f, "{:<44} {:>9} {:>9} {:>9}", "", "median", "least", "most")?;
        for Row {
            name,
            unit,
            values,
            median,
        } in &self.rows
        {
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            writeln!(
                f,
                "{name:<44} {median:>7.3} {unit} {least:>7.3} {unit} {most:>7.3} {unit}"
            )?;
        }
        for note in &self.notes {
            writeln!(f, "\n{note}")?;
        }
        Ok(())
    }
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
}
