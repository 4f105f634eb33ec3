//! SHA-224 and SHA-256: four words of each block in a register.

use std::arch::x86_64::{
    __m256i, _mm256_add_epi32, _mm256_alignr_epi8, _mm256_broadcastsi128_si256, _mm256_set_epi64x,
    _mm256_set_m128i, _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_shuffle_epi32,
    _mm256_slli_epi32, _mm256_srli_epi32, _mm256_srli_epi64, _mm256_xor_si256,
};

use super::{load, read, store};

/// Words of the schedule with the round constants added, for four rounds of the first
/// block and of the second block.
type Group = [[u32; 4]; 2];

/// The words for all rounds, in parts of sixteen rounds.
#[repr(align(32))]
struct Schedule([[Group; 4]; 4]);

#[target_feature(enable = "avx2,bmi1,bmi2")]
pub(super) fn compress(state: &mut [u32; 8], blocks: &[[u8; 64]]) {
    let mut schedule = Schedule([[[[0; 4]; 2]; 4]; 4]);
    let (pairs, last) = blocks.as_chunks::<2>();
    for [first, second] in pairs {
        first_block(state, first, second, &mut schedule);
        second_block(state, &schedule);
    }
    if let [only] = last {
        first_block(state, only, only, &mut schedule);
    }
}

macro_rules! four_rounds {
    ($a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident, $words:expr) => {
        let words: &[u32; 4] = $words;
        round!($a $b $c $d $e $f $g $h, &words[0]);
        round!($h $a $b $c $d $e $f $g, &words[1]);
        round!($g $h $a $b $c $d $e $f, &words[2]);
        round!($f $g $h $a $b $c $d $e, &words[3]);
    };
}

macro_rules! sixteen_rounds {
    ($a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident, $part:expr, $block:literal) => {
        let part: &[Group; 4] = $part;
        four_rounds!($a $b $c $d $e $f $g $h, &part[0][$block]);
        four_rounds!($e $f $g $h $a $b $c $d, &part[1][$block]);
        four_rounds!($a $b $c $d $e $f $g $h, &part[2][$block]);
        four_rounds!($e $f $g $h $a $b $c $d, &part[3][$block]);
    };
}

/// Computes the schedule of both blocks, and updates the state with the first block.
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn first_block(state: &mut [u32; 8], first: &[u8; 64], second: &[u8; 64], schedule: &mut Schedule) {
    let mut x = words_of(first, second);
    for (group, (words, constants)) in schedule.0[0].iter_mut().zip(x.iter().zip(&K[0])) {
        store_sum(group, *words, constants);
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    for part in 0..3 {
        let (made, ahead) = schedule.0.split_at_mut(part + 1);
        let (now, next, constants) = (&made[part], &mut ahead[0], &K[part + 1]);
        x[0] = extended(x[0], x[1], x[2], x[3]);
        store_sum(&mut next[0], x[0], &constants[0]);
        four_rounds!(a b c d e f g h, &now[0][0]);
        x[1] = extended(x[1], x[2], x[3], x[0]);
        store_sum(&mut next[1], x[1], &constants[1]);
        four_rounds!(e f g h a b c d, &now[1][0]);
        x[2] = extended(x[2], x[3], x[0], x[1]);
        store_sum(&mut next[2], x[2], &constants[2]);
        four_rounds!(a b c d e f g h, &now[2][0]);
        x[3] = extended(x[3], x[0], x[1], x[2]);
        store_sum(&mut next[3], x[3], &constants[3]);
        four_rounds!(e f g h a b c d, &now[3][0]);
    }
    sixteen_rounds!(a b c d e f g h, &schedule.0[3], 0);
    add(state, [a, b, c, d, e, f, g, h]);
}

#[target_feature(enable = "avx2,bmi1,bmi2")]
fn second_block(state: &mut [u32; 8], schedule: &Schedule) {
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    for part in &schedule.0 {
        sixteen_rounds!(a b c d e f g h, part, 1);
    }
    add(state, [a, b, c, d, e, f, g, h]);
}

/// The first sixteen schedule words of each block: its bytes as big-endian words.
#[inline]
#[target_feature(enable = "avx2")]
fn words_of(first: &[u8; 64], second: &[u8; 64]) -> [__m256i; 4] {
    let swap = _mm256_set_epi64x(
        0x0c0d_0e0f_0809_0a0b,
        0x0405_0607_0001_0203,
        0x0c0d_0e0f_0809_0a0b,
        0x0405_0607_0001_0203,
    );
    let (first, _) = first.as_chunks::<16>();
    let (second, _) = second.as_chunks::<16>();
    let mut x = [_mm256_setzero_si256(); 4];
    for (words, (low, high)) in x.iter_mut().zip(first.iter().zip(second)) {
        *words = _mm256_shuffle_epi8(_mm256_set_m128i(load(high), load(low)), swap);
    }
    x
}

/// The four words of the schedule that follow the sixteen words in `x0` to `x3` (FIPS
/// 180-4, 6.2.2).
#[inline]
#[target_feature(enable = "avx2")]
fn extended(x0: __m256i, x1: __m256i, x2: __m256i, x3: __m256i) -> __m256i {
    let back_15 = _mm256_alignr_epi8::<4>(x1, x0);
    let back_7 = _mm256_alignr_epi8::<4>(x3, x2);
    let sum = _mm256_add_epi32(_mm256_add_epi32(x0, back_7), sigma0(back_15));
    // sigma1 takes the word two places before, so the last two new words depend on the
    // first two new words.
    let zeros = i64::from_ne_bytes([0x80; 8]);
    let results = 0x0b0a_0908_0302_0100;
    let to_first = _mm256_set_epi64x(zeros, results, zeros, results);
    let to_last = _mm256_set_epi64x(results, zeros, results, zeros);
    let doubled = _mm256_shuffle_epi32::<0b11_11_10_10>(x3);
    let sum = _mm256_add_epi32(sum, _mm256_shuffle_epi8(sigma1(doubled), to_first));
    let doubled = _mm256_shuffle_epi32::<0b01_01_00_00>(sum);
    _mm256_add_epi32(sum, _mm256_shuffle_epi8(sigma1(doubled), to_last))
}

#[inline]
#[target_feature(enable = "avx2")]
fn sigma0(x: __m256i) -> __m256i {
    let by_7 = _mm256_xor_si256(_mm256_srli_epi32::<7>(x), _mm256_slli_epi32::<25>(x));
    let by_18 = _mm256_xor_si256(_mm256_srli_epi32::<18>(x), _mm256_slli_epi32::<14>(x));
    _mm256_xor_si256(_mm256_xor_si256(by_7, by_18), _mm256_srli_epi32::<3>(x))
}

/// Each 64 bits of `doubled` contain a 32-bit word twice, so a shift of all 64 bits
/// rotates the word in the lower half. The upper halves of the result have no meaning.
#[inline]
#[target_feature(enable = "avx2")]
fn sigma1(doubled: __m256i) -> __m256i {
    let by_17 = _mm256_srli_epi64::<17>(doubled);
    let by_19 = _mm256_srli_epi64::<19>(doubled);
    _mm256_xor_si256(
        _mm256_xor_si256(by_17, by_19),
        _mm256_srli_epi32::<10>(doubled),
    )
}

#[inline]
#[target_feature(enable = "avx2")]
fn store_sum(group: &mut Group, words: __m256i, constants: &[u32; 4]) {
    let constants = _mm256_broadcastsi128_si256(load(constants));
    store(group, _mm256_add_epi32(words, constants));
}

#[inline(always)]
fn upper_sigma0(a: u32) -> u32 {
    a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22)
}

