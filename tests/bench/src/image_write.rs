//! Measures writing an image from a URL to a disk: whole runs of the agent and of
//! comparable programs, in turns.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::file_server::FileServer;
use super::goals;
use super::image::{Form, Images, VIRTUAL_SIZE};
use super::image_results::{BREAKS, Case, Measured, Results, memory_mib};
use super::measured::{self, Usage};
use super::ram_disk::RamDisk;
use super::writers::{Bench, Target, Writer};
use super::{Quantity, Row, Table, machine, stages};

#[rustfmt::skip]
const CASES: [Case; 24] = {
    use Form::{Gz, Qcow2, Qcow2Zlib, Qcow2Zstd, Raw, Xz, XzBlocks, Zst};
    use Target::{Disk, File};
    use Writer::{CoreosInstaller, Landfall, IronicAgent, ZstdDd};
    [
        (Landfall, Raw, Disk), (IronicAgent, Raw, Disk), (CoreosInstaller, Raw, Disk),
        (Landfall, Gz, Disk), (CoreosInstaller, Gz, Disk),
        (Landfall, Zst, Disk), (CoreosInstaller, Zst, Disk), (ZstdDd, Zst, Disk),
        (Landfall, Xz, Disk), (CoreosInstaller, Xz, Disk),
        (Landfall, XzBlocks, Disk), (CoreosInstaller, XzBlocks, Disk),
        (Landfall, Qcow2, Disk), (IronicAgent, Qcow2, Disk),
        (Landfall, Qcow2Zlib, Disk), (IronicAgent, Qcow2Zlib, Disk),
        (Landfall, Qcow2Zstd, Disk), (IronicAgent, Qcow2Zstd, Disk),
        (Landfall, Raw, File), (IronicAgent, Raw, File),
        (Landfall, Zst, File), (ZstdDd, Zst, File),
        (Landfall, Qcow2, File), (IronicAgent, Qcow2, File),
    ]
};

/// Makes the images that are missing.
///
/// # Errors
/// If an image cannot be made.
pub fn prepare() -> Result<()> {
    Images::make_missing().map(drop)
}

/// Measures every case `runs` times, in turns.
///
/// # Errors
/// If a program is missing, a run fails, or the disk does not contain the image
/// afterwards.
pub fn tables(runs: usize) -> Result<Vec<Table>> {
    let images = Images::ready()?;
    // Measure in a separate thread, so that the private mount namespace ends with the
    // thread.
    let results = thread::scope(|scope| {
        let worker = scope.spawn(|| measure(images, runs));
        worker
            .join()
            .map_err(|_| anyhow::anyhow!("the bench panicked"))?
    })?;
    let mut tables = vec![goals::table(&results, runs), table(&results, runs)?];
    tables.extend(stages::table()?);
    Ok(tables)
}

fn measure(images: Images, runs: usize) -> Result<Results> {
    let disk = RamDisk::new()?;
    let server = FileServer::start(images.folder())?;
    let bench = Bench {
        images,
        server,
        disk,
    };
    let mut measured: Vec<_> = CASES
        .map(|case| Measured {
            case,
            runs: Vec::new(),
        })
        .into();
    for round in 0..runs {
        for one in &mut measured {
            let (writer, form, target) = one.case;
            let usage = bench.run(writer, form, target)?;
            if round == 0 {
                let name = writer.name(form);
                let compared = bench.disk.compare(&bench.images);
                compared.with_context(|| format!("{name} with {}", form.name()))?;
            }
            eprintln!(
                "bench: {} of {runs}: {} by {} onto a {}: {:.2} s of CPU, {:.2} s",
                round + 1,
                form.name(),
                writer.name(form),
                target.name(),
                usage.cpu.as_secs_f64(),
                usage.wall.as_secs_f64(),
            );
            one.runs.push(usage);
        }
    }
    Ok(Results {
        measured,
        data_bytes: bench.images.data_bytes as f64,
        again: fetched_again(&bench)?,
        processors: thread::available_parallelism()?.get() as f64,
        digest_alone: stages::seconds("digest", "sha256", VIRTUAL_SIZE)?,
    })
}

