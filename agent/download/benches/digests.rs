//! Measures the agent's digests and OpenSSL's alternately, on both kinds of processor:
//! with and without SHA instructions (`make bench`).
//!
//! A processor with SHA instructions can stand in for a processor without them. OpenSSL
//! ignores these instructions if OPENSSL_ia32cap is set accordingly, and our code for
//! AVX2 never uses them. ring and RustCrypto have no option to ignore them.

#![allow(clippy::print_stdout, reason = "prints a table")]

use std::error::Error;
use std::hint::black_box;
use std::process::Command;
use std::time::Duration;

use landfall_boot_params::digest::Algorithm;
use landfall_download::digest::Hasher;
use landfall_download::digest::implementation::{Implementation, Processor};
use nix::time::ClockId;

type Any<T> = Result<T, Box<dyn Error>>;

/// The size of the chunks, in bytes, that the download passes to the digest on a fast
/// link.
const CHUNK: usize = 256 << 10;
/// In seconds of processor time, for each measurement.
const SPAN: u64 = 1;
/// Measurements of each program.
const RUNS: usize = 5;
/// The largest acceptable ratio of the chosen implementation's time to OpenSSL's time.
const TARGET: f64 = 1.05;
/// The SHA instructions are bit 29 of the second word (OPENSSL_ia32cap(3)).
const WITHOUT_SHA: &str = ":~0x20000000";

/// OpenSSL's names of the algorithms, and whether x86-64 has instructions for them. No
/// server has the instructions for SHA-512 yet.
const ALGORITHMS: [(&str, bool); 4] = [
    ("sha256", true),
    ("sha512", false),
    ("sha1", true),
    ("md5", false),
];

enum Program {
    OpenSsl { hides_sha: bool },
    Ours(Implementation),
}

/// One row of the table.
struct Case {
    algorithm: &'static str,
    /// What the column on SHA instructions says.
    instructions: &'static str,
    program: Program,
    /// Whether the agent chooses `program` on a processor with these `instructions`.
    is_chosen: bool,
    /// Bytes per second of processor time, of each run.
    speeds: Vec<f64>,
}

fn by_name(name: &str) -> Any<Algorithm> {
    Algorithm::by_name(name).ok_or_else(|| format!("unknown algorithm {name}").into())
}

/// All cases that this processor can run. For each algorithm and kind of processor,
/// OpenSSL comes first.
fn cases() -> Any<Vec<Case>> {
    let this = Processor::this();
    let has_sha = this.has_sha_instructions();
    let mut cases = Vec::new();
    for (name, has_instructions) in ALGORITHMS {
        let kinds = match (has_instructions, has_sha) {
            (true, true) => vec![("with", this), ("without", this.without_sha_instructions())],
            (true, false) => vec![("without", this)],
            (false, _) => vec![("none exist", this)],
        };
        for (instructions, processor) in kinds {
            let hides_sha = processor != this;
            let mut add = |program, is_chosen| {
                cases.push(Case {
                    algorithm: name,
                    instructions,
                    program,
                    is_chosen,
                    speeds: Vec::new(),
                });
            };
            add(Program::OpenSsl { hides_sha }, false);
            let algorithm = by_name(name)?;
            let chosen = Implementation::fastest(algorithm, processor);
            for code in Implementation::ALL {
                // RustCrypto and ring would use the SHA instructions in a row that is for
                // a processor without them.
                let is_true = !hides_sha || code == Implementation::Avx2;
                if is_true && Hasher::by(code, algorithm).is_some() {
                    add(Program::Ours(code), code == chosen);
                }
            }
        }
    }
    Ok(cases)
}

fn processor_time() -> Any<Duration> {
    Ok(ClockId::CLOCK_PROCESS_CPUTIME_ID.now()?.into())
}

/// Hashes chunk after chunk, as `openssl speed` does.
fn ours(code: Implementation, name: &str, chunk: &[u8]) -> Any<f64> {
    let algorithm = by_name(name)?;
    let start = processor_time()?;
    let mut bytes = 0;
    loop {
        let mut hasher = Hasher::by(code, algorithm).ok_or("cannot run here")?;
        hasher.update(black_box(chunk));
        black_box(hasher.finish());
        bytes += chunk.len();
        let spent = processor_time()? - start;
        if spent >= Duration::from_secs(SPAN) {
            return Ok(bytes as f64 / spent.as_secs_f64());
        }
    }
}

/// Without `-elapsed`, `openssl speed` counts processor time, as [`ours`] does.
fn open_ssl(name: &str, hides_sha: bool) -> Any<f64> {
    let mut command = Command::new("openssl");
    command.args(["speed", "-mr", "-evp", name]);
    command.args(["-seconds", &SPAN.to_string()]);
    command.args(["-bytes", &CHUNK.to_string()]);
    if hides_sha {
        command.env("OPENSSL_ia32cap", WITHOUT_SHA);
    }
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    // +F:25:sha256:354054861.86
    let line = text.lines().find(|line| line.starts_with("+F:"));
    let speed = line.and_then(|line| line.rsplit(':').next()?.parse().ok());
    speed.ok_or_else(|| {
        let faults = String::from_utf8_lossy(&output.stderr);
        format!("openssl speed: expected a line +F:...:SPEED, found {text:?} {faults:?}").into()
    })
}

fn median(speeds: &[f64]) -> f64 {
    let mut sorted = speeds.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

fn print(cases: &[Case]) {
    println!("## Digests on both kinds of processor, medians of {RUNS} runs in turns\n");
    println!(
        "| digest | SHA instructions | code | MiB/s | time by OpenSSL's | target ≤ {TARGET} |"
    );
    println!("|---|---|---|---|---|---|");
    let mut of_open_ssl = 0.0;
    for case in cases {
        let speed = median(&case.speeds);
        let (code, verdict) = match (&case.program, case.is_chosen) {
            (Program::OpenSsl { .. }, _) => {
                of_open_ssl = speed;
                ("OpenSSL".to_owned(), "")
            }
            (Program::Ours(code), false) => (code.to_string(), ""),
            (Program::Ours(code), true) if of_open_ssl / speed <= TARGET => {
                (format!("{code}, chosen"), "met")
            }
            (Program::Ours(code), true) => (format!("{code}, chosen"), "**not met**"),
        };
        println!(
            "| {} | {} | {code} | {:.0} | {:.2} | {verdict} |",
            case.algorithm,
            case.instructions,
            speed / f64::from(1 << 20),
            of_open_ssl / speed,
        );
    }
    println!();
}

fn main() -> Any<()> {
    let chunk = vec![0x5a; CHUNK];
    let mut cases = cases()?;
    for _ in 0..RUNS {
        for case in &mut cases {
            case.speeds.push(match case.program {
                Program::OpenSsl { hides_sha } => open_ssl(case.algorithm, hides_sha)?,
                Program::Ours(code) => ours(code, case.algorithm, &chunk)?,
            });
        }
    }
    print(&cases);
    Ok(())
}
