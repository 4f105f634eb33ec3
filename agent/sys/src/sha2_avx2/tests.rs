//! Compares the compression functions with those of the crate `sha2`.

use proptest::prelude::*;
use sha2::block_api::{compress256, compress512};

use super::Avx2;
use crate::skip::skip;

/// Up to nine blocks, so an even or an odd number of them.
fn any_blocks<const SIZE: usize>() -> impl Strategy<Value = Vec<[u8; SIZE]>> {
    let bytes = prop::collection::vec(any::<u8>(), 0..=9 * SIZE);
    bytes.prop_map(|bytes| bytes.as_chunks::<SIZE>().0.to_vec())
}

proptest! {
    #[test]
    fn sha256_is_that_of_the_crate(state in any::<[u32; 8]>(), blocks in any_blocks::<64>()) {
        let Some(avx2) = Avx2::detect() else {
            skip("this processor has no AVX2 or no BMI2");
            return Ok(());
        };
        let (mut found, mut expected) = (state, state);
        avx2.compress256(&mut found, &blocks);
        compress256(&mut expected, &blocks);
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn sha512_is_that_of_the_crate(state in any::<[u64; 8]>(), blocks in any_blocks::<128>()) {
        let Some(avx2) = Avx2::detect() else {
            skip("this processor has no AVX2 or no BMI2");
            return Ok(());
        };
        let (mut found, mut expected) = (state, state);
        avx2.compress512(&mut found, &blocks);
        compress512(&mut expected, &blocks);
        prop_assert_eq!(found, expected);
    }
}
