//! Unpacks a disk image into a file of its own, and packs it again.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek as _, SeekFrom, Write};
use std::num::NonZero;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use flate2::write::GzEncoder;
use landfall_disk::device::zeros::all_zero;
use landfall_disk::image::decode::{Decoder, Packing};
use landfall_initramfs::digest_writer::DigestWriter;
use liblzma::stream::{Check, MtStreamBuilder};
use liblzma::write::XzEncoder;

use crate::report::{Report, megabytes};

/// In bytes.
const BUFFER: usize = 1 << 20;
/// In bytes: a piece of this size that is all zeros becomes a hole in the file.
const HOLE: usize = 64 << 10;
/// In bytes: the limit for the size of an unpacked image of any format.
const MOST_UNPACKED: u64 = 1 << 40;
/// The default of xz(1). Higher levels need more memory in each thread.
const XZ_LEVEL: u32 = 6;
/// A level between zstd's default, 3, and the levels that take minutes.
const ZSTD_LEVEL: i32 = 9;
/// The limit for the threads of a packer: each thread of xz needs 94 MiB of memory.
const MOST_THREADS: usize = 8;
const PROGRESS: Duration = Duration::from_secs(5);

/// Length in bytes, and SHA-256 in hexadecimal.
pub(crate) type Measured = (u64, String);

/// Detects the packing of an image; fails for lz4 and bzip2, which [`pack`] cannot write.
pub(crate) fn packing_of(image: &Path, file: &File) -> Result<Packing> {
    let mut start = Vec::new();
    let mut input = file;
    input
        .take(18)
        .read_to_end(&mut start)
        .and_then(|_| input.rewind())
        .with_context(|| format!("cannot read {}", image.display()))?;
    match Packing::by_content(&start) {
        packing @ (Packing::Lz4 | Packing::Bzip2) => bail!(
            "{}: expected an image that is plain or in gzip, xz or zstd, found {packing}",
            image.display()
        ),
        packing => Ok(packing),
    }
}

/// Unpacks the image into the empty file `into`. Zeros become holes. `most` gets the
/// first bytes of the image, at least 1 MiB or the whole image, and returns the largest
/// size that such an image may have.
pub(crate) fn unpack(
    image: &Path,
    file: &File,
    into: &mut File,
    most: impl Fn(&[u8]) -> Result<u64>,
    report: &Report,
) -> Result<()> {
    let reading = || format!("cannot read {}", image.display());
    let len = file.metadata().with_context(reading)?.len();
    let input = Progress::new(file, len, "reading the image", report);
    let input = BufReader::with_capacity(BUFFER, input);
    let (mut decoder, _) = Decoder::new(input).with_context(reading)?;
    let mut buffer = vec![0; BUFFER];
    let mut size = 0;
    let mut limit = None;
    loop {
        let filled = decoder.fill(&mut buffer).with_context(reading)?;
        if filled == 0 {
            break;
        }
        size += filled as u64;
        let limit = match limit {
            Some(limit) => limit,
            None => {
                let found = most(&buffer[..filled]).with_context(|| image.display().to_string())?;
                *limit.insert(found.min(MOST_UNPACKED))
            }
        };
        ensure!(
            size <= limit,
            "{}: expected an image of at most {limit} bytes, found more",
            image.display()
        );
        write_sparse(into, &buffer[..filled]).context("cannot write the unpacked image")?;
    }
    into.set_len(size)
        .context("cannot write the unpacked image")
}

fn write_sparse(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    for piece in bytes.chunks(HOLE) {
        if all_zero(piece) {
            file.seek_relative(piece.len() as i64)?;
        } else {
            file.write_all(piece)?;
        }
    }
    Ok(())
}

/// The length and the digest of a file.
pub(crate) fn measure(file: &mut File, report: &Report) -> io::Result<Measured> {
    copy(file, io::sink(), "computing the digest", report).map(|(measured, _)| measured)
}

/// Packs a file. Returns the length and digest of the file, and of its packed form. The
/// same file always gives the same packed bytes.
pub(crate) fn pack(
    file: &mut File,
    packing: Packing,
    output: &mut File,
    report: &Report,
) -> io::Result<(Measured, Measured)> {
    let size = file.metadata()?.len();
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let threads = u32::try_from(cores.min(MOST_THREADS)).unwrap_or(1);
    let out = DigestWriter::new(BufWriter::with_capacity(BUFFER, output));
    let what = "packing the image";
    let (unpacked, out) = match packing {
        Packing::Gzip => {
            let encoder = GzEncoder::new(out, flate2::Compression::default());
            let (measured, encoder) = copy(file, encoder, what, report)?;
            (measured, encoder.finish()?)
        }
        Packing::Xz => {
            let mut builder = MtStreamBuilder::new();
            // The output does not depend on the number of threads: xz splits its
            // input by size.
            let builder = builder
                .threads(threads)
                .preset(XZ_LEVEL)
                .check(Check::Crc64);
            let encoder = XzEncoder::new_stream(out, builder.encoder()?);
            let (measured, encoder) = copy(file, encoder, what, report)?;
            (measured, encoder.finish()?)
        }
        Packing::Zstd => {
            let mut encoder = zstd::Encoder::new(out, ZSTD_LEVEL)?;
            encoder.multithread(threads)?;
            encoder.include_checksum(true)?;
            encoder.set_pledged_src_size(Some(size))?;
            let (measured, encoder) = copy(file, encoder, what, report)?;
            (measured, encoder.finish()?)
        }
        Packing::Raw | Packing::Lz4 | Packing::Bzip2 => copy(file, out, what, report)?,
    };
    let mut out = out;
    out.flush()?;
    Ok((unpacked, out.finish()))
}

