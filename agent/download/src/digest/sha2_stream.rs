//! Computes SHA-2 digests. The compression functions of `landfall_sys` accept only whole
//! blocks. So this module adds the initial values, the buffer for an incomplete block,
//! and the padding.

use std::slice;

use landfall_boot_params::digest::Algorithm;
use landfall_sys::sha2_avx2::Avx2;

/// The state of SHA-224, SHA-256, SHA-384 or SHA-512.
#[derive(Clone)]
pub(super) enum Sha2 {
    Words32(Stream<Chain<u32>, 64>),
    Words64(Stream<Chain<u64>, 128>),
}

impl Sha2 {
    /// `None` if the algorithm is not one of these.
    pub(super) fn new(processor: Avx2, algorithm: Algorithm) -> Option<Self> {
        let words32 =
            |words, length| Self::Words32(Stream::new(Chain::new(processor, words, length)));
        let words64 =
            |words, length| Self::Words64(Stream::new(Chain::new(processor, words, length)));
        Some(match algorithm {
            Algorithm::Sha224 => words32(SHA224, 28),
            Algorithm::Sha256 => words32(SHA256, 32),
            Algorithm::Sha384 => words64(SHA384, 48),
            Algorithm::Sha512 => words64(SHA512, 64),
            _ => return None,
        })
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Words32(stream) => stream.update(bytes),
            Self::Words64(stream) => stream.update(bytes),
        }
    }

    pub(super) fn finish(self) -> Box<[u8]> {
        match self {
            Self::Words32(stream) => stream.finish(),
            Self::Words64(stream) => stream.finish(),
        }
    }
}

/// The state of a hash function that accepts only whole blocks.
pub(super) trait Compress<const BLOCK: usize> {
    fn compress(&mut self, blocks: &[[u8; BLOCK]]);

    /// The digest. The last block must have contained the padding.
    fn digest(self) -> Box<[u8]>;
}

/// The state between two blocks.
#[derive(Clone)]
pub(super) struct Chain<Word> {
    processor: Avx2,
    words: [Word; 8],
    /// The length of the digest in bytes.
    length: usize,
}

impl<Word> Chain<Word> {
    fn new(processor: Avx2, words: [Word; 8], length: usize) -> Self {
        Self {
            processor,
            words,
            length,
        }
    }
}

impl Compress<64> for Chain<u32> {
    fn compress(&mut self, blocks: &[[u8; 64]]) {
        self.processor.compress256(&mut self.words, blocks);
    }

    fn digest(self) -> Box<[u8]> {
        self.words.map(u32::to_be_bytes).as_flattened()[..self.length].into()
    }
}

impl Compress<128> for Chain<u64> {
    fn compress(&mut self, blocks: &[[u8; 128]]) {
        self.processor.compress512(&mut self.words, blocks);
    }

    fn digest(self) -> Box<[u8]> {
        self.words.map(u64::to_be_bytes).as_flattened()[..self.length].into()
    }
}

/// Divides bytes into blocks.
#[derive(Clone)]
pub(super) struct Stream<State, const BLOCK: usize> {
    state: State,
    /// The first bytes of a block that is not complete yet.
    pending: [u8; BLOCK],
    /// The number of pending bytes: fewer than a block.
    filled: usize,
    /// The number of bytes so far.
    bytes: u64,
}

impl<State: Compress<BLOCK>, const BLOCK: usize> Stream<State, BLOCK> {
    /// The number of bytes of the last block that contain the length: 8 or 16.
    const LENGTH_FIELD: usize = BLOCK / 8;

    fn new(state: State) -> Self {
        Self {
            state,
            pending: [0; BLOCK],
            filled: 0,
            bytes: 0,
        }
    }

