//! SHA-384 and SHA-512: two words of each block in a register.

use std::arch::x86_64::{
    __m256i, _mm256_add_epi64, _mm256_alignr_epi8, _mm256_broadcastsi128_si256, _mm256_set_epi64x,
    _mm256_set_m128i, _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_slli_epi64,
    _mm256_srli_epi64, _mm256_xor_si256,
};

use super::{load, read, store};

/// Words of the schedule with the round constants added, for two rounds of the first
/// block and of the second block.
type Group = [[u64; 2]; 2];

/// The words for all rounds, in parts of sixteen rounds.
#[repr(align(32))]
struct Schedule([[Group; 8]; 5]);

#[target_feature(enable = "avx2,bmi1,bmi2")]
pub(super) fn compress(state: &mut [u64; 8], blocks: &[[u8; 128]]) {
    let mut schedule = Schedule([[[[0; 2]; 2]; 8]; 5]);
    let (pairs, last) = blocks.as_chunks::<2>();
    for [first, second] in pairs {
        first_block(state, first, second, &mut schedule);
        second_block(state, &schedule);
    }
    if let [only] = last {
        first_block(state, only, only, &mut schedule);
    }
}

macro_rules! two_rounds {
    ($a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident, $words:expr) => {
        let words: &[u64; 2] = $words;
        round!($a $b $c $d $e $f $g $h, &words[0]);
        round!($h $a $b $c $d $e $f $g, &words[1]);
    };
}

macro_rules! sixteen_rounds {
    ($a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident, $part:expr, $block:literal) => {
        let part: &[Group; 8] = $part;
        two_rounds!($a $b $c $d $e $f $g $h, &part[0][$block]);
        two_rounds!($g $h $a $b $c $d $e $f, &part[1][$block]);
        two_rounds!($e $f $g $h $a $b $c $d, &part[2][$block]);
        two_rounds!($c $d $e $f $g $h $a $b, &part[3][$block]);
        two_rounds!($a $b $c $d $e $f $g $h, &part[4][$block]);
        two_rounds!($g $h $a $b $c $d $e $f, &part[5][$block]);
        two_rounds!($e $f $g $h $a $b $c $d, &part[6][$block]);
        two_rounds!($c $d $e $f $g $h $a $b, &part[7][$block]);
    };
}

