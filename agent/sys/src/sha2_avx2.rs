//! The compression functions of SHA-2 for x86-64 processors without SHA instructions.
//!
//! These are the Intel servers from Haswell (2013) to Cascade Lake for SHA-256, and all
//! x86-64 servers for SHA-384 and SHA-512. These processors have AVX2 and BMI2, and
//! OpenSSL uses both instruction sets on them. The Rust libraries do not: `sha2` has no
//! AVX2 code for SHA-256, and `ring` disables the AVX2 code in its assembly (`$avx = 1`
//! in its sha512-x86_64.pl, which says that this costs 13 to 16 %).
//!
//! Both functions have the same structure. The message schedule of two consecutive
//! blocks is computed in the two halves of the 256-bit registers, between the rounds of
//! the first block. The rounds of the second block then only read the schedule.

use std::arch::is_x86_feature_detected;
use std::arch::x86_64::{__m128i, __m256i, _mm_loadu_si128, _mm256_storeu_si256};
use std::ptr;

/// One round (FIPS 180-4, 6.2.2 and 6.4.2). It changes only `d` and `h`. The standard
/// moves each value to the next variable after a round. Here the caller passes the
/// variables to the next round in rotated order instead.
///
/// `b ^ c` is the `a ^ b` of the previous round, so the compiler computes it once.
macro_rules! round {
    ($a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident, $word:expr) => {
        $h = $h
            .wrapping_add(read($word))
            .wrapping_add(($e & $f) | (!$e & $g))
            .wrapping_add(upper_sigma1($e));
        $d = $d.wrapping_add($h);
        $h = $h
            .wrapping_add((($a ^ $b) & ($b ^ $c)) ^ $b)
            .wrapping_add(upper_sigma0($a));
    };
}

mod sha256;
mod sha512;
#[cfg(test)]
mod tests;

/// A processor that has AVX2, BMI1 and BMI2. Only [`Avx2::detect`] makes such a value,
/// so code that has a value of this type may use these instructions.
#[derive(Clone, Copy, Debug)]
pub struct Avx2(());

impl Avx2 {
    /// `None` if this processor lacks one of the instruction sets, or if the kernel does
    /// not save the 256-bit registers.
    pub fn detect() -> Option<Self> {
        let has_all = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2");
        has_all.then_some(Self(()))
    }

    /// Updates the state of SHA-224 or SHA-256 with these blocks.
    pub fn compress256(self, state: &mut [u32; 8], blocks: &[[u8; 64]]) {
        // SAFETY: a value of this type proves that the processor has the instructions.
        unsafe { sha256::compress(state, blocks) }
    }

    /// Updates the state of SHA-384 or SHA-512 with these blocks.
    pub fn compress512(self, state: &mut [u64; 8], blocks: &[[u8; 128]]) {
        // SAFETY: as in compress256.
        unsafe { sha512::compress(state, blocks) }
    }
}

/// Arrays of integers: they have no padding, and every bit pattern is a valid value.
trait Integers {}

impl Integers for [u8; 16] {}
impl Integers for [u32; 4] {}
impl Integers for [u64; 2] {}
impl Integers for [[u32; 4]; 2] {}
impl Integers for [[u64; 2]; 2] {}

#[inline]
#[target_feature(enable = "avx2")]
fn load<T: Integers>(from: &T) -> __m128i {
    const { assert!(size_of::<T>() == 16) };
    // SAFETY: the reference is valid for the 16 bytes that this reads. They need no
    // alignment.
    unsafe { _mm_loadu_si128(ptr::from_ref(from).cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store<T: Integers>(to: &mut T, value: __m256i) {
    const { assert!(size_of::<T>() == 32) };
    // SAFETY: the reference is valid for the 32 bytes that this writes. They need no
    // alignment, and every bit pattern is a valid T.
    unsafe { _mm256_storeu_si256(ptr::from_mut(to).cast(), value) }
}

/// Reads a word of the schedule from memory. Without `volatile` the compiler may
/// extract the word from the vector register instead, which takes two instructions per
/// word.
#[inline(always)]
fn read<T: Copy>(word: &T) -> T {
    // SAFETY: a reference is aligned and valid for reads.
    unsafe { ptr::read_volatile(word) }
}