    fn update(&mut self, mut bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        if self.filled > 0 {
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK - self.filled));
            self.pending[self.filled..][..now.len()].copy_from_slice(now);
            self.filled += now.len();
            if self.filled < BLOCK {
                return;
            }
            self.state.compress(slice::from_ref(&self.pending));
            bytes = later;
        }
        let (blocks, rest) = bytes.as_chunks::<BLOCK>();
        self.state.compress(blocks);
        self.pending[..rest.len()].copy_from_slice(rest);
        self.filled = rest.len();
    }

    /// Adds the padding (one bit, zeros, and the length in bits: FIPS 180-4, 5.1), and
    /// returns the digest.
    fn finish(mut self) -> Box<[u8]> {
        let (_, rest) = self.pending.split_at_mut(self.filled);
        rest.fill(0);
        rest[0] = 0x80;
        if rest.len() <= Self::LENGTH_FIELD {
            self.state.compress(slice::from_ref(&self.pending));
            self.pending.fill(0);
        }
        let bits = (u128::from(self.bytes) * 8).to_be_bytes();
        let field = BLOCK - Self::LENGTH_FIELD;
        self.pending[field..].copy_from_slice(&bits[bits.len() - Self::LENGTH_FIELD..]);
        self.state.compress(slice::from_ref(&self.pending));
        self.state.digest()
    }
}

/// FIPS 180-4, 5.3.2.
const SHA224: [u32; 8] = [
    0xc105_9ed8,
    0x367c_d507,
    0x3070_dd17,
    0xf70e_5939,
    0xffc0_0b31,
    0x6858_1511,
    0x64f9_8fa7,
    0xbefa_4fa4,
];
/// FIPS 180-4, 5.3.3.
const SHA256: [u32; 8] = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];
/// FIPS 180-4, 5.3.4.
const SHA384: [u64; 8] = [
    0xcbbb_9d5d_c105_9ed8,
    0x629a_292a_367c_d507,
    0x9159_015a_3070_dd17,
    0x152f_ecd8_f70e_5939,
    0x6733_2667_ffc0_0b31,
    0x8eb4_4a87_6858_1511,
    0xdb0c_2e0d_64f9_8fa7,
    0x47b5_481d_befa_4fa4,
];
/// FIPS 180-4, 5.3.5.
const SHA512: [u64; 8] = [
    0x6a09_e667_f3bc_c908,
    0xbb67_ae85_84ca_a73b,
    0x3c6e_f372_fe94_f82b,
    0xa54f_f53a_5f1d_36f1,
    0x510e_527f_ade6_82d1,
    0x9b05_688c_2b3e_6c1f,
    0x1f83_d9ab_fb41_bd6b,
    0x5be0_cd19_137e_2179,
];

#[cfg(test)]
mod tests {
    use sha2::block_api::{compress256, compress512};
    use sha2::{Digest as _, Sha256, Sha512};

    use super::*;

    /// Uses the compression functions of the crate `sha2`, so that this test runs on
    /// every processor.
    struct OfTheCrate<Word>([Word; 8]);

    impl Compress<64> for OfTheCrate<u32> {
        fn compress(&mut self, blocks: &[[u8; 64]]) {
            compress256(&mut self.0, blocks);
        }

        fn digest(self) -> Box<[u8]> {
            self.0.map(u32::to_be_bytes).as_flattened().into()
        }
    }

    impl Compress<128> for OfTheCrate<u64> {
        fn compress(&mut self, blocks: &[[u8; 128]]) {
            compress512(&mut self.0, blocks);
        }

        fn digest(self) -> Box<[u8]> {
            self.0.map(u64::to_be_bytes).as_flattened().into()
        }
    }

    /// Every length up to four blocks, in one piece and cut in two.
    #[test]
    fn bytes_are_divided_and_padded_as_the_crate_does() {
        let message: Vec<u8> = (0..=255).cycle().take(4 * 128 + 1).collect();
        for length in 0..message.len() {
            let message = &message[..length];
            for cut in [0, 1, 63, 64, 65, 127, 128, 129] {
                let (start, end) = message.split_at(cut.min(length));
                let mut short = Stream::<_, 64>::new(OfTheCrate(SHA256));
                short.update(start);
                short.update(end);
                assert_eq!(
                    short.finish()[..],
                    Sha256::digest(message)[..],
                    "{length} bytes, cut at {cut}"
                );
                let mut long = Stream::<_, 128>::new(OfTheCrate(SHA512));
                long.update(start);
                long.update(end);
                assert_eq!(
                    long.finish()[..],
                    Sha512::digest(message)[..],
                    "{length} bytes, cut at {cut}"
                );
            }
        }
    }
}