/// Copies a whole file to `out`. Returns the length and digest of the file, and `out`.
fn copy<W: Write>(
    file: &mut File,
    out: W,
    what: &'static str,
    report: &Report,
) -> io::Result<(Measured, W)> {
    let len = file.metadata()?.len();
    file.seek(SeekFrom::Start(0))?;
    let mut input = Progress::new(file, len, what, report);
    let mut both = Both {
        out,
        digest: DigestWriter::new(io::sink()),
    };
    let mut buffer = vec![0; BUFFER];
    loop {
        match input.read(&mut buffer) {
            Ok(0) => return Ok((both.digest.finish(), both.out)),
            Ok(filled) => both.put(&buffer[..filled])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

struct Both<W> {
    out: W,
    digest: DigestWriter<io::Sink>,
}

impl<W: Write> Both<W> {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.digest.write_all(bytes)?;
        self.out.write_all(bytes)
    }
}

/// A reader that reports every [`PROGRESS`] how much of the input it has read.
struct Progress<'a, R> {
    input: R,
    len: u64,
    done: u64,
    what: &'static str,
    last: Instant,
    report: &'a Report,
}

impl<'a, R> Progress<'a, R> {
    fn new(input: R, len: u64, what: &'static str, report: &'a Report) -> Self {
        Self {
            input,
            len,
            done: 0,
            what,
            last: Instant::now(),
            report,
        }
    }
}

impl<R: Read> Read for Progress<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let filled = self.input.read(buffer)?;
        self.done += filled as u64;
        if self.last.elapsed() >= PROGRESS {
            self.last = Instant::now();
            let percent = self.done.saturating_mul(100) / self.len.max(1);
            let (what, len) = (self.what, megabytes(self.len));
            self.report.stage(&format!("{what}: {percent} % of {len}"));
        }
        Ok(filled)
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use landfall_initramfs::digest_writer::sha256;

    use super::*;

    #[test]
    fn the_real_programs_unpack_packed_files() {
        let directory = tempfile::tempdir().unwrap();
        let report = Report::new(false);
        let content: Vec<u8> = (0..3_000_000u32)
            .map(|n| if n < 900_000 { (n / 7 % 251) as u8 } else { 0 })
            .collect();
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("disk"), &content).unwrap();
        for (packing, program) in [
            (Packing::Gzip, "gzip"),
            (Packing::Xz, "xz"),
            (Packing::Zstd, "zstd"),
        ] {
            let mut file = File::open(path("disk")).unwrap();
            let mut output = File::create(path("packed")).unwrap();
            let (unpacked, packed) = pack(&mut file, packing, &mut output, &report).unwrap();
            assert_eq!(unpacked, (content.len() as u64, sha256(&content)));
            let bytes = std::fs::read(path("packed")).unwrap();
            assert_eq!(packed, (bytes.len() as u64, sha256(&bytes)));
            let input = File::open(path("packed")).unwrap();
            let decompressed = Command::new(program)
                .arg("-dc")
                .stdin(input)
                .output()
                .unwrap();
            assert!(decompressed.stdout == content, "{program}");
            let file = File::open(path("packed")).unwrap();
            assert_eq!(packing_of(&path("packed"), &file).unwrap(), packing);
            let mut back = File::create_new(path(program)).unwrap();
            unpack(&path("packed"), &file, &mut back, |_| Ok(u64::MAX), &report).unwrap();
            assert!(
                std::fs::read(path(program)).unwrap() == content,
                "{program}"
            );
        }
    }

    #[test]
    fn more_than_the_header_says_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("image");
        std::fs::write(&path, vec![7; 3 * BUFFER]).unwrap();
        let file = File::open(&path).unwrap();
        let report = Report::new(false);
        let most = |head: &[u8]| {
            assert_eq!(head.len(), BUFFER);
            Ok(2 * BUFFER as u64)
        };
        let mut into = tempfile::tempfile().unwrap();
        let error = unpack(&path, &file, &mut into, most, &report).unwrap_err();
        assert!(
            error.to_string().contains("at most 2097152 bytes"),
            "{error}"
        );
        assert_eq!(into.metadata().unwrap().len(), 2 * BUFFER as u64);
    }

    #[test]
    fn a_truncated_or_unsupported_file_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("image");
        let report = Report::new(false);
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 100_000]).unwrap();
        let mut output = File::create(&path).unwrap();
        pack(&mut file, Packing::Xz, &mut output, &report).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 5]).unwrap();
        let file = File::open(&path).unwrap();
        let into = &mut tempfile::tempfile().unwrap();
        let result = unpack(&path, &file, into, |_| Ok(u64::MAX), &report);
        assert!(format!("{:#}", result.unwrap_err()).contains("cannot read"));
        std::fs::write(&path, b"BZh91AY&SY").unwrap();
        let file = File::open(&path).unwrap();
        let error = packing_of(&path, &file).unwrap_err().to_string();
        assert!(error.contains("found bzip2"), "{error}");
    }
}