#[inline(always)]
fn upper_sigma1(e: u32) -> u32 {
    e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25)
}

#[inline(always)]
fn add(state: &mut [u32; 8], words: [u32; 8]) {
    for (sum, word) in state.iter_mut().zip(words) {
        *sum = sum.wrapping_add(word);
    }
}

/// FIPS 180-4, 4.2.2.
#[rustfmt::skip]
static K: [[[u32; 4]; 4]; 4] = [
    [
        [0x428a_2f98, 0x7137_4491, 0xb5c0_fbcf, 0xe9b5_dba5],
        [0x3956_c25b, 0x59f1_11f1, 0x923f_82a4, 0xab1c_5ed5],
        [0xd807_aa98, 0x1283_5b01, 0x2431_85be, 0x550c_7dc3],
        [0x72be_5d74, 0x80de_b1fe, 0x9bdc_06a7, 0xc19b_f174],
    ],
    [
        [0xe49b_69c1, 0xefbe_4786, 0x0fc1_9dc6, 0x240c_a1cc],
        [0x2de9_2c6f, 0x4a74_84aa, 0x5cb0_a9dc, 0x76f9_88da],
        [0x983e_5152, 0xa831_c66d, 0xb003_27c8, 0xbf59_7fc7],
        [0xc6e0_0bf3, 0xd5a7_9147, 0x06ca_6351, 0x1429_2967],
    ],
    [
        [0x27b7_0a85, 0x2e1b_2138, 0x4d2c_6dfc, 0x5338_0d13],
        [0x650a_7354, 0x766a_0abb, 0x81c2_c92e, 0x9272_2c85],
        [0xa2bf_e8a1, 0xa81a_664b, 0xc24b_8b70, 0xc76c_51a3],
        [0xd192_e819, 0xd699_0624, 0xf40e_3585, 0x106a_a070],
    ],
    [
        [0x19a4_c116, 0x1e37_6c08, 0x2748_774c, 0x34b0_bcb5],
        [0x391c_0cb3, 0x4ed8_aa4a, 0x5b9c_ca4f, 0x682e_6ff3],
        [0x748f_82ee, 0x78a5_636f, 0x84c8_7814, 0x8cc7_0208],
        [0x90be_fffa, 0xa450_6ceb, 0xbef9_a3f7, 0xc671_78f2],
    ],
];