/// Computes the schedule of both blocks, and updates the state with the first block.
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn first_block(
    state: &mut [u64; 8],
    first: &[u8; 128],
    second: &[u8; 128],
    schedule: &mut Schedule,
) {
    let mut x = words_of(first, second);
    for (group, (words, constants)) in schedule.0[0].iter_mut().zip(x.iter().zip(&K[0])) {
        store_sum(group, *words, constants);
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    for part in 0..4 {
        let (made, ahead) = schedule.0.split_at_mut(part + 1);
        let (now, next, constants) = (&made[part], &mut ahead[0], &K[part + 1]);
        x[0] = extended(x[0], x[1], x[4], x[5], x[7]);
        store_sum(&mut next[0], x[0], &constants[0]);
        two_rounds!(a b c d e f g h, &now[0][0]);
        x[1] = extended(x[1], x[2], x[5], x[6], x[0]);
        store_sum(&mut next[1], x[1], &constants[1]);
        two_rounds!(g h a b c d e f, &now[1][0]);
        x[2] = extended(x[2], x[3], x[6], x[7], x[1]);
        store_sum(&mut next[2], x[2], &constants[2]);
        two_rounds!(e f g h a b c d, &now[2][0]);
        x[3] = extended(x[3], x[4], x[7], x[0], x[2]);
        store_sum(&mut next[3], x[3], &constants[3]);
        two_rounds!(c d e f g h a b, &now[3][0]);
        x[4] = extended(x[4], x[5], x[0], x[1], x[3]);
        store_sum(&mut next[4], x[4], &constants[4]);
        two_rounds!(a b c d e f g h, &now[4][0]);
        x[5] = extended(x[5], x[6], x[1], x[2], x[4]);
        store_sum(&mut next[5], x[5], &constants[5]);
        two_rounds!(g h a b c d e f, &now[5][0]);
        x[6] = extended(x[6], x[7], x[2], x[3], x[5]);
        store_sum(&mut next[6], x[6], &constants[6]);
        two_rounds!(e f g h a b c d, &now[6][0]);
        x[7] = extended(x[7], x[0], x[3], x[4], x[6]);
        store_sum(&mut next[7], x[7], &constants[7]);
        two_rounds!(c d e f g h a b, &now[7][0]);
    }
    sixteen_rounds!(a b c d e f g h, &schedule.0[4], 0);
    add(state, [a, b, c, d, e, f, g, h]);
}

#[target_feature(enable = "avx2,bmi1,bmi2")]
fn second_block(state: &mut [u64; 8], schedule: &Schedule) {
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    for part in &schedule.0 {
        sixteen_rounds!(a b c d e f g h, part, 1);
    }
    add(state, [a, b, c, d, e, f, g, h]);
}

/// The first sixteen schedule words of each block: its bytes as big-endian words.
#[inline]
#[target_feature(enable = "avx2")]
fn words_of(first: &[u8; 128], second: &[u8; 128]) -> [__m256i; 8] {
    let swap = _mm256_set_epi64x(
        0x0809_0a0b_0c0d_0e0f,
        0x0001_0203_0405_0607,
        0x0809_0a0b_0c0d_0e0f,
        0x0001_0203_0405_0607,
    );
    let (first, _) = first.as_chunks::<16>();
    let (second, _) = second.as_chunks::<16>();
    let mut x = [_mm256_setzero_si256(); 8];
    for (words, (low, high)) in x.iter_mut().zip(first.iter().zip(second)) {
        *words = _mm256_shuffle_epi8(_mm256_set_m128i(load(high), load(low)), swap);
    }
    x
}

/// The two words of the schedule that follow sixteen words (FIPS 180-4, 6.4.2),
/// computed from the pairs that contain the words 0 to 3, 8 to 11, and 14 and 15.
#[inline]
#[target_feature(enable = "avx2")]
fn extended(x0: __m256i, x1: __m256i, x4: __m256i, x5: __m256i, x7: __m256i) -> __m256i {
    let back_15 = _mm256_alignr_epi8::<8>(x1, x0);
    let back_7 = _mm256_alignr_epi8::<8>(x5, x4);
    _mm256_add_epi64(
        _mm256_add_epi64(x0, back_7),
        _mm256_add_epi64(sigma0(back_15), sigma1(x7)),
    )
}

#[inline]
#[target_feature(enable = "avx2")]
fn sigma0(x: __m256i) -> __m256i {
    // A rotation by eight bits moves whole bytes.
    let rotation = _mm256_set_epi64x(
        0x080f_0e0d_0c0b_0a09,
        0x0007_0605_0403_0201,
        0x080f_0e0d_0c0b_0a09,
        0x0007_0605_0403_0201,
    );
    let by_1 = _mm256_xor_si256(_mm256_srli_epi64::<1>(x), _mm256_slli_epi64::<63>(x));
    let by_8 = _mm256_shuffle_epi8(x, rotation);
    _mm256_xor_si256(_mm256_xor_si256(by_1, by_8), _mm256_srli_epi64::<7>(x))
}

#[inline]
#[target_feature(enable = "avx2")]
fn sigma1(x: __m256i) -> __m256i {
    let by_19 = _mm256_xor_si256(_mm256_srli_epi64::<19>(x), _mm256_slli_epi64::<45>(x));
    let by_61 = _mm256_xor_si256(_mm256_srli_epi64::<61>(x), _mm256_slli_epi64::<3>(x));
    _mm256_xor_si256(_mm256_xor_si256(by_19, by_61), _mm256_srli_epi64::<6>(x))
}

#[inline]
#[target_feature(enable = "avx2")]
fn store_sum(group: &mut Group, words: __m256i, constants: &[u64; 2]) {
    let constants = _mm256_broadcastsi128_si256(load(constants));
    store(group, _mm256_add_epi64(words, constants));
}

#[inline(always)]
fn upper_sigma0(a: u64) -> u64 {
    a.rotate_right(28) ^ a.rotate_right(34) ^ a.rotate_right(39)
}

#[inline(always)]
fn upper_sigma1(e: u64) -> u64 {
    e.rotate_right(14) ^ e.rotate_right(18) ^ e.rotate_right(41)
}

#[inline(always)]
fn add(state: &mut [u64; 8], words: [u64; 8]) {
    for (sum, word) in state.iter_mut().zip(words) {
        *sum = sum.wrapping_add(word);
    }
}

/// FIPS 180-4, 4.2.3.
#[rustfmt::skip]
static K: [[[u64; 2]; 8]; 5] = [
    [
        [0x428a_2f98_d728_ae22, 0x7137_4491_23ef_65cd],
        [0xb5c0_fbcf_ec4d_3b2f, 0xe9b5_dba5_8189_dbbc],
        [0x3956_c25b_f348_b538, 0x59f1_11f1_b605_d019],
        [0x923f_82a4_af19_4f9b, 0xab1c_5ed5_da6d_8118],
        [0xd807_aa98_a303_0242, 0x1283_5b01_4570_6fbe],
        [0x2431_85be_4ee4_b28c, 0x550c_7dc3_d5ff_b4e2],
        [0x72be_5d74_f27b_896f, 0x80de_b1fe_3b16_96b1],
        [0x9bdc_06a7_25c7_1235, 0xc19b_f174_cf69_2694],
    ],
    [
        [0xe49b_69c1_9ef1_4ad2, 0xefbe_4786_384f_25e3],
        [0x0fc1_9dc6_8b8c_d5b5, 0x240c_a1cc_77ac_9c65],
        [0x2de9_2c6f_592b_0275, 0x4a74_84aa_6ea6_e483],
        [0x5cb0_a9dc_bd41_fbd4, 0x76f9_88da_8311_53b5],
        [0x983e_5152_ee66_dfab, 0xa831_c66d_2db4_3210],
        [0xb003_27c8_98fb_213f, 0xbf59_7fc7_beef_0ee4],
        [0xc6e0_0bf3_3da8_8fc2, 0xd5a7_9147_930a_a725],
        [0x06ca_6351_e003_826f, 0x1429_2967_0a0e_6e70],
    ],
    [
        [0x27b7_0a85_46d2_2ffc, 0x2e1b_2138_5c26_c926],
        [0x4d2c_6dfc_5ac4_2aed, 0x5338_0d13_9d95_b3df],
        [0x650a_7354_8baf_63de, 0x766a_0abb_3c77_b2a8],
        [0x81c2_c92e_47ed_aee6, 0x9272_2c85_1482_353b],
        [0xa2bf_e8a1_4cf1_0364, 0xa81a_664b_bc42_3001],
        [0xc24b_8b70_d0f8_9791, 0xc76c_51a3_0654_be30],
        [0xd192_e819_d6ef_5218, 0xd699_0624_5565_a910],
        [0xf40e_3585_5771_202a, 0x106a_a070_32bb_d1b8],
    ],
    [
        [0x19a4_c116_b8d2_d0c8, 0x1e37_6c08_5141_ab53],
        [0x2748_774c_df8e_eb99, 0x34b0_bcb5_e19b_48a8],
        [0x391c_0cb3_c5c9_5a63, 0x4ed8_aa4a_e341_8acb],
        [0x5b9c_ca4f_7763_e373, 0x682e_6ff3_d6b2_b8a3],
        [0x748f_82ee_5def_b2fc, 0x78a5_636f_4317_2f60],
        [0x84c8_7814_a1f0_ab72, 0x8cc7_0208_1a64_39ec],
        [0x90be_fffa_2363_1e28, 0xa450_6ceb_de82_bde9],
        [0xbef9_a3f7_b2c6_7915, 0xc671_78f2_e372_532b],
    ],
    [
        [0xca27_3ece_ea26_619c, 0xd186_b8c7_21c0_c207],
        [0xeada_7dd6_cde0_eb1e, 0xf57d_4f7f_ee6e_d178],
        [0x06f0_67aa_7217_6fba, 0x0a63_7dc5_a2c8_98a6],
        [0x113f_9804_bef9_0dae, 0x1b71_0b35_131c_471b],
        [0x28db_77f5_2304_7d84, 0x32ca_ab7b_40c7_2493],
        [0x3c9e_be0a_15c9_bebc, 0x431d_67c4_9c10_0d4c],
        [0x4cc5_d4be_cb3e_42b6, 0x597f_299c_fc65_7e2a],
        [0x5fcb_6fab_3ad6_faec, 0x6c44_198c_4a47_5817],
    ],
];
