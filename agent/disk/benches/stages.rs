//! Measures the processor time of each stage of writing an image separately, so that
//! the time of a whole run (`make bench`) can be explained.
//!
//! The input is a sample of the image that the whole runs write: one MiB in sixteen
//! of `out/bench/image.raw`, which `make bench` creates.

use std::fs::File;
use std::hint::black_box;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use criterion::{BenchmarkGroup, Criterion, Throughput};
use landfall_boot_params::digest::Algorithm;
use landfall_devices::permission::WritePermission;
use landfall_disk::device::aligned_buffer::AlignedBuffer;
use landfall_disk::device::target::Target;
use landfall_disk::image::decode::Decoder;
use landfall_disk::image::pipeline::UNIT;
use landfall_disk::image::sparse_write::{self, SparseWriter};
use landfall_download::digest::Hasher;
use nix::time::ClockId;

const MIB: usize = 1 << 20;
/// The sample has one MiB of the image out of this many MiB.
const STRIDE: u64 = 16;

type Any<T> = Result<T, Box<dyn std::error::Error>>;

/// Processor time of this process, which excludes the time that other programs use.
struct ProcessorTime;

fn processor_time() -> Duration {
    // Linux always has this clock.
    ClockId::CLOCK_PROCESS_CPUTIME_ID
        .now()
        .map_or(Duration::ZERO, Duration::from)
}

impl Measurement for ProcessorTime {
    type Intermediate = Duration;
    type Value = Duration;

    fn start(&self) -> Duration {
        processor_time()
    }

    fn end(&self, start: Duration) -> Duration {
        processor_time() - start
    }

    fn add(&self, one: &Duration, other: &Duration) -> Duration {
        *one + *other
    }

    fn zero(&self) -> Duration {
        Duration::ZERO
    }

    fn to_f64(&self, value: &Duration) -> f64 {
        value.as_nanos() as f64
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        WallTime.formatter()
    }
}

/// The size of the chunks, in bytes, that the download passes to the digest on a
/// fast link.
const CHUNK: usize = 256 << 10;

/// The digest of these bytes, or `None` if no algorithm has this name.
fn digest(name: &str, bytes: &[u8]) -> Option<String> {
    let mut hasher = Hasher::new(Algorithm::by_name(name)?);
    for chunk in bytes.chunks(CHUNK) {
        hasher.update(chunk);
    }
    Some(hasher.finish().hex())
}

/// Unpacks an image, one unit at a time into one buffer. Returns the unpacked size
/// in bytes.
fn unpack(packed: &[u8]) -> io::Result<u64> {
    let (mut decoder, _) = Decoder::new(packed)?;
    let mut buffer = AlignedBuffer::zeroed(UNIT);
    let mut unpacked = 0;
    loop {
        let filled = decoder.fill(&mut buffer)?;
        unpacked += filled as u64;
        if filled < UNIT {
            return Ok(unpacked);
        }
    }
}

/// The number of contiguous runs of bytes that have to be written.
fn data_runs(bytes: &[u8]) -> usize {
    let units = bytes.chunks(UNIT);
    units.map(|unit| sparse_write::data_runs(unit).len()).sum()
}

/// An image in buffers of the size that the decoder fills.
struct Units(Vec<AlignedBuffer>);

impl Units {
    fn new(bytes: &[u8]) -> Self {
        let padded = |unit| AlignedBuffer::padded(unit, UNIT);
        Self(bytes.chunks(UNIT).map(padded).collect())
    }

    /// Writes the image to a file that stands in for a disk. Returns the number of
    /// bytes that had to be written.
    fn write(&self, file: &Path) -> io::Result<u64> {
        self.place(file).map_err(io::Error::other)
    }

    fn place(&self, file: &Path) -> landfall_report::failure::Result<u64> {
        let target = Target::open_file(file, 512, &WritePermission::by_operator())?;
        let end = (self.0.len() * UNIT) as u64;
        let mut writer = SparseWriter::new(&target, 0..end);
        for (index, unit) in self.0.iter().enumerate() {
            writer.write(unit, (index * UNIT) as u64)?;
        }
        writer.finish(end)?;
        Ok(writer.written().data)
    }
}

fn sample() -> Any<Vec<u8>> {
    let out = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../out/bench");
    let path = out.join("image.raw");
    let image = File::open(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut sample = Vec::new();
    let mut piece = vec![0; MIB];
    for at in (0..image.metadata()?.len()).step_by(STRIDE as usize * MIB) {
        image.read_exact_at(&mut piece, at)?;
        sample.extend_from_slice(&piece);
    }
    Ok(sample)
}

fn gzip(bytes: &[u8]) -> Any<Vec<u8>> {
    let level = flate2::Compression::default();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

fn xz(bytes: &[u8]) -> Any<Vec<u8>> {
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 0);
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

fn decoders(group: &mut BenchmarkGroup<ProcessorTime>, sample: &[u8]) -> Any<()> {
    for (name, packed) in [
        ("gzip", gzip(sample)?),
        ("zstd", zstd::bulk::compress(sample, 9)?),
        ("xz", xz(sample)?),
    ] {
        if unpack(&packed)? != sample.len() as u64 {
            return Err(format!("{name} does not unpack").into());
        }
        group.bench_function(name, |bencher| bencher.iter(|| unpack(black_box(&packed))));
    }
    Ok(())
}

fn main() -> Any<()> {
    let sample = sample()?;
    let length = sample.len() as u64;
    let mut criterion = Criterion::default()
        .with_measurement(ProcessorTime)
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .without_plots()
        .configure_from_args();

    let mut group = criterion.benchmark_group("digest");
    group.throughput(Throughput::Bytes(length));
    for name in ["md5", "sha256", "sha512", "sha3_256"] {
        group.bench_function(name, |bencher| {
            bencher.iter(|| digest(name, black_box(&sample)));
        });
    }
    group.finish();

    let mut group = criterion.benchmark_group("decode");
    group.throughput(Throughput::Bytes(length));
    decoders(&mut group, &sample)?;
    group.finish();

    let mut group = criterion.benchmark_group("write");
    group.throughput(Throughput::Bytes(length));
    group.bench_function("zero-test", |bencher| {
        bencher.iter(|| data_runs(black_box(&sample)));
    });
    // The file is in memory, as the disk of the whole runs is.
    let disk = PathBuf::from("/dev/shm").join(format!("landfall-bench-{}", std::process::id()));
    File::create(&disk)?.set_len(length)?;
    let units = Units::new(&sample);
    group.bench_function("sparse", |bencher| bencher.iter(|| units.write(&disk)));
    std::fs::remove_file(disk)?;
    group.finish();

    criterion.final_summary();
    Ok(())
}
