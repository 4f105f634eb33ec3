//! Runs `make nm-oracle`: NetworkManager's generator for the initramfs and
//! Landfall read random kernel command lines. If the two differ on a line, the
//! program shortens the line as far as possible and prints it. Lines that
//! shrink to the same text are printed once.

#![allow(clippy::print_stdout)]

mod compare;
mod departures;
mod generator;
mod keyfile;
mod random_line;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use anyhow::{Context as _, Result};
use clap::Parser;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use compare::{Comparison, compare};
use departures::Version;
use generator::Generator;

/// Compares the network plan of random kernel command lines with what
/// NetworkManager's generator makes of them.
#[derive(Debug, Parser)]
struct Arguments {
    /// nm-initrd-generator, out of Debian's package network-manager
    #[arg(long, value_name = "PROGRAM")]
    generator: PathBuf,
    /// Its version: the one of the package
    #[arg(long, value_name = "VERSION")]
    version: Version,
    /// An empty directory in place of /sys
    #[arg(long, value_name = "DIR")]
    sysfs: PathBuf,
    /// The same seed gives the same lines
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many lines to compare
    #[arg(long, default_value_t = 10_000)]
    lines: u64,
    /// Compare this line only
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["seed", "lines"])]
    line: Option<String>,
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let generator = Generator {
        program: arguments.generator.clone(),
        version: arguments.version,
        sysfs: arguments.sysfs.clone(),
    };
    let tally = Mutex::new(Tally::default());
    match &arguments.line {
        Some(text) => {
            let line: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
            let comparison = compare(&line, &generator)?;
            add(&tally, 0, &line, comparison);
        }
        None => compare_random(&arguments, &generator, &tally)?,
    }
    let tally = tally.into_inner().unwrap_or_default();
    tally.print();
    Ok(if tally.different.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

#[derive(Debug, Default)]
struct Tally {
    lines: u64,
    not_comparable: u64,
    /// How many arguments each rule removed.
    departures: BTreeMap<&'static str, u64>,
    /// The shortest line for each difference, with the number of the line that it
    /// was shortened from.
    different: BTreeMap<String, (u64, Vec<String>)>,
}

impl Tally {
    fn print(&self) {
        for (line, (index, differences)) in &self.different {
            println!("{line}        (line {index})");
            for difference in differences {
                println!("    {difference}");
            }
        }
        println!(
            "{} lines, {} of them not comparable, {} differences",
            self.lines,
            self.not_comparable,
            self.different.len()
        );
        for (reason, count) in &self.departures {
            println!("{count:6} arguments left out: {reason}");
        }
    }
}

fn add(tally: &Mutex<Tally>, index: u64, line: &[String], comparison: Comparison) {
    let Ok(mut tally) = tally.lock() else { return };
    tally.lines += 1;
    match comparison {
        Comparison::Equal(reasons) => {
            for reason in reasons {
                *tally.departures.entry(reason).or_default() += 1;
            }
        }
        Comparison::NotComparable => tally.not_comparable += 1,
        Comparison::Different(differences) => {
            let different = &mut tally.different;
            different
                .entry(line.join(" "))
                .or_insert((index, differences));
        }
    }
}

fn compare_random(
    arguments: &Arguments,
    generator: &Generator,
    tally: &Mutex<Tally>,
) -> Result<()> {
    let next = AtomicU64::new(0);
    let work = || -> Result<()> {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= arguments.lines {
                return Ok(());
            }
            let (line, comparison) = smallest(arguments.seed, index, generator)
                .with_context(|| format!("line {index} of seed {}", arguments.seed))?;
            add(tally, index, &line, comparison);
        }
    };
    thread::scope(|scope| {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        let results = threads.into_iter().map(|thread| {
            let result = thread.join();
            result.map_err(|_| anyhow::anyhow!("a thread panicked"))?
        });
        results.collect()
    })
}

/// Generates line number `index`. If the two sides differ, shrinks the line as long
/// as they still differ.
fn smallest(seed: u64, index: u64, generator: &Generator) -> Result<(Vec<String>, Comparison)> {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8..16].copy_from_slice(&index.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let mut tree = random_line::line()
        .new_tree(&mut runner)
        .map_err(|reason| anyhow::anyhow!("{reason}"))?;
    let mut line = tree.current();
    let mut comparison = compare(&line, generator)?;
    if !matches!(comparison, Comparison::Different(_)) {
        return Ok((line, comparison));
    }
    let mut continues = tree.simplify();
    while continues {
        let simpler = tree.current();
        let found = compare(&simpler, generator)?;
        continues = if matches!(found, Comparison::Different(_)) {
            (line, comparison) = (simpler, found);
            tree.simplify()
        } else {
            tree.complicate()
        };
    }
    Ok((line, comparison))
}
