//! Chooses the code that computes a digest. The choice depends on the algorithm and on
//! the processor; docs/benchmarks.md has the measured times.

use std::fmt;

use landfall_boot_params::digest::Algorithm;
use landfall_sys::sha2_avx2::Avx2;

use Algorithm::{Sha224, Sha256, Sha384, Sha512};

/// Code that computes digests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Implementation {
    /// The crates of RustCrypto. They support every algorithm, and they use the SHA
    /// instructions of x86-64 and aarch64.
    RustCrypto,
    /// The crate `ring`: OpenSSL's assembly, without the part for AVX2.
    Ring,
    /// `landfall_sys::sha2_avx2`.
    Avx2,
}

impl Implementation {
    pub const ALL: [Self; 3] = [Self::RustCrypto, Self::Ring, Self::Avx2];

    /// The fastest implementation that the processor can run.
    pub fn fastest(algorithm: Algorithm, processor: Processor) -> Self {
        match algorithm {
            // With the SHA instructions, RustCrypto is as fast as OpenSSL.
            Sha224 | Sha256 if processor.has_sha => Self::RustCrypto,
            Sha224 | Sha256 | Sha384 | Sha512 if processor.has_avx2 => Self::Avx2,
            // Without AVX2, OpenSSL uses the same assembly as ring.
            Sha256 | Sha384 | Sha512 if processor.is_x86_64 => Self::Ring,
            _ => Self::RustCrypto,
        }
    }
}

impl fmt::Display for Implementation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RustCrypto => "RustCrypto",
            Self::Ring => "ring",
            Self::Avx2 => "AVX2",
        })
    }
}

/// The instruction sets on which the choice depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Processor {
    is_x86_64: bool,
    /// The SHA instructions of x86-64, for SHA-1, SHA-224 and SHA-256.
    has_sha: bool,
    /// AVX2 and BMI2.
    has_avx2: bool,
}

impl Processor {
    /// The processor that runs this program.
    pub fn this() -> Self {
        #[cfg(target_arch = "x86_64")]
        // The crate `sha2` checks for the same instructions.
        let has_sha = std::arch::is_x86_feature_detected!("sha")
            && std::arch::is_x86_feature_detected!("sse4.1");
        #[cfg(not(target_arch = "x86_64"))]
        let has_sha = false;
        Self {
            is_x86_64: cfg!(target_arch = "x86_64"),
            has_sha,
            has_avx2: Avx2::detect().is_some(),
        }
    }

    pub fn has_sha_instructions(self) -> bool {
        self.has_sha
    }

    /// The same processor without SHA instructions, for measurements.
    #[must_use]
    pub fn without_sha_instructions(self) -> Self {
        Self {
            has_sha: false,
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Implementation::{Avx2 as OurAvx2, Ring, RustCrypto};

    #[test]
    fn the_processor_decides() {
        let processor = |is_x86_64, has_sha, has_avx2| Processor {
            is_x86_64,
            has_sha,
            has_avx2,
        };
        let all = [
            Algorithm::Md5,
            Algorithm::Sha1,
            Sha224,
            Sha256,
            Sha384,
            Sha512,
            Algorithm::Sha3_256,
        ];
        for (name, processor, expected) in [
            (
                "Ice Lake, Zen",
                processor(true, true, true),
                [
                    RustCrypto, RustCrypto, RustCrypto, RustCrypto, OurAvx2, OurAvx2, RustCrypto,
                ],
            ),
            (
                "Haswell to Cascade Lake",
                processor(true, false, true),
                [
                    RustCrypto, RustCrypto, OurAvx2, OurAvx2, OurAvx2, OurAvx2, RustCrypto,
                ],
            ),
            (
                "Ivy Bridge and older",
                processor(true, false, false),
                [
                    RustCrypto, RustCrypto, RustCrypto, Ring, Ring, Ring, RustCrypto,
                ],
            ),
            (
                "a small processor with SHA instructions, but without AVX2",
                processor(true, true, false),
                [
                    RustCrypto, RustCrypto, RustCrypto, RustCrypto, Ring, Ring, RustCrypto,
                ],
            ),
            ("aarch64", processor(false, false, false), [RustCrypto; 7]),
        ] {
            let found = all.map(|algorithm| Implementation::fastest(algorithm, processor));
            assert_eq!(found, expected, "{name}");
        }
    }
}
