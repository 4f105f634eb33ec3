//! Overwrites a whole disk: first with random bytes, as often as requested, then with
//! zeros if requested.

use std::fs::File;
use std::io::{self, Read as _};
use std::time::{Duration, Instant};

use landfall_report::failure::{Failure, Result};

use crate::device::aligned_buffer::AlignedBuffer;
use crate::device::target::Target;

const CHUNK: u64 = 4 << 20;
/// Interval of the progress lines on the console.
const REPORT: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passes {
    /// Number of passes with random bytes.
    pub random: u32,
    /// Whether a pass with zeros follows.
    pub zeros: bool,
}

/// # Errors
/// If the kernel returns no random bytes, or if a sector cannot be written or flushed.
/// The rest of the disk is then not overwritten.
pub fn overwrite(target: &Target, passes: Passes) -> Result<()> {
    let total = passes.random + u32::from(passes.zeros);
    for pass in 0..total {
        let mut random = (pass < passes.random)
            .then(Random::seeded)
            .transpose()
            .map_err(|e| {
                Failure::erasure(format!(
                    "{}: cannot get random bytes: {e}",
                    target.path().display()
                ))
            })?;
        let what = format!(
            "{}: pass {} of {total} ({})",
            target.path().display(),
            pass + 1,
            if random.is_some() { "random" } else { "zeros" }
        );
        write_pass(target, &what, |bytes| {
            if let Some(random) = &mut random {
                random.fill(bytes);
            }
        })?;
        target.sync()?;
    }
    Ok(())
}

fn write_pass(target: &Target, what: &str, mut fill: impl FnMut(&mut [u8])) -> Result<()> {
    let size = target.size();
    let mut buffer = AlignedBuffer::zeroed(CHUNK.min(size) as usize);
    let started = Instant::now();
    let mut reported = started;
    let mut offset = 0;
    while offset < size {
        let length = CHUNK.min(size - offset) as usize;
        fill(&mut buffer[..length]);
        target.write_at(&buffer[..length], offset)?;
        offset += length as u64;
        if reported.elapsed() >= REPORT {
            reported = Instant::now();
            let speed = offset as f64 / started.elapsed().as_secs_f64() / f64::from(1 << 20);
            tracing::info!("{what}: {} %, {speed:.0} MiB/s", offset * 100 / size);
        }
    }
    tracing::info!("{what} done in {:.0} s", started.elapsed().as_secs_f64());
    Ok(())
}

/// xoshiro256++ (Blackman and Vigna 2019), seeded by the kernel. It is faster than
/// a disk, and no controller can compress or recognise its output.
struct Random([u64; 4]);

impl Random {
    fn seeded() -> io::Result<Self> {
        let mut seed = [0; 32];
        File::open("/dev/urandom")?.read_exact(&mut seed)?;
        let mut state = [0; 4];
        for (word, bytes) in state.iter_mut().zip(seed.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        Ok(Self(state))
    }

    fn next(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let shifted = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= shifted;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Fills every byte, because the length is a multiple of 8: a chunk is a whole
    /// number of sectors.
    fn fill(&mut self, bytes: &mut [u8]) {
        for word in bytes.as_chunks_mut::<8>().0 {
            *word = self.next().to_le_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use landfall_devices::permission::WritePermission;

    use super::*;

    fn overwritten(size: u64, passes: Passes) -> Vec<u8> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), vec![0x55; size as usize]).unwrap();
        let permission = WritePermission::by_operator();
        let target = Target::open_file(file.path(), 512, &permission).unwrap();
        overwrite(&target, passes).unwrap();
        std::fs::read(file.path()).unwrap()
    }

    #[test]
    fn nothing_of_the_old_is_left() {
        let size = CHUNK + 3 * 512;
        let old = [0x55; 8];
        let random = overwritten(
            size,
            Passes {
                random: 1,
                zeros: false,
            },
        );
        assert!(random.as_chunks::<8>().0.iter().all(|word| *word != old));
        let ones: u32 = random.iter().map(|byte| byte.count_ones()).sum();
        let half = f64::from(ones) / (size as f64 * 8.0);
        assert!((0.49..0.51).contains(&half), "{half} of the bits are set");
        assert_ne!(random[..512], random[512..1024]);
        let zeros = overwritten(
            size,
            Passes {
                random: 1,
                zeros: true,
            },
        );
        assert!(zeros.iter().all(|&byte| byte == 0));
        let untouched = overwritten(
            512,
            Passes {
                random: 0,
                zeros: false,
            },
        );
        assert_eq!(untouched, [0x55; 512]);
    }
}