/// Writes an image while connections break. Returns the bytes that the agent fetched
/// twice for each broken connection, on average.
fn fetched_again(bench: &Bench) -> Result<f64> {
    bench.disk.empty()?;
    let length = bench.images.path(Form::Zst).metadata()?.len();
    bench.server.take_sent();
    bench
        .server
        .break_connections(BREAKS, length / (BREAKS + 1));
    let url = bench.server.url(Form::Zst.file_name());
    let device = bench.disk.device();
    measured::run(&mut bench.landfall(&url, Form::Zst, device)?)?;
    ensure!(bench.server.breaks_left() == 0, "not all connections broke");
    bench.disk.compare(&bench.images)?;
    let again = bench.server.take_sent().saturating_sub(length);
    Ok(again as f64 / BREAKS as f64)
}

fn table(results: &Results, runs: usize) -> Result<Table> {
    let gib = (VIRTUAL_SIZE >> 30) as f64;
    let rows = results.measured.iter().map(|measured| {
        let (writer, form, target) = measured.case;
        let last = measured.runs.last().and_then(Usage::slowest_thread);
        // For a file in memory the kernel counts no written bytes.
        let written = match target {
            Target::Disk => format!("{:.3}", measured.written() / results.data_bytes),
            Target::File => String::new(),
        };
        Row {
            name: form.name().to_owned(),
            cells: vec![
                writer.name(form).to_owned(),
                target.name().to_owned(),
                format!("{:.2}", measured.cpu()),
                format!("{:.2}", measured.cpu() / gib),
                format!("{:.2}", measured.cpu_with_kernel()),
                format!("{:.2}", measured.wall()),
                format!("{:.1}", measured.memory()),
                written,
                (writer == Writer::Landfall)
                    .then(|| last.map(|(name, time)| format!("{name} {:.2}", time.as_secs_f64())))
                    .flatten()
                    .unwrap_or_default(),
            ],
            quantities: vec![
                Quantity::seconds("cpu", &column(measured, |run| run.cpu)),
                Quantity::seconds("kernel", &column(measured, |run| run.kernel)),
                Quantity::seconds("wall", &column(measured, |run| run.wall)),
                Quantity::new("peak memory", "MiB", measured.of(memory_mib)),
                Quantity::new("written", "B", measured.of(|run| run.written as f64)),
            ],
        }
    });
    let columns = [
        "image",
        "program",
        "onto",
        "CPU s",
        "CPU s/GiB",
        "CPU s with the kernel's threads",
        "wall s",
        "peak MiB",
        "written",
        "busiest thread, s",
    ];
    Ok(Table {
        title: format!("Writing an image: every program, medians of {runs} runs in turns"),
        columns: columns.map(str::to_owned).into(),
        rows: rows.collect(),
        notes: vec![
            format!(
                "The image has {gib} GiB with a GPT, and {:.0} MiB of data. Each program fetches it by \
                 HTTP from a server on the loopback interface, and writes it to a loop device over a \
                 file in memory (disk), or to such a file. The columns:",
                results.data_bytes / f64::from(1 << 20)
            ),
            "* **CPU**: user and system time of the program and its children, without the server.\n\
             * **CPU with the kernel's threads**: the same, and the time of all of the kernel's threads \
             (writing back, loop device). It is meaningful only if nothing else runs on the machine.\n\
             * **Peak**: the peak resident set of all programs of a chain together, with the data that \
             they keep in memory.\n\
             * **Written**: bytes sent to the device, divided by the bytes in 64 KiB granules that are \
             not all zero."
                .to_owned(),
            "Landfall and Ironic's agent compute and compare the SHA-256; coreos-installer and zstd do \
             not."
                .to_owned(),
            machine()?,
        ],
    })
}

fn column(measured: &Measured, value: fn(&Usage) -> Duration) -> Vec<Duration> {
    measured.runs.iter().map(value).collect()
}
