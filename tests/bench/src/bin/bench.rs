//! `make bench`: measures run times and prints them as tables.

#![allow(clippy::print_stdout)]

use anyhow::Result;
use clap::{Parser, ValueEnum};
use landfall_bench::{Table, boot, image_service, image_write, ramdisk_build};

/// Measures, and prints medians.
#[derive(Parser)]
struct Arguments {
    /// Number of runs of each measurement
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    runs: u16,
    /// Print JSON, with the value of every run
    #[arg(long)]
    json: bool,
    /// Only build what the measurements need
    #[arg(long, conflicts_with = "subjects")]
    prepare: bool,
    /// What to measure; all by default
    subjects: Vec<Subject>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Subject {
    /// From the kernel's first line to the first lookup
    Boot,
    /// An image from a URL to a disk, compared with other programs
    Image,
    /// The image service compared with nginx, and customized ISOs
    Service,
    /// Ramdisks and ISOs, compared with ramdisks of dracut
    Build,
}

impl Subject {
    fn tables(self, runs: usize) -> Result<Vec<Table>> {
        match self {
            Self::Boot => Ok(vec![boot::table(runs)?]),
            Self::Image => image_write::tables(runs),
            Self::Service => image_service::tables(runs),
            Self::Build => ramdisk_build::tables(runs),
        }
    }
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if arguments.prepare {
        return image_write::prepare();
    }
    let subjects = match arguments.subjects.as_slice() {
        [] => Subject::value_variants(),
        given => given,
    };
    let mut tables = Vec::new();
    for subject in subjects {
        for table in subject.tables(arguments.runs.into())? {
            if !arguments.json {
                println!("{table}");
            }
            tables.push(table);
        }
    }
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&tables)?);
    }
    Ok(())
}
