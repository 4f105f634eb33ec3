//! `make bench`: what takes how long, as tables.

use anyhow::Result;
use clap::{Parser, ValueEnum};
use landfall_tests::bench::{Table, boot};

/// Measures, and prints medians.
#[derive(Parser)]
struct Arguments {
    /// How many times everything is measured
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    runs: u16,
    /// Print JSON, with the value of every run
    #[arg(long)]
    json: bool,
    /// What to measure; all by default
    subjects: Vec<Subject>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Subject {
    /// From the kernel's first line to the first lookup
    Boot,
}

impl Subject {
    fn table(self, runs: usize) -> Result<Table> {
        match self {
            Self::Boot => boot::table(runs),
        }
    }
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let subjects = match arguments.subjects.as_slice() {
        [] => Subject::value_variants(),
        given => given,
    };
    let mut tables = Vec::new();
    for subject in subjects {
        let table = subject.table(arguments.runs.into())?;
        if !arguments.json {
            println!("{table}");
        }
        tables.push(table);
    }
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&tables)?);
    }
    Ok(())
}
